package plan

import (
	"fmt"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// relocatable reports whether a source's object takes part in a device link.
func relocatable(s manifest.Source) bool {
	return isDevice(s) && (s.Mode == "rdc" || s.Mode == "lto")
}

// needsDeviceLink reports relocatable device code in t or in the static libraries it links that no
// device link has closed yet.
func (b *checks) needsDeviceLink(t *target, l linkage) bool {
	return len(b.parts(t, l)) > 0
}

// part is one target that brings device code to a link.
type part struct {
	t   *target
	lto bool // has LTO-IR
	rdc bool // has machine code or PTX without LTO-IR
}

// parts are the targets with relocatable device code in the link of t, t first.
func (b *checks) parts(t *target, l linkage) []part {
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
	for _, u := range b.brought(t, l, closed) {
		if p, ok := b.partOf(t, u); ok {
			out = append(out, p)
		}
	}
	return out
}

// partOf is what u brings to a link of t; ok is false if that is no device code.
func (b *given) partOf(t, u *target) (p part, ok bool) {
	p.t = u
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
	return p, p.lto || p.rdc
}

// brought are the targets in the link of t that are not closed, and the libraries that these name by -l, each once.
func (b *given) brought(t *target, l linkage, closed map[*target]bool) []*target {
	open := slices.DeleteFunc(append(append([]*target{t}, l.statics...), l.pre...), func(u *target) bool { return closed[u] })
	all := slices.Clone(open)
	for _, u := range open {
		if t.isHIP() {
			break // lld reads no archive of NVIDIA's
		}
		for _, lib := range b.deviceLibs(u, l.libDirs) {
			if !slices.ContainsFunc(all, func(have *target) bool { return have.file == lib.file }) {
				all = append(all, lib)
			}
		}
	}
	return all
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
	cc, ok := b.nvcc(t.Pos)
	if !ok {
		return ""
	}
	parts := b.parts(t, l)
	keeps := b.keepsAll(t)
	link := nvcc.DeviceLink{Codes: t.codes.sass, KeepAll: keeps != "", NVLink: t.Flags.NVLink}
	for _, p := range parts {
		link.LTO = link.LTO || p.lto
	}
	if !b.checkLink(t, parts, link.LTO) {
		return ""
	}
	check := &graph.Link{LTO: link.LTO, Owners: map[string]string{}, OwnerPos: map[string]graph.Pos{}}
	for _, p := range parts {
		files := b.linkInputs(t, p, check)
		for _, f := range files {
			check.Owners[f], check.OwnerPos[f] = p.t.label, graph.Pos(p.t.Pos)
		}
		link.Inputs = append(link.Inputs, files...)
	}
	link.Output = b.out("obj", fileName(t), "dlink.o")
	o := deviceOptions(t, manifest.Source{Flags: t.Flags}, nil)
	whole := &graph.Action{
		Kind: graph.DeviceLink, Name: t.Name, Archs: names(link.Codes), Mode: linkMode(link.LTO),
		Argv: cc.DeviceLink(link, o), Inputs: link.Inputs, Outputs: []string{link.Output},
		Tools: []string{"nvcc"}, Work: graph.Work{Link: check, Response: nvcc.OptionsFile},
	}
	if check.KeepsAll = keeps; keeps == "" {
		check.HostRefs = b.hostRefs(t)
	}
	b.emitLink(t, whole, cc, link, o, nil)
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
func (b *given) linkInputs(t *target, p part, check *graph.Link) []string {
	if p.t.Kind == manifest.Prebuilt {
		if p.t.LTO == "none" {
			check.NonLTO = append(check.NonLTO, p.t.linked())
		}
		if b.untold(p.t) {
			check.Untold = append(check.Untold, fmt.Sprintf("%s of %s (%s)", p.t.file, p.t.label, graph.Pos(p.t.Pos)))
		}
		return []string{p.t.linked()}
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
func (b *checks) checkLink(t *target, parts []part, lto bool) bool {
	before := len(b.list)
	if len(t.codes.sass) == 0 {
		b.errorf(t.attr("gencode"), "Add the architectures to link for, for example sm_80.", "%s links device code and ships no machine code", t.label)
		return false
	}
	if len(t.codes.ptx) > 0 && slices.ContainsFunc(parts, func(p part) bool { return p.t.Kind != manifest.Prebuilt }) {
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
	for _, p := range b.list[before:] {
		if !p.Warning {
			return false
		}
	}
	return true
}

// checkCoverage wants an image of p for each architecture that t links.
func (b *problems) checkCoverage(t *target, p part, lto bool) {
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
func (b *checks) checkClosed(t *target) {
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
