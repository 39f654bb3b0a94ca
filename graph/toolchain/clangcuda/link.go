package clangcuda

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
			Work: graph.Work{Response: cuda.OptionsFile, Link: &graph.Link{}, Pass: &graph.CompilerPass{EmptyCwd: true}, Driver: &graph.Driver{}}}
		if lto {
			a.Kind, a.Tools, a.Env = graph.DeviceLink, []string{"clang", "nvcc"}, []string{toolchain.Anywhere}
			a.Argv = k.driver().DeviceLTO(code, inputs, out)
			a.Work = graph.Work{Response: toolchain.AtFile(1), Pass: &graph.CompilerPass{}, Driver: &graph.Driver{}}
		}
		p.Emit(a)
		images = append(images, out)
	}
	return images
}

// LastMajor is the newest clang that was tested to accept linked device code in place of what its
// wrapper would link.
const LastMajor = 23

// firstInner is the first clang whose wrapper passes bitcode to a clang of each architecture.
// Earlier wrappers optimise in their own process.
const firstInner = 20

// LinksApart reports whether clang's links with LTO can be split by architecture.
func LinksApart(major int) bool { return major > firstInner } // 20 was not tested

// MisreadsImages reports whether clang 22 and 23 misread the architecture in the toolkit's linked
// code: sm_90 as sm_90a, since CUDA 13 stores the flags of machine code elsewhere. The wrapper
// would mislabel the code, and a program would have none for its GPU.
func MisreadsImages(toolkit string) bool {
	major, _, _ := strings.Cut(toolkit, ".")
	n, err := strconv.Atoi(major)
	return err != nil || n >= 13
}

// Link describes a link of relocatable code by clang-linker-wrapper.
type Link struct {
	Major int // of clang
	LTO   bool
	Opt   string // "2"

	// Linked device code, one file for each architecture; if nil, the wrapper links it.
	Images      []string
	Codes       []gencode.Code // architectures of the wrapper's links; unused with Images
	LinkerFlags []string       // for nvlink; unused with Images
}

// Link returns the argv that replaces the compiler's name in a host link. Up to clang 22 the
// wrapper, and the clang that it runs, search PATH for ptxas, nvlink and fatbinary unless options
// name the toolkit.
func (k Driver) Link(l Link) []string {
	argv := []string{k.Path, "--cuda-path=" + k.CUDAPath, "-Wno-unused-command-line-argument", "--offload-link"}
	if l.Opt != "" {
		argv = append(argv, "-O"+l.Opt)
	}
	if l.LTO {
		argv = append(argv, ltoOption)
	}
	// From clang 21 on the wrapper then loads all code for these from archives, too.
	for _, c := range l.Codes {
		argv = append(argv, clang.OffloadArch+c.String())
	}
	for _, f := range l.LinkerFlags {
		if l.Images == nil {
			argv = append(argv, "-Xoffload-linker", f)
		}
	}
	argv = append(argv, "-Xlinker", "--cuda-path="+k.CUDAPath)
	if l.Major >= firstInner && l.Images == nil {
		argv = append(argv, "-Xlinker", "--device-compiler="+triple+"=--cuda-path="+k.CUDAPath)
	}
	for _, image := range l.Images {
		argv = append(argv, "-Xlinker", "--override-image=cuda="+image)
	}
	return argv
}

const triple = "nvptx64-nvidia-cuda"

// DeviceLTO returns the argv that links bitcode for one architecture, as the wrapper's own clang
// command does. The inputs must end in .o: clang would compile others first.
func (k Driver) DeviceLTO(code gencode.Code, inputs []string, output string) []string {
	argv := []string{k.Path, "--no-default-config", "--target=" + triple, "-march=" + code.String(), "--cuda-path=" + k.CUDAPath, "-Wno-unknown-cuda-version"}
	return slices.Concat(argv, []string{"-o", output}, inputs)
}

// NVLink returns the argv that links files for one architecture, as the wrapper's own nvlink
// command does.
func NVLink(program string, code gencode.Code, flags, inputs []string, output string) []string {
	return slices.Concat([]string{program, "-arch", code.String()}, flags, []string{"-o", output}, inputs)
}

// A compile of CUDA by clang is split like one by hipcc:
//
//	a.cu -> device-code [sm_80] -> ptxas [sm_80] --\
//	a.cu -> device-code [sm_90] -> ptxas [sm_90] ---> fatbinary --\
//	a.cu -> host-part -------------------------------------------> join -> a.cu.o
//
// This is final device code (mode whole). Relocatable code is packed for clang-linker-wrapper, and
// mode lto has no ptxas:
//
//	a.cu -> device-code [sm_80] -> ptxas [sm_80] --\
//	a.cu -> host-part ------------------------------> bundle, join -> a.cu.o

// Split plans the passes of a source for codes. For relocatable code it returns the files by
// architecture.
func (p *Passes) Split(u toolchain.Unit, codes []gencode.Code) (linked map[string]string) {
	if p.Embeds {
		return p.splitRelocatable(u, codes)
	}
	s := clang.NewSplit(u, "cuda", p.Passes)
	file := func(c gencode.Code) string {
		if c.Kind == gencode.SASS {
			return s.Dir + "/" + c.String() + ".cubin"
		}
		return s.Dir + "/" + c.String() + ".ptx"
	}
	for _, c := range codes {
		if c.Kind == gencode.SASS {
			p.assemble(s, c, file(c.As(gencode.PTX)), file(c))
		}
	}
	code := s.Dir + "/code" + clang.CUDACode
	argv, inputs := p.Pack(file, code)
	s.Pack(graph.Fatbinary, argv, inputs, code)
	s.Join(graph.ClangFatbin, s.Host(graph.Placeholder), code)
	return nil
}

// assemble plans the device pass of an architecture and the ptxas after it.
func (p *Passes) assemble(s *clang.Split, c gencode.Code, ptx, out string) {
	s.Device(c, ptx)
	a := s.Action(graph.PTXAS, p.Assemble(c, ptx, out), out)
	a.Archs, a.Inputs = []string{c.String()}, []string{ptx}
	a.Work.Pass.UnkeyedPaths, a.Work.Pass.EmptyCwd = s.Source(), true
	toolchain.AskResourceUsage(a)
	s.Emit(a)
}

func (p *Passes) splitRelocatable(u toolchain.Unit, codes []gencode.Code) map[string]string {
	s, linked := clang.NewSplit(u, "cuda", p.Passes), map[string]string{}
	for _, c := range codes {
		out := s.Dir + "/" + c.String()
		if p.Bitcode {
			out += ".o" // the linking clang would compile a file with another extension
			s.Device(c, out)
		} else {
			out += ".cubin" // nvlink silently ignores a file that ends in .o
			p.assemble(s, c, s.Dir+"/"+c.As(gencode.PTX).String()+".ptx", out)
		}
		linked[c.String()] = out
	}
	code := s.Dir + "/code" + clang.OffloadCode
	staged := func(arch string) string { return arch + ".o" }
	a := s.Action(graph.Bundle, p.packager.Pack(func(arch string) string { return graph.StageDir + "/" + staged(arch) }, code), code)
	for _, i := range p.packager.Images {
		a.Inputs = append(a.Inputs, linked[i.Arch()])
		a.Work.Pass.Staged = append(a.Work.Pass.Staged, graph.StagedFile{Name: staged(i.Arch()), From: linked[i.Arch()]})
	}
	a.Archs, a.Transient = s.Whole.Archs, a.Intermediate
	s.Emit(a)
	s.Join(graph.ClangOffload, s.Host(graph.Placeholder), code)
	return linked
}
