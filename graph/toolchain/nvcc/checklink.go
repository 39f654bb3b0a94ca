package nvcc

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
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

// Check implements toolchain.Toolchain.
func (k *Toolchain) Check(r toolchain.CheckRequest) (c toolchain.Checked) {
	t := r.Target
	if !k.ready(r.Build, &c.Plan, t.Pos) {
		return c
	}
	for _, u := range r.Inputs {
		if u.Kind == manifest.Prebuilt {
			k.checkMembers(&c.Plan, t, u.Target, true)
		}
	}
	k.checkLTO(&c.Plan, t, r.Inputs)
	for _, arch := range r.Archs {
		if !k.canCheck(r, &c.Plan, arch) {
			continue
		}
		check := &graph.Link{LTO: true, Check: true}
		link := DeviceLink{Codes: []gencode.Code{arch}, LTO: true, Emit: "cubin", NVLink: t.Flags.NVLink,
			Output: r.Out(graph.CheckLinkDir, "modules", t.InstanceName()+"."+arch.String()+".cubin")}
		for _, u := range r.Inputs {
			var files []File
			for _, a := range ltoirFor(u.Target, arch) {
				out := r.Out(graph.CheckLinkDir, strings.TrimSuffix(r.InTree(a.Path), a.Kind)+"fatbin")
				files = append(files, built(r.Build, out))
				c.Emit(k.wrapLTOIR(u.Target, codeOf(a), path.Base(out), a.Path, out))
			}
			if u.Kind == manifest.Prebuilt {
				files = filesOf(r.Build, t, u.Target, check)
			}
			link.Files = append(link.Files, own(check, u.Target, files)...)
		}
		for _, a := range ltoirFor(t, arch) {
			file := k.references(r, &c.Plan, a)
			link.Files, check.NonLTO = append(link.Files, built(r.Build, file)), append(check.NonLTO, file)
		}
		k.emitLink(r.Build, &c.Plan, t, "check-link "+t.InstanceName(), link, check, nil)
		c.Outputs = append(c.Outputs, link.Output)
	}
	return c
}

// canCheck reports whether the toolkit supports arch and all inputs have LTO-IR that links for it.
func (k *Toolchain) canCheck(r toolchain.CheckRequest, p *toolchain.Plan, arch gencode.Code) bool {
	t := r.Target
	if !slices.ContainsFunc(k.Archs, func(a gencode.Code) bool { return a.Num == arch.Num && a.Suffix == arch.Suffix }) {
		p.Errorf(t.Pos, "It knows "+toolchain.Spell(k.Archs)+".", "--check-link %s: CUDA %s does not know it", arch, k.Version)
		return false
	}
	if k.Programs["fatbinary"] == "" {
		p.Errorf(t.Pos, "It comes with every CUDA toolkit; install the whole of it.", "--check-link: the toolkit's fatbinary was not found")
		return false
	}
	ok := true
	for _, u := range r.Inputs {
		if u.Kind == manifest.Prebuilt {
			ok = covered(p, t, u.Target, arch) && ok
		}
		if len(u.Artifacts) > 0 && len(ltoirFor(u.Target, arch)) == 0 {
			ok = false
			var has []gencode.Code
			for _, a := range u.Artifacts {
				if a.Kind == "ltoir" {
					has = append(has, codeOf(a))
				}
			}
			p.Bothf(u.Attr("gencode"), t.Pos, "--check-link "+arch.String()+" links "+t.Label,
				fmt.Sprintf("LTO-IR links for its own architecture and newer ones: give %s lto_%d or older code.", u.Label, arch.Num),
				"%s does not link for %s: its LTO-IR is %s", u.Label, arch, toolchain.Spell(toolchain.Sorted(has)))
		}
	}
	return ok
}

// codeOf returns the code of an artifact of LTO-IR.
func codeOf(a toolchain.Artifact) gencode.Code {
	code, err := gencode.Parse(a.Arch)
	if err != nil {
		panic("BUG: LTO-IR for " + a.Arch)
	}
	return code
}

// ltoirFor returns the files for a link for arch: for each source the newest that is not newer than
// arch. It returns nil if some source has none.
func ltoirFor(t *toolchain.Target, arch gencode.Code) (chosen []toolchain.Artifact) {
	index := map[string]int{} // in chosen, by source
	for _, a := range t.Artifacts {
		if a.Kind != "ltoir" {
			continue
		}
		source := strings.TrimSuffix(a.Path, a.Arch+".ltoir")
		i, have := index[source]
		if !have {
			i = len(chosen)
			index[source], chosen = i, append(chosen, toolchain.Artifact{})
		}
		code, old := codeOf(a), chosen[i]
		if gencode.LinksInto(gencode.Image(code), arch, true) && (old.Path == "" || gencode.Compare(codeOf(old), code) < 0) {
			chosen[i] = a
		}
	}
	if slices.ContainsFunc(chosen, func(a toolchain.Artifact) bool { return a.Path == "" }) {
		return nil
	}
	return chosen
}

// references plans a fatbin of PTX with a kernel that refers to every function of one file of
// LTO-IR. It returns its path.
func (k *Toolchain) references(r toolchain.CheckRequest, p *toolchain.Plan, a toolchain.Artifact) string {
	base := r.Out(graph.CheckLinkDir, strings.TrimSuffix(r.InTree(a.Path), a.Kind)+"references.")
	text, out, code := base+"ptx", base+"fatbin", codeOf(a)
	codes := []string{code.As(gencode.PTX).String()}
	var late []string
	if len(r.Target.LateBound) > 0 {
		late = append([]string{"references"}, r.Target.LateBound...)
	}
	p.Emit(&graph.Action{Kind: graph.References, Name: path.Base(text), Argv: late, Archs: codes, Inputs: []string{a.Symbols}, Outputs: []string{text}})
	p.Emit(&graph.Action{Kind: graph.Fatbinary, Name: path.Base(out), Archs: codes,
		Argv:   []string{k.Programs["fatbinary"], "-64", "--device-c", fmt.Sprintf("--image3=kind=ptx,sm=%d%s,file=%s", code.Num, code.Suffix, toolchain.ListWord(text)), "--create", out},
		Inputs: []string{text}, Outputs: []string{out}, Tools: []string{"nvcc"}})
	return out
}
