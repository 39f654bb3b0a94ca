package plan

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
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

// major returns the major version of the compiler, or 0 if it is not a number.
func (c *ClangCUDA) major() int {
	first, _, _ := strings.Cut(c.Driver.Version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// clangLinks reports whether the CUDA compiler is a clang that can link relocatable CUDA.
func (g *given) clangLinks() bool {
	return g.clang() != nil && g.clang().major() >= clangcuda.FirstMajor
}

// linksByClang reports whether a link has relocatable code, compiled or prebuilt, that clang must
// link. Prebuilt code that nvcc compiled goes to nvlink.
func (g *given) linksByClang(linked []linkInput) bool {
	return g.clangLinks() && slices.ContainsFunc(linked, func(p linkInput) bool {
		return p.t.Kind != manifest.Prebuilt || slices.ContainsFunc(g.facts.Prebuilt[p.t.file].Members, Member.wrapperReads)
	})
}

// wrapperReads reports whether m holds relocatable NVIDIA code that clang-linker-wrapper links.
func (m Member) wrapperReads() bool { return m.NewDriver && !m.amd() }

// amd reports whether m holds AMD code.
func (m Member) amd() bool {
	return slices.ContainsFunc(m.Images, func(i gencode.Image) bool {
		return i.Kind == gencode.GFX || i.Kind == gencode.SPIRV || i.Kind == gencode.Bitcode && !strings.HasPrefix(i.Name, "sm_")
	})
}

// clangLink plans one link of CUDA that clang compiled.
type clangLink struct {
	b      *builder
	t      *target
	l      linkage
	kind   graph.Kind
	linked []linkInput // targets with relocatable code
}

// plan plans the device links and the link of the program or shared library.
func (k *clangLink) plan() {
	if !k.check() {
		return
	}
	lto := hasLTO(k.linked)
	link := clangcuda.Link{Major: k.b.clang().major(), LTO: lto, Opt: clangOptions(k.t, k.t.anySource(), nil).Opt, LinkerFlags: k.t.Flags.NVLink}
	why := k.inOnePiece()
	if why == nil {
		link.Images = k.deviceLinks(lto)
	} else {
		link.Codes = k.t.codes.sass
	}
	argv, inputs := k.b.linkArgv(k.t, k.l, append(paths(k.t.objects), k.l.embeds...), false, k.kind)
	clang := k.b.clang()
	argv = append(clangcuda.Driver{Path: clang.Driver.Path, CUDAPath: clang.CUDAPath}.Link(link), argv[1:]...)
	out := k.t.file
	a := &graph.Action{Kind: k.kind, Name: path.Base(path.Dir(out)) + "/" + path.Base(out), Argv: argv, Env: []string{toolchain.Anywhere},
		Inputs: append(inputs, link.Images...), Outputs: []string{out}, Depfile: k.b.linkDepfile(k.t), Tools: []string{"cxx", "nvcc", "clang"},
		Work: graph.Work{Response: atFile(1), Driver: &graph.Driver{Ships: names(k.t.codes.sass)}}}
	if why != nil {
		a.Mode, a.Archs = linkMode(lto), names(k.t.codes.sass)
		a.Work.Driver.UnsplitReason, a.Work.Driver.Fallback = why.Error(), !errors.As(why, new(optOut))
	}
	k.b.besideLink(k.t, a)
	k.b.emit(k.t, a)
}

// check reports what would make the linked program wrong. clang's linker requires code of the exact
// architecture and prints nothing if it is missing.
func (k *clangLink) check() bool {
	ck, t := &k.b.checks, k.t
	before := len(ck.list)
	if len(t.codes.sass) == 0 {
		ck.errorf(t.attr("gencode"), "Add the architectures to link for, for example sm_80.", "%s links device code and ships no machine code", t.label)
	}
	if len(t.codes.ptx) > 0 {
		ck.warnf(t.attr("gencode"), "A device link makes machine code only. Set mode = \"whole\" to ship PTX, or drop "+spell(t.codes.ptx)+".",
			"%s does not ship %s: its device code is linked", t.label, spell(t.codes.ptx))
	}
	for _, p := range k.linked {
		if p.t.Kind == manifest.Prebuilt {
			ck.checkForClang(t, p.t)
			continue
		}
		for _, want := range t.codes.sass {
			if !slices.Contains(p.t.codes.sass, want) {
				ck.bothf(t.attr("gencode"), p.t.attr("gencode"), p.t.label+" says what it has",
					"Without it the program would hold no code of it for that architecture. Add it to "+p.t.label+", or drop it here.",
					"%s needs %s, but %s has %s only", t.label, want, p.t.label, spell(p.t.codes.sass))
			}
		}
	}
	return !ck.list[before:].HasErrors()
}

// checkForClang checks that a prebuilt file u that t links has relocatable code of the new offload
// driver for each architecture.
func (ck *checks) checkForClang(t, u *target) {
	for _, m := range ck.facts.Prebuilt[u.file].Members {
		if m.NVLinkReads() {
			ck.bothf(u.Pos, t.Pos, t.label+" links it and code that clang compiled", "Link it into a program that nvcc compiles, or have it compiled by clang.",
				"%s has relocatable code of nvcc's (%s), which no link of clang's reads", memberNames(u, []Member{m}), gencode.Spell(m.Images))
			return
		}
		for _, want := range t.codes.sass {
			has := func(i gencode.Image) bool {
				return i.Code() == want || i.Kind == gencode.Bitcode && i.Name == want.String()
			}
			if m.wrapperReads() && !slices.ContainsFunc(m.Images, has) {
				ck.bothf(t.attr("gencode"), u.Pos, u.label+" is this file", "Ask the vendor for that architecture, or drop it here.",
					"%s needs %s, but %s has %s only", t.label, want, memberNames(u, []Member{m}), gencode.Spell(m.Images))
			}
		}
	}
}

// inOnePiece returns why the wrapper links the device code itself, or nil if kbuild plans its
// device links.
func (k *clangLink) inOnePiece() error {
	b, major := k.b, k.b.clang().major()
	switch why := b.optedOut(k.t); {
	case why != "":
		return optOut(why)
	case major > clangcuda.LastMajor:
		return fmt.Errorf("clang %d is newer than those that were tried", major)
	case clangcuda.MisreadsImages(b.facts.CUDA.Version):
		return fmt.Errorf("clang %d misreads the architecture in code of CUDA %s", major, b.facts.CUDA.Version)
	case hasLTO(k.linked) && !clangcuda.LinksApart(major):
		return fmt.Errorf("clang %d optimises in its linker", major)
	case hasLTO(k.linked) && (len(k.t.Flags.NVLink) > 0 || slices.ContainsFunc(k.linked, func(p linkInput) bool { return p.rdc })):
		return errors.New("flags.nvlink, or machine code beside bitcode, in a link with LTO")
	case b.facts.CUDA.Programs["nvlink"] == "":
		return errors.New("the toolkit has no nvlink")
	}
	for _, p := range k.linked {
		if p.t.Kind == manifest.Prebuilt {
			return fmt.Errorf("clang-linker-wrapper takes the device code out of %s", p.t.file)
		}
		for _, o := range p.t.objects {
			if relocatable(o.source) && o.bitcode == nil {
				return fmt.Errorf("clang compiled %s as one command", o.source.Path)
			}
		}
	}
	return nil
}

// deviceLinks plans the device link of each architecture and returns their outputs.
func (k *clangLink) deviceLinks(lto bool) (images []string) {
	b, clang := k.b, k.b.clang()
	for _, code := range k.t.codes.sass {
		var inputs []string
		for _, p := range k.linked {
			for _, o := range p.t.objects {
				if file := o.bitcode[code.String()]; file != "" {
					inputs = append(inputs, file)
				}
			}
		}
		out := b.out(graph.PartsDir, b.inTree(k.t.file), code.String()+".cubin")
		a := &graph.Action{Kind: graph.NVLink, Name: k.t.Name, Archs: []string{code.String()}, Mode: linkMode(lto), Intermediate: true,
			Argv:   clangcuda.NVLink(b.facts.CUDA.Programs["nvlink"], code, k.t.Flags.NVLink, inputs, out),
			Inputs: inputs, Outputs: []string{out}, Tools: []string{"nvcc"},
			Work: graph.Work{Response: nvcc.OptionsFile, Link: &graph.Link{}, Step: &graph.Step{EmptyCwd: true}, Driver: &graph.Driver{}}}
		if lto {
			a.Kind, a.Tools, a.Env = graph.DeviceLink, []string{"clang", "nvcc"}, []string{toolchain.Anywhere}
			a.Argv = clangcuda.Driver{Path: clang.Driver.Path, CUDAPath: clang.CUDAPath}.DeviceLTO(code, inputs, out)
			a.Work = graph.Work{Response: atFile(1), Step: &graph.Step{}, Driver: &graph.Driver{}}
		}
		b.emit(k.t, a)
		images = append(images, out)
	}
	return images
}
