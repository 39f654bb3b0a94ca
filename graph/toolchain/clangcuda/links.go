package clangcuda

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Relocatable CUDA that clang compiled is linked by clang-linker-wrapper, which runs before the
// linker. In mode rdc kbuild plans one device link for each architecture and passes their outputs
// to the wrapper:
//
//	a.cu: sm_80.o -> nvlink [80] --\
//	a.cu: sm_90.o -> nvlink [90] ---> link
//
// Mode lto works the same way from clang 21 on, where clang links the bitcode of each architecture.
// Clang 19 optimises in the wrapper's own process: there the link stays one action.

// Link implements toolchain.Toolchain. A link whose only relocatable code is prebuilt code of nvcc's
// is nvcc's.
func (k *Toolchain) Link(r toolchain.LinkRequest) (l toolchain.Linked) {
	t := r.Target
	if k.major() < FirstMajor || !slices.ContainsFunc(r.Inputs, func(u toolchain.LinkInput) bool {
		return u.Kind != manifest.Prebuilt || slices.ContainsFunc(u.Library.Members, toolchain.Member.WrapperReads)
	}) {
		return k.NVCC.Link(r)
	}
	if r.Static {
		l.Errorf(t.Attr("device_link"), "Drop it: the program that uses the library links its device code.", "%s: clang links device code into programs and shared libraries only", t.Label)
		return l
	}
	if l.Failed = !check(&l.Plan, t, r.Inputs); l.Failed {
		return l
	}
	lto := toolchain.HasLTO(r.Inputs)
	link := Link{Major: k.major(), LTO: lto, Opt: options(t, t.AnySource(), nil).Opt, LinkerFlags: t.Flags.NVLink}
	l.Work = graph.Work{Response: toolchain.AtFile(1), Driver: &graph.Driver{Ships: toolchain.CodeNames(t.Codes.SASS)}}
	if why := k.inOnePiece(r, lto); why == nil {
		link.Images = k.deviceLinks(r, &l.Plan, lto)
	} else {
		link.Codes = t.Codes.SASS
		l.Mode, l.Archs = toolchain.LinkMode(lto), toolchain.CodeNames(t.Codes.SASS)
		toolchain.Unsplit(l.Work.Driver, why)
	}
	l.Host, l.Command, l.Inputs = r.Host, k.driver().Link(link), link.Images
	l.Env, l.Tools = []string{toolchain.Anywhere}, []string{"cxx", "nvcc", "clang"}
	k.LinkRuntime(&l, r, false)
	return l
}

// check reports what would make the linked program wrong. clang's linker requires code of the exact
// architecture and prints nothing if it is missing.
func check(p *toolchain.Plan, t *toolchain.Target, inputs []toolchain.LinkInput) bool {
	before := len(p.List)
	cuda.CheckCodes(p, t, true)
	for _, u := range inputs {
		if u.Kind == manifest.Prebuilt {
			checkPrebuilt(p, t, u.Target)
			continue
		}
		for _, want := range t.Codes.SASS {
			if !slices.Contains(u.Codes.SASS, want) {
				toolchain.Lacks(p, t, u.Target, want, u.Codes.SASS)
			}
		}
	}
	return !p.List[before:].HasErrors()
}

// checkPrebuilt checks that a prebuilt file u that t links has relocatable code of the new offload
// driver for each architecture.
func checkPrebuilt(p *toolchain.Plan, t, u *toolchain.Target) {
	for _, m := range u.Library.Members {
		name := u.MemberNames([]toolchain.Member{m})
		if m.NVLinkReads() {
			p.Bothf(u.Pos, t.Pos, t.Label+" links it and code that clang compiled", "Link it into a program that nvcc compiles, or have it compiled by clang.",
				"%s has relocatable code of nvcc's (%s), which no link of clang's reads", name, gencode.Spell(m.Images))
			return
		}
		for _, want := range t.Codes.SASS {
			has := func(i gencode.Image) bool {
				return i.Code() == want || i.Kind == gencode.Bitcode && i.Name == want.String()
			}
			if m.WrapperReads() && !slices.ContainsFunc(m.Images, has) {
				p.Bothf(t.Attr("gencode"), u.Pos, u.Label+" is this file", "Ask the vendor for that architecture, or drop it here.",
					"%s needs %s, but %s has %s only", t.Label, want, name, gencode.Spell(m.Images))
			}
		}
	}
}

// inOnePiece returns why the wrapper links the device code itself, or nil if kbuild plans its
// device links.
func (k *Toolchain) inOnePiece(r toolchain.LinkRequest, lto bool) error {
	major := k.major()
	switch err := r.OptedOut(r.Target); {
	case err != nil:
		return err
	case major > LastMajor:
		return fmt.Errorf("clang %d is newer than those that were tried", major)
	case MisreadsImages(k.Version):
		return fmt.Errorf("clang %d misreads the architecture in code of CUDA %s", major, k.Version)
	case lto && !LinksApart(major):
		return fmt.Errorf("clang %d optimises in its linker", major)
	case lto && (len(r.Target.Flags.NVLink) > 0 || slices.ContainsFunc(r.Inputs, func(u toolchain.LinkInput) bool { return u.RDC })):
		return errors.New("flags.nvlink, or machine code beside bitcode, in a link with LTO")
	case k.Programs["nvlink"] == "":
		return errors.New("the toolkit has no nvlink")
	}
	for _, u := range r.Inputs {
		if u.Kind == manifest.Prebuilt {
			return fmt.Errorf("clang-linker-wrapper takes the device code out of %s", u.File)
		}
		if err := clang.AllSplit([]toolchain.LinkInput{u}, "clang"); err != nil {
			return err
		}
	}
	return nil
}

// deviceLinks plans the device link of each architecture and returns their outputs.
func (k *Toolchain) deviceLinks(r toolchain.LinkRequest, p *toolchain.Plan, lto bool) (images []string) {
	t := r.Target
	for _, code := range t.Codes.SASS {
		var inputs []string
		for _, u := range r.Inputs {
			for _, o := range u.Objects {
				if file := o.Code[code.String()]; file != "" {
					inputs = append(inputs, file)
				}
			}
		}
		out := r.Out(graph.PartsDir, r.InTree(t.File), code.String()+".cubin")
		a := &graph.Action{Kind: graph.NVLink, Name: t.Name, Archs: []string{code.String()}, Mode: toolchain.LinkMode(lto), Intermediate: true,
			Argv:   NVLink(k.Programs["nvlink"], code, t.Flags.NVLink, inputs, out),
			Inputs: inputs, Outputs: []string{out}, Tools: []string{"nvcc"},
			Work: graph.Work{Response: cuda.OptionsFile, Link: &graph.Link{}, Step: &graph.Step{EmptyCwd: true}, Driver: &graph.Driver{}}}
		if lto {
			a.Kind, a.Tools, a.Env = graph.DeviceLink, []string{"clang", "nvcc"}, []string{toolchain.Anywhere}
			a.Argv = k.driver().DeviceLTO(code, inputs, out)
			a.Work = graph.Work{Response: toolchain.AtFile(1), Step: &graph.Step{}, Driver: &graph.Driver{}}
		}
		p.Emit(a)
		images = append(images, out)
	}
	return images
}
