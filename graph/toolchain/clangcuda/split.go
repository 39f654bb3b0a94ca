package clangcuda

import (
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

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
	s.Join(s.Host(clang.Placeholder), code)
	return nil
}

// assemble plans the device pass of an architecture and the ptxas after it.
func (p *Passes) assemble(s *clang.Split, c gencode.Code, ptx, out string) {
	s.Device(c, ptx)
	a := s.Action(graph.PTXAS, p.Assemble(c, ptx, out), out)
	a.Archs, a.Inputs = []string{c.String()}, []string{ptx}
	a.Work.Step.UnkeyedPaths, a.Work.Step.EmptyCwd = s.Source(), true
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
		a.Work.Step.Staged = append(a.Work.Step.Staged, graph.StagedFile{Name: staged(i.Arch()), From: linked[i.Arch()]})
	}
	a.Archs, a.Transient = s.Whole.Archs, a.Intermediate
	s.Emit(a)
	s.Join(s.Host(clang.Placeholder), code)
	return linked
}
