package plan

import (
	"fmt"
	"path"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// relocatable reports whether a source's object takes part in a device link.
func relocatable(s manifest.Source) bool {
	return isDevice(s) && (s.Mode == "rdc" || s.Mode == "lto")
}

// needsDeviceLink reports relocatable device code in t or in the static libraries it links that no
// device link has closed yet.
func (b *builder) needsDeviceLink(t *target, l linkage) bool {
	return len(b.parts(t, l)) > 0
}

// part is one target that brings device code to a link.
type part struct {
	t   *target
	lto bool // has LTO-IR
	rdc bool // has machine code or PTX without LTO-IR
}

// parts are the targets with relocatable device code in the link of t, t first.
func (b *builder) parts(t *target, l linkage) []part {
	closed := map[*target]bool{}
	for _, s := range l.statics {
		if s.DeviceLink && s != t {
			closed[s] = true
			for _, u := range b.reached(s) {
				closed[u] = true
			}
		}
	}
	var out []part
	for _, u := range append(append([]*target{t}, l.statics...), l.pre...) {
		if closed[u] {
			continue
		}
		p := part{t: u}
		for _, s := range u.Sources {
			p.lto = p.lto || relocatable(s) && s.Mode == "lto"
			p.rdc = p.rdc || relocatable(s) && s.Mode == "rdc"
		}
		for _, m := range b.facts.Prebuilt[u.file].Members {
			switch {
			case t.isHIP():
				p.rdc = p.rdc || m.Relocatable && !m.NVLinkReads()
			case m.NVLinkReads():
				p.lto = p.lto || holds(m, gencode.LTO)
				p.rdc = p.rdc || !holds(m, gencode.LTO)
			}
		}
		if p.lto || p.rdc {
			out = append(out, p)
		}
	}
	return out
}

func holds(m Member, k gencode.Kind) bool {
	for _, img := range m.Images {
		if img.Kind == k {
			return true
		}
	}
	return false
}

// deviceLink plans the device link of t and returns its object. nvlink sees every relocatable object
// and archive of the program exactly once; the host link then takes the same ones.
func (b *builder) deviceLink(t *target, l linkage) string {
	nvcc, ok := b.nvcc(t.Pos)
	if !ok {
		return ""
	}
	parts := b.parts(t, l)
	keeps := b.keepsAll(t)
	link := toolchain.DeviceLink{Codes: t.codes.sass, KeepAll: keeps != "", NVLink: t.Flags.NVLink}
	for _, p := range parts {
		link.LTO = link.LTO || p.lto
	}
	if !b.checkLink(t, parts, link.LTO) {
		return ""
	}
	check := &graph.LinkCheck{LTO: link.LTO, Owners: map[string]string{}, OwnerPos: map[string]graph.Pos{}}
	for _, p := range parts {
		files := b.linkInputs(t, p, check)
		for _, f := range files {
			check.Owners[f], check.OwnerPos[f] = p.t.label, graphPos(p.t.Pos)
		}
		link.Inputs = append(link.Inputs, files...)
	}
	for _, file := range b.deviceLibs(t, l.libs, link.Codes) {
		link.Inputs = append(link.Inputs, file)
		check.Owners[file], check.OwnerPos[file] = t.label, graphPos(t.attr("libs"))
	}
	link.Output = b.out("obj", fileName(t), "dlink.o")
	o := b.deviceOptions(t, manifest.Source{Flags: t.Flags}, nil)
	whole := &graph.Action{
		Kind: graph.DeviceLink, Name: t.Name, Archs: names(link.Codes), Mode: linkMode(link.LTO),
		Argv: nvcc.DeviceLink(link, o), Inputs: link.Inputs, Outputs: []string{link.Output},
		Tools: []string{"nvcc"}, Pool: devicePool, Link: check, Response: 1, ResponseFlag: "--options-file=", KeepsAll: keeps,
	}
	if keeps == "" {
		whole.HostRefs = b.hostRefs(t)
	}
	b.emitLink(t, whole, nvcc, link, o, nil)
	return link.Output
}

func linkMode(lto bool) string {
	if lto {
		return "lto"
	}
	return "rdc"
}

// linkInputs are the files of p that the device link of t reads: own relocatable objects, or the
// archive of a library, of which nvlink takes every member.
func (b *builder) linkInputs(t *target, p part, check *graph.LinkCheck) []string {
	if p.t.Kind == manifest.Prebuilt {
		if p.t.LTO == "none" {
			check.NonLTO = append(check.NonLTO, p.t.file)
		}
		return []string{p.t.file}
	}
	archive := ""
	if p.t != t {
		archive = p.t.file
	}
	var objs []string
	for _, o := range p.t.objects {
		if !relocatable(o.source) {
			continue
		}
		objs = append(objs, o.path)
		if o.source.Mode == "rdc" {
			name := o.path
			if archive != "" {
				name = archive + ":" + path.Base(o.path)
			}
			check.NonLTO = append(check.NonLTO, name)
		}
	}
	if archive != "" {
		return []string{archive}
	}
	return objs
}

// checkLink finds what would make the linked program wrong before anything is compiled: a missing
// architecture, LTO that is only partial without anybody having said so, options that differ.
func (b *builder) checkLink(t *target, parts []part, lto bool) bool {
	before := len(b.problems)
	if len(t.codes.sass) == 0 {
		b.errorf(t.attr("gencode"), "Add the architectures to link for, for example sm_80.", "%s links device code and ships no machine code", t.label)
		return false
	}
	if len(t.codes.ptx) > 0 {
		b.warnf(t.attr("gencode"), "A device link makes machine code only. Set mode = \"whole\" to ship PTX, or drop "+spell(t.codes.ptx)+".",
			"%s does not ship %s: its device code is linked", t.label, spell(t.codes.ptx))
	}
	for _, p := range parts {
		if p.t.Kind == manifest.Prebuilt {
			b.checkPrebuilt(t, p, lto)
		} else {
			b.checkCoverage(t, p, lto)
		}
	}
	if lto {
		b.checkLTO(t, parts)
	}
	b.checkLibraries(t, nil, t.Flags.NVLink, "cudadevrt")
	b.checkClosed(t)
	for _, p := range b.problems[before:] {
		if !p.Warning {
			return false
		}
	}
	return true
}

// checkCoverage wants an image of p for each architecture that t links.
func (b *builder) checkCoverage(t *target, p part, lto bool) {
	modes := map[string]bool{}
	for _, s := range p.t.Sources {
		if relocatable(s) {
			modes[s.Mode] = true
		}
	}
	for _, mode := range []string{"rdc", "lto"} {
		if !modes[mode] {
			continue
		}
		var images []gencode.Image
		for _, c := range p.t.codes.compileCodes(mode) {
			images = append(images, gencode.Image{Kind: c.Kind, Num: c.Num, Suffix: c.Suffix})
		}
		for _, want := range t.codes.sass {
			if !anyLinks(images, want, lto) {
				b.add(Problem{Pos: t.attr("gencode"), Summary: fmt.Sprintf("%s needs %s, but %s has %s only", t.label, want, p.t.label, spell(p.t.codes.compileCodes(mode))),
					Detail: "Without it the program would hold no code of it for that architecture. Add it to " + p.t.label + ", or drop it here.",
					Also:   p.t.attr("gencode"), AlsoSay: p.t.label + " says what it has"})
			}
		}
	}
}

func anyLinks(images []gencode.Image, want gencode.Code, lto bool) bool {
	for _, img := range images {
		if gencode.LinksInto(img, want, lto) {
			return true
		}
	}
	return false
}

// checkPrebuilt holds the manifest's word on a prebuilt against what the file really is.
func (b *builder) checkPrebuilt(t *target, p part, lto bool) {
	for _, m := range b.facts.Prebuilt[p.t.file].Members {
		if !m.NVLinkReads() {
			continue
		}
		for _, want := range t.codes.sass {
			if !anyLinks(m.Images, want, lto) {
				b.add(Problem{Pos: t.attr("gencode"), Summary: fmt.Sprintf("%s needs %s, but %s:%s has %s only", t.label, want, p.t.file, m.Name, gencode.Spell(m.Images)),
					Detail: "Ask the vendor for that architecture, or drop it here.", Also: p.t.Pos, AlsoSay: p.t.label + " is this file"})
			}
		}
		switch isLTO := holds(m, gencode.LTO); {
		case p.t.LTO == "required" && !isLTO:
			b.errorf(p.t.attr("lto"), `Declare lto = "none" to accept partial LTO, or ask the vendor for lto_* code.`,
				"%s:%s has no LTO-IR, and lto is \"required\"", p.t.file, m.Name)
		case p.t.LTO == "" && lto && !isLTO:
			b.add(Problem{Pos: p.t.Pos, Summary: fmt.Sprintf("%s is linked with partial LTO: %s:%s has %s only", t.label, p.t.file, m.Name, gencode.Spell(m.Images)),
				Detail: `Declare lto = "none" on ` + p.t.label + " to accept it, or ask the vendor for lto_* code.", Also: t.attr("mode"), AlsoSay: t.label + " is linked with LTO"})
		case p.t.LTO == "none" && isLTO:
			b.errorf(p.t.attr("lto"), `Remove lto = "none": it can take part in LTO.`, "%s:%s does hold LTO-IR", p.t.file, m.Name)
		}
	}
}

// checkLTO wants the options that nvlink compares to agree: it refuses a link of LTO-IR whose
// floating-point options differ, minutes into the build. -G with -dlto is fatal.
func (b *builder) checkLTO(t *target, parts []part) {
	if b.facts.CUDA.LTOFault != "" && b.facts.CUDA.NVVMPath == "" {
		b.errorf(t.Pos, b.facts.CUDA.LTOFault, "this CUDA toolkit cannot link with LTO")
	}
	var first *target
	for _, p := range parts {
		if !p.lto || p.t.Kind == manifest.Prebuilt {
			continue
		}
		if p.t.DeviceDebug {
			b.errorf(p.t.attr("device_debug"), `Use mode = "rdc" while debugging device code.`, "%s has device_debug and LTO: nvlink refuses -G with -dlto", p.t.label)
		}
		if first == nil {
			first = p.t
			continue
		}
		if a, c := floats(first), floats(p.t); a != c {
			b.add(Problem{Pos: floatPos(p.t), Summary: fmt.Sprintf("cannot link %s (%s) with %s (%s) under LTO", p.t.label, c, first.label, a),
				Detail: "Floating-point options must agree across one LTO link: set them in defaults, or build one of the two with mode = \"rdc\".",
				Also:   floatPos(first), AlsoSay: first.label + " is compiled so"})
		}
	}
}

// floatOptions are those that cicc records in LTO-IR.
type floatOptions struct{ ftz, precDiv, precSqrt, fmad bool }

func (f floatOptions) String() string {
	return fmt.Sprintf("ftz=%t prec_div=%t prec_sqrt=%t fmad=%t", f.ftz, f.precDiv, f.precSqrt, f.fmad)
}

// floats are the options of t, with fast_math resolved.
func floats(t *target) floatOptions {
	val := func(p *bool, fast, def bool) bool {
		if p != nil {
			return *p
		}
		if t.FastMath {
			return fast
		}
		return def
	}
	return floatOptions{val(t.FTZ, true, false), val(t.PrecDiv, false, true), val(t.PrecSqrt, false, true), val(t.FMAD, true, true)}
}

func floatPos(t *target) manifest.Pos {
	for _, a := range []string{"fast_math", "ftz", "prec_div", "prec_sqrt", "fmad"} {
		if p := t.attr(a); p != t.Pos {
			return p
		}
	}
	return t.Pos
}

// checkClosed finds a library that is linked twice: inside a closed static library and beside it.
func (b *builder) checkClosed(t *target) {
	inside := map[*target]*target{}
	for _, s := range b.reached(t) {
		if s.Kind != manifest.Library || !s.DeviceLink || s.Shared {
			continue
		}
		for _, u := range b.reached(s) {
			if len(b.parts(u, linkage{})) == 0 {
				continue
			}
			if other := inside[u]; other != nil && other != s {
				b.add(Problem{Pos: s.attr("device_link"), Summary: fmt.Sprintf("%s is device-linked into both %s and %s", u.label, other.label, s.label),
					Detail: "One program can register its kernels once only: drop device_link from one of them.", Also: other.attr("device_link"), AlsoSay: other.label})
			}
			inside[u] = s
		}
	}
}

// deviceLibs are the archives behind -l that hold relocatable device code. They are given to nvlink by
// file: it says nothing when it does not find a -l.
func (b *builder) deviceLibs(t *target, libs []string, codes []gencode.Code) []string {
	var out []string
	for _, l := range libs {
		file := b.facts.Static[l]
		if file == "" {
			continue
		}
		out = append(out, file)
		for _, m := range b.facts.Prebuilt[file].Members {
			for _, want := range codes {
				if m.NVLinkReads() && !anyLinks(m.Images, want, true) {
					b.errorf(t.attr("libs"), "Drop the architecture, or use a newer library.", "%s needs %s, but %s:%s has %s only", t.label, want, file, m.Name, gencode.Spell(m.Images))
				}
			}
		}
	}
	return out
}
