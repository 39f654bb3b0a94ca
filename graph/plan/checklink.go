package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// nvJitLink or the driver links LTO-IR at run time, so link errors appear only there. --check-link
// links it at build time, once for each GPU of a list:
//
//	fft.lto_75.ltoir -> fatbinary -> slice [80] -> nvlink [80]
//	                              -> slice [90] -> nvlink [90]
//	fft.lto_75.ptx -> references -> fatbinary -> slice, to each nvlink
//
// It is an ordinary device link whose output is discarded. LTO-IR is wrapped in a fatbin because
// nvlink 11.8 does not accept it bare.
//
// A link with LTO drops the functions that no kernel reaches before it resolves references. A
// module of callbacks has no kernel. So kbuild generates a kernel in PTX that refers to every
// function of the module. Functions of the modules that it depends on are not referred to: this
// link has them only where the module uses them, and each module has its own link.

// checkLinks plans the links that --check-link requests.
func (b *builder) checkLinks() {
	c := b.options.CheckLink
	if c == nil {
		return
	}
	names := b.named(c.Modules)
	for _, t := range b.order {
		emits := t.Kind == manifest.Module && slices.Contains(t.Emit, "ltoir")
		switch named := t.isNamed(names); {
		case t.unbuilt != "" || !named && len(c.Modules) > 0:
		case emits:
			b.checkModule(t, c.Archs)
		case named:
			b.errorf(t.attr("emit"), `Add "ltoir" to the emit of a module, or leave it out of --check-link.`, "%s has no LTO-IR to link for %s", t.label, spell(c.Archs))
		}
	}
}

// named returns the set of given names, with the labels of the targets in each named group.
func (g *given) named(names []string) map[string]bool {
	out := map[string]bool{}
	for _, name := range names {
		out[name] = true
	}
	for _, group := range g.project.Groups {
		if !slices.Contains(names, group.Name) && !slices.Contains(names, "group."+group.Name) {
			continue
		}
		for _, d := range group.Targets {
			out[d.Label] = true
		}
	}
	return out
}

// isNamed reports whether names contains t, by itself or as an instance of a matrix.
func (t *target) isNamed(names map[string]bool) bool {
	return names[t.label] || names[t.Name] || names[t.Base] || names[string(t.Kind)+"."+t.Base]
}

// checkModule plans the links of one module with the modules that it depends on.
func (b *builder) checkModule(t *target, archs []gencode.Code) {
	cc, ok := b.nvcc(t.Pos)
	if !ok {
		return
	}
	var linked []linkInput
	for _, u := range append([]*target{t}, b.closure(t)...) {
		if u.Kind == manifest.Module && slices.Contains(u.Emit, "ltoir") && agree(t, u) {
			linked = append(linked, linkInput{t: u, lto: true})
		}
		if p, ok := b.linkInputOf(t, u); ok && u.Kind == manifest.Prebuilt {
			linked = append(linked, p)
			b.checkMembers(t, p, true)
		}
	}
	b.checkLTO(t, linked)
	for _, arch := range archs {
		if b.canCheck(t, linked, arch) {
			b.checkFor(t, cc, linked, arch)
		}
	}
}

// agree reports whether two matrix instances have equal values in the axes that both have. If a
// module depends on one with the same axes, each instance is linked with its counterpart.
func agree(t, u *target) bool {
	for _, a := range t.Matrix {
		for _, b := range u.Matrix {
			if a.Name == b.Name && a.Value != b.Value {
				return false
			}
		}
	}
	return true
}

// canCheck reports whether the toolkit supports arch and all inputs have LTO-IR that links for it.
func (ck *checks) canCheck(t *target, linked []linkInput, arch gencode.Code) bool {
	k := ck.facts.CUDA
	if !slices.ContainsFunc(k.Archs, func(a gencode.Code) bool { return a.Num == arch.Num && a.Suffix == arch.Suffix }) {
		ck.errorf(t.Pos, "It knows "+spell(k.Archs)+".", "--check-link %s: CUDA %s does not know it", arch, k.Version)
		return false
	}
	if k.Programs["fatbinary"] == "" {
		ck.errorf(t.Pos, "It comes with every CUDA toolkit; install the whole of it.", "--check-link: the toolkit's fatbinary was not found")
		return false
	}
	ok := true
	for _, p := range linked {
		if p.t.Kind == manifest.Prebuilt {
			ok = ck.checkCovered(t, p, ck.linkedMembers(p.t), arch) && ok
		}
		if len(p.t.arts) > 0 && len(ltoirFor(p.t, arch)) == 0 {
			ok = false
			ck.bothf(p.t.attr("gencode"), t.Pos, "--check-link "+arch.String()+" links "+t.label,
				fmt.Sprintf("LTO-IR links for its own architecture and newer ones: give %s lto_%d or older code.", p.t.label, arch.Num),
				"%s does not link for %s: its LTO-IR is %s", t.label, arch, spell(ltoirOf(p.t)))
		}
	}
	return ok
}

// ltoirOf returns the architectures of the LTO-IR of t.
func ltoirOf(t *target) []gencode.Code {
	var out []gencode.Code
	for _, a := range t.arts {
		if code, err := gencode.Parse(a.arch); err == nil && a.kind == "ltoir" {
			out = append(out, code)
		}
	}
	slices.SortFunc(out, gencode.Compare)
	return slices.Compact(out)
}

// ltoirFor returns the files for a link for arch: for each source the newest that is not newer than
// arch. It returns nil if some source has none.
func ltoirFor(t *target, arch gencode.Code) []artifact {
	best := map[string]gencode.Code{}
	chosen := map[string]artifact{}
	var order []string
	for _, a := range t.arts {
		code, err := gencode.Parse(a.arch)
		if err != nil || a.kind != "ltoir" {
			continue
		}
		source := strings.TrimSuffix(a.path, a.arch+".ltoir")
		if !slices.Contains(order, source) {
			order = append(order, source)
		}
		fits := gencode.LinksInto(gencode.Image(code), arch, true)
		if old, have := best[source]; fits && (!have || gencode.Compare(old, code) < 0) {
			best[source], chosen[source] = code, a
		}
	}
	var out []artifact
	for _, source := range order {
		if _, ok := chosen[source]; !ok {
			return nil
		}
		out = append(out, chosen[source])
	}
	return out
}

// checkFor plans the link for one architecture.
func (b *builder) checkFor(t *target, cc nvcc.Driver, linked []linkInput, arch gencode.Code) {
	check := &graph.Link{LTO: true, Check: true}
	var inputs []string
	for _, p := range linked {
		var files []string
		for _, a := range ltoirFor(p.t, arch) {
			files = append(files, b.wrapped(p.t, a))
		}
		if p.t.Kind == manifest.Prebuilt {
			files = b.filesOf(t, p, check)
		}
		inputs = append(inputs, own(check, p, files)...)
	}
	for _, a := range ltoirFor(t, arch) {
		file := b.references(t, a)
		inputs, check.NonLTO = append(inputs, file), append(check.NonLTO, file)
	}
	out := b.out(graph.CheckLinkDir, "modules", instanceName(t)+"."+arch.String()+".cubin")
	b.emitLink(t, cc, "check-link "+instanceName(t),
		nvcc.DeviceLink{Inputs: inputs, Output: out, Codes: []gencode.Code{arch}, LTO: true, Emit: "cubin", NVLink: t.Flags.NVLink}, check, nil)
	t.node.Checks = append(t.node.Checks, out)
}

// wrapped plans the fatbin around one file of LTO-IR and returns its path. The fatbin records the
// floating-point options of the code, as nvcc's own does.
func (b *builder) wrapped(t *target, a artifact) string {
	out := b.out(graph.CheckLinkDir, strings.TrimSuffix(b.inTree(a.path), a.kind)+"fatbin")
	if _, planned := b.graph.Producer(out); planned {
		return out
	}
	code, err := gencode.Parse(a.arch)
	if err != nil {
		panic("BUG: LTO-IR for " + a.arch)
	}
	f := floats(t)
	b.emit(t, &graph.Action{Kind: graph.Fatbinary, Name: path.Base(out), Archs: []string{a.arch}, Mode: "lto",
		Argv:   nvcc.WrapLTOIR(b.facts.CUDA.Programs["fatbinary"], code, f.ftz, f.precDiv, f.precSqrt, f.fmad, a.path, out),
		Inputs: []string{a.path}, Outputs: []string{out}, Tools: []string{"nvcc"}})
	return out
}

// references plans a fatbin of PTX with a kernel that refers to every function of one file of
// LTO-IR. It returns its path.
func (b *builder) references(t *target, a artifact) string {
	base := b.out(graph.CheckLinkDir, strings.TrimSuffix(b.inTree(a.path), a.kind)+"references.")
	text, out := base+"ptx", base+"fatbin"
	if _, planned := b.graph.Producer(out); planned {
		return out
	}
	code, err := gencode.Parse(a.arch)
	if err != nil {
		panic("BUG: LTO-IR for " + a.arch)
	}
	codes := names([]gencode.Code{code.As(gencode.PTX)})
	var late []string
	if len(t.LateBound) > 0 {
		late = append([]string{"references"}, t.LateBound...)
	}
	b.emit(t, &graph.Action{Kind: graph.References, Name: path.Base(text), Argv: late, Archs: codes, Inputs: []string{a.symbols}, Outputs: []string{text}})
	b.emit(t, &graph.Action{Kind: graph.Fatbinary, Name: path.Base(out), Archs: codes,
		Argv:   nvcc.WrapPTX(b.facts.CUDA.Programs["fatbinary"], code, text, out),
		Inputs: []string{text}, Outputs: []string{out}, Tools: []string{"nvcc"}})
	return out
}
