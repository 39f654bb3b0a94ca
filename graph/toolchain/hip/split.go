package hip

import (
	"maps"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// One hipcc command is split into the passes that it runs:
//
//	a.hip -> device-code [gfx906] --\
//	a.hip -> device-code [gfx90a] ---> bundle --\
//	a.hip -> host-part ------------------------> join -> a.hip.o     (whole)
//
// In the modes rdc and lto the device code is LLVM bitcode. bundle packs it with the host object
// into a.hip.o, and the program links it.

// Split plans the passes of a source for codes. In the modes rdc and lto it returns the bitcode by
// architecture.
func (p *Passes) Split(u toolchain.Unit, codes []gencode.Code) (bitcode map[string]string) {
	if p.New {
		return p.splitNew(u, codes)
	}
	s := clang.NewSplit(u, Tool, p.Passes)
	ending := ".co"
	if u.Whole.Mode != "whole" {
		ending = ".bc"
	}
	files := map[string]string{}
	for _, c := range codes {
		files[c.String()] = s.Dir + "/" + toolchain.FileName(c.String()) + ending
		s.Device(c, files[c.String()])
	}
	if u.Whole.Mode == "whole" {
		code := s.Dir + "/code" + clang.BundleCode
		p.pack(s, files, code)
		s.Join(graph.ClangBundle, s.Host(graph.Placeholder), code)
		return nil
	}
	files[""] = s.Host("")
	p.pack(s, files, u.Whole.Outputs[0])
	delete(files, "")
	return files
}

// splitNew is Split for the new driver. In the modes rdc and lto the packager replaces the bundler,
// and its output is inserted into the host object. In mode whole the code is linked like that of a
// program:
//
//	a.hip -> device-code [gfx906] -> lld [gfx906] ---> bundle --\
//	a.hip -> host-part -----------------------------------------> join -> a.hip.o
func (p *Passes) splitNew(u toolchain.Unit, codes []gencode.Code) map[string]string {
	s, files := clang.NewSplit(u, Tool, p.Passes), map[string]string{}
	for _, c := range codes {
		// The linking clang would compile a file with another extension.
		files[c.String()] = s.Dir + "/" + toolchain.FileName(c.String()) + ".o"
		s.Device(c, files[c.String()])
	}
	if p.Final == nil {
		code := s.Dir + "/code" + clang.OffloadCode
		argv := p.packager.Pack(func(arch string) string { return files[arch] }, code)
		s.Pack(graph.Bundle, argv, slices.Sorted(maps.Values(files)), code)
		s.Join(graph.ClangOffload, s.Host(graph.Placeholder), code)
		return files
	}
	code := s.Dir + "/code" + clang.BundleCode
	bitcode := map[string]Bitcode{}
	for arch, file := range files {
		bitcode[arch] = Bitcode{Files: []string{file}, Options: []string{file}}
	}
	linked := p.Final.DeviceLinks(s.Unit, s.Dir, nil, bitcode)
	argv, inputs := p.Final.Bundle.Pack(linked, code)
	s.Pack(graph.Bundle, argv, inputs, code)
	s.Join(graph.ClangBundle, s.Host(graph.Placeholder), code)
	return nil
}

// pack plans a bundle of files by architecture.
func (p *Passes) pack(s *clang.Split, files map[string]string, output string) {
	argv, inputs := p.Bundle.Pack(files, output)
	s.Pack(graph.Bundle, argv, inputs, output)
}
