package nvcc

import (
	"fmt"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Link implements toolchain.Toolchain. nvlink reads every relocatable object and archive of the
// program exactly once; the host link then reads the same ones.
func (k *Toolchain) Link(r toolchain.LinkRequest) (l toolchain.Linked) {
	t, b := r.Target, r.Build
	l.Host, l.Tools, l.Work.Response = r.Host, []string{"cxx"}, toolchain.AtFile(1)
	if len(r.Inputs) > 0 && k.ready(b, &l.Plan, t.Pos) {
		if link, check, ok := k.deviceLink(b, &l.Plan, t, r.Inputs); ok {
			link.Output, link.KeepAll = b.Out("obj", t.Folder(), "dlink.o"), r.KeepsAll != ""
			if check.KeepsAll = r.KeepsAll; r.HostRefs != nil {
				l.Emit(r.HostRefs)
				check.HostRefs = r.HostRefs.Outputs[0]
			}
			k.emitLink(b, &l.Plan, t, t.Name, link, check, nil)
			l.Device = link.Output
			if !r.Static {
				l.Host = r.WithObjects(append(t.ObjectPaths(), l.Device))
			}
		}
	}
	if r.Runtime && k.Toolkit != nil {
		l.Tools = append(l.Tools, "nvcc")
	}
	k.LinkRuntime(&l, r, len(r.Inputs) > 0)
	return l
}

// deviceLink returns the device link of inputs for t, after checking them.
func (k *Toolchain) deviceLink(b *toolchain.Build, p *toolchain.Plan, t *toolchain.Target, inputs []toolchain.LinkInput) (link DeviceLink, check *graph.Link, ok bool) {
	link = DeviceLink{Codes: t.Codes.SASS, LTO: toolchain.HasLTO(inputs)}
	check = &graph.Link{LTO: link.LTO}
	before := len(p.List)
	if !cuda.CheckCodes(p, t, slices.ContainsFunc(inputs, func(u toolchain.LinkInput) bool { return u.Kind != manifest.Prebuilt })) {
		return link, check, false
	}
	for _, u := range inputs {
		if u.Kind == manifest.Prebuilt {
			for _, want := range t.Codes.SASS {
				covered(p, t, u.Target, want)
			}
			k.checkMembers(p, t, u.Target, link.LTO)
		} else {
			checkCoverage(p, t, u.Target, link.LTO)
		}
	}
	if link.LTO {
		k.checkLTO(p, t, inputs)
	}
	k.CheckLibraries(p, t, nil, t.Flags.NVLink, "cudadevrt")
	if p.List[before:].HasErrors() {
		return link, check, false
	}
	link.NVLink = append(k.arithmetic(b, p, t, inputs), t.Flags.NVLink...)
	for _, u := range inputs {
		link.Files = append(link.Files, own(check, u.Target, filesOf(b, t, u.Target, check))...)
	}
	return link, check, true
}

// built returns a file that an action writes as the input of a device link.
func built(b *toolchain.Build, file string) File { return File{file, b.InTree(file)} }

// own records u as the owner of files in a link and returns files.
func own(link *graph.Link, u *toolchain.Target, files []File) []File {
	if link.Owners == nil {
		link.Owners, link.OwnerPos = map[string]string{}, map[string]graph.Pos{}
	}
	for _, f := range files {
		link.Owners[f.Path], link.OwnerPos[f.Path] = u.Label, graph.Pos(u.Pos)
	}
	return files
}

// linkedMembers returns the members of a prebuilt file that a device link reads.
func linkedMembers(t *toolchain.Target) []toolchain.Member {
	return slices.DeleteFunc(slices.Clone(t.Library.Members), func(m toolchain.Member) bool { return !m.NVLinkReads() })
}

// filesOf returns the files of u that the device link of t reads. These are t's own relocatable
// objects, or the archive of a library, of which nvlink loads every member.
func filesOf(b *toolchain.Build, t, u *toolchain.Target, check *graph.Link) []File {
	if u.Kind == manifest.Prebuilt {
		where := func(file string) string { return fmt.Sprintf("%s of %s (%s)", file, u.Label, graph.Pos(u.Pos)) }
		if u.LTO == "none" {
			check.NonLTO = append(check.NonLTO, u.Linked())
		}
		if forgets(u) {
			check.UnknownOptions = append(check.UnknownOptions, where(u.File))
		}
		// Whether nvlink can read LTO-IR depends on its version of NVVM IR.
		unknown := slices.DeleteFunc(linkedMembers(u), func(m toolchain.Member) bool {
			return !m.Holds(gencode.LTO) || m.Versions[gencode.LTO][2] > 0
		})
		if check.LTO && len(unknown) > 0 {
			check.Foreign = append(check.Foreign, where(u.MemberNames(unknown)))
		}
		if u.Wrapped == "" && !u.Built {
			return []File{{Path: u.File}}
		}
		return []File{built(b, u.Linked())}
	}
	var objs []File
	for _, o := range u.Objects {
		if !toolchain.IsRelocatable(o.Source) {
			continue
		}
		objs = append(objs, built(b, o.Path))
		if o.Source.Mode == "rdc" {
			name := o.Path
			if u != t && u.File != "" {
				name = u.File + ":" + path.Base(o.Path)
			}
			check.NonLTO = append(check.NonLTO, name)
		}
	}
	if u != t && u.File != "" {
		return []File{built(b, u.File)}
	}
	return objs
}

// emitLink plans a device link, split if possible. shared holds the passes of the other links of a
// module.
func (k *Toolchain) emitLink(b *toolchain.Build, p *toolchain.Plan, t *toolchain.Target, name string, link DeviceLink, check *graph.Link, shared *Sharing) {
	o := deviceOptions(t, t.AnySource(), nil)
	for _, f := range link.Files {
		link.Inputs = append(link.Inputs, f.Path)
	}
	whole := &graph.Action{Kind: graph.DeviceLink, Name: name, Archs: toolchain.CodeNames(link.Codes), Mode: toolchain.LinkMode(link.LTO),
		Argv: k.driver().DeviceLink(link, o), Env: k.env(), Inputs: link.Inputs, Outputs: []string{link.Output}, Tools: []string{"nvcc"},
		Work: graph.Work{Link: check, Response: cuda.OptionsFile, Driver: &graph.Driver{}}}
	if check.HostRefs != "" {
		whole.Inputs = append(slices.Clip(link.Inputs), check.HostRefs)
	}
	err := k.unsplittable(b, t)
	if err == nil {
		link.Inputs = []string{toolchain.QueryInput}
		q := toolchain.Question{Tool: "nvcc", By: "nvcc --dryrun", Args: Query(k.driver().DeviceLink(link, o), "", link.Output, "")}
		whole.Work.Driver.DryRunKey = q.Key()
		var passes *LinkPasses
		if passes, err = toolchain.Learn(&b.Answers, q, LearnLink); err == nil {
			s := NewSplit(b.NewUnit(p, whole, whole.Outputs[0]), k.Toolkit, passes.Env)
			s.ArchList, s.Shared = t.Gencode.ArchList, shared
			if err = s.Link(passes, link.Files); err == nil {
				warn(p, t, passes.Said)
				return
			}
		}
	}
	fallBack(b, p, t.Pos, whole, err)
	if link.LTO && k.LTOFault != "" {
		p.Errorf(t.Pos, k.LTOFault, "nvcc as one command cannot link with LTO (%v)", err)
	}
	p.Emit(whole)
}

// checkCoverage checks that a library u has an image for each architecture that t links.
func checkCoverage(p *toolchain.Plan, t, u *toolchain.Target, lto bool) {
	for _, mode := range []string{"rdc", "lto"} {
		if !slices.ContainsFunc(u.Sources, func(s manifest.Source) bool { return toolchain.IsRelocatable(s) && s.Mode == mode }) {
			continue
		}
		has := u.Codes.Compiled(mode)
		for _, want := range t.Codes.SASS {
			if !slices.ContainsFunc(has, func(c gencode.Code) bool { return gencode.LinksInto(gencode.Image(c), want, lto) }) {
				toolchain.Lacks(p, t, u, want, has)
			}
		}
	}
}

// checkMembers checks the LTO-IR in the file of a prebuilt against its lto attribute.
func (k *Toolchain) checkMembers(p *toolchain.Plan, t, u *toolchain.Target, lto bool) {
	members := linkedMembers(u)
	for _, kind := range []gencode.Kind{gencode.SASS, gencode.PTX, gencode.LTO} {
		own, known := k.Makes[kind]
		newer := slices.DeleteFunc(slices.Clone(members), func(m toolchain.Member) bool { return !m.Versions[kind].Newer(own) })
		if !known || len(newer) == 0 || kind == gencode.LTO && !lto {
			continue
		}
		p.Bothf(u.Pos, t.Pos, t.Label+" links "+u.Label, "Set CUDA_HOME to that CUDA or a newer one, or ask the vendor for code of an older one.",
			"%s was made by a newer CUDA than %s: its %s is of version %s, and nvlink reads up to %s",
			u.MemberNames(newer), k.Version, kind, newer[0].Versions[kind], own)
		break
	}
	none := slices.DeleteFunc(slices.Clone(members), func(m toolchain.Member) bool { return m.Holds(gencode.LTO) })
	switch {
	case len(none) > 0 && u.LTO == "required":
		p.Errorf(u.Attr("lto"), `Declare lto = "none" to accept partial LTO, or ask the vendor for lto_* code.`,
			"%s has no LTO-IR, and lto is \"required\"", u.MemberNames(none))
	case len(none) > 0 && u.LTO == "" && lto:
		detail := `Declare lto = "none" on ` + u.Label + " to accept it, or ask the vendor for lto_* code."
		if u.Undeclared {
			detail = fmt.Sprintf(`To accept it, declare prebuilt %q { archive = %q, lto = "none" } and name that in deps instead of in libs.`, u.Name, u.File)
		}
		p.Bothf(u.Pos, t.Attr("mode"), t.Label+" is linked with LTO", detail,
			"%s is linked with partial LTO: %s has %s only", t.Label, u.MemberNames(none), gencode.Spell(none[0].Images))
	case len(none) < len(members) && u.LTO == "none":
		i := slices.IndexFunc(members, func(m toolchain.Member) bool { return m.Holds(gencode.LTO) })
		p.Errorf(u.Attr("lto"), `Remove lto = "none": it can take part in LTO.`, "%s does hold LTO-IR", u.MemberNames(members[i:i+1]))
	}
}

// covered reports whether every member of a prebuilt has code that links for an architecture.
func covered(p *toolchain.Plan, t, u *toolchain.Target, want gencode.Code) bool {
	lacking := slices.DeleteFunc(linkedMembers(u), func(m toolchain.Member) bool {
		return slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return gencode.LinksInto(i, want, true) })
	})
	if len(lacking) == 0 {
		return true
	}
	p.Bothf(t.Attr("gencode"), u.Pos, u.Label+" is this file", "Ask the vendor for that architecture, or drop it here.",
		"%s needs %s, but %s has %s only", t.Label, want, u.MemberNames(lacking), gencode.Spell(lacking[0].Images))
	return false
}
