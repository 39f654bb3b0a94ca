package clangcuda

import (
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// A clang that compiles CUDA is taken apart as hipcc is:
//
//	a.cu -> preprocess [sm_80] -> device-code [sm_80] -> ptxas [sm_80] --\
//	a.cu -> preprocess [sm_90] -> device-code [sm_90] -> ptxas [sm_90] ---> fatbinary --\
//	a.cu -> preprocess [host] ---> host-part -------------------------------------------> join -> a.cu.o
//
// Only final device code is made this way (mode whole). clang's relocatable code is a fatbin for nvlink that ends in a link by
// nvcc, and its LTO is a link by clang-linker-wrapper; both are refused.

// Split plans the passes of a source for codes.
func (p *Passes) Split(u compiler.Unit, codes []gencode.Code) {
	s := clang.NewSplit(u, "cuda", p.Passes)
	file := func(c gencode.Code) string {
		if c.Kind == gencode.SASS {
			return s.Dir + "/" + c.String() + ".cubin"
		}
		return s.Dir + "/" + c.String() + ".ptx"
	}
	for _, c := range codes {
		if c.Kind == gencode.SASS {
			ptx := file(c.As(gencode.PTX))
			s.Device(c, ptx)
			a := s.Action(graph.PTXAS, p.Assemble(c, ptx, file(c)), file(c))
			a.Archs, a.Inputs = []string{c.String()}, []string{ptx}
			a.Work.Step.UnkeyedPaths, a.Work.Step.EmptyCwd = s.Source(), true
			compiler.AskResourceUsage(a)
			s.Emit(a)
		}
	}
	code := s.Dir + "/code" + clang.CUDACode
	argv, inputs := p.Pack(file, code)
	s.Pack(graph.Fatbinary, argv, inputs, code)
	s.Join(s.Host(clang.Placeholder), code)
}
