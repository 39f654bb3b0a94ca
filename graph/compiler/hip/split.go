package hip

import (
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// One hipcc command is taken apart into the passes that it runs:
//
//	a.hip -> preprocess [gfx906] -> device-code [gfx906] --\
//	a.hip -> preprocess [gfx90a] -> device-code [gfx90a] ---> bundle --\
//	a.hip -> preprocess [host] ---> host-part ------------------------> join -> a.hip.o     (whole)
//
// In the modes rdc and lto the device code is LLVM bitcode, bundle puts it and the host's object into a.hip.o, and the program
// links it.

// Split plans the passes of a source for codes. In the modes rdc and lto it gives the bitcode by architecture.
func (p *Passes) Split(u compiler.Unit, codes []gencode.Code) (bitcode map[string]string) {
	s := clang.NewSplit(u, "hip", p.Passes)
	ending := ".co"
	if u.Whole.Mode != "whole" {
		ending = ".bc"
	}
	files := map[string]string{}
	for _, c := range codes {
		files[c.String()] = s.Dir + "/" + compiler.FileName(c.String()) + ending
		s.Device(c, files[c.String()])
	}
	if u.Whole.Mode == "whole" {
		code := s.Dir + "/code" + clang.HIPCode
		p.pack(s, files, code)
		s.Join(s.Host(clang.Placeholder), code)
		return nil
	}
	files[""] = s.Host("")
	p.pack(s, files, u.Whole.Outputs[0])
	delete(files, "")
	return files
}

// pack plans a bundle of files by architecture.
func (p *Passes) pack(s *clang.Split, files map[string]string, output string) {
	argv, inputs := p.Bundle.Pack(files, output)
	s.Pack(graph.Bundle, argv, inputs, output)
}
