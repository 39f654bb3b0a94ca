package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// Host LTO (attribute host_lto): C and C++ sources are compiled to the compiler's intermediate
// code, and the link of the program compiles all of it to machine code. Objects that nvcc compiles
// stay machine code; one link takes both.

// linkLTO returns the LTO kind of a link of t: that of t itself, or else of its libraries; "" if no
// host code is intermediate.
func linkLTO(t *target, l linkage) string {
	for _, u := range append([]*target{t}, l.statics...) {
		if kind := hostLTO(u); kind != "" {
			return kind
		}
	}
	return ""
}

// lto returns how the C++ compiler optimises across files.
func (f *Facts) lto(kind string) host.LTO {
	return host.LTO{Family: f.CXX.Family, Kind: kind, LD: f.HostLTO.LD}
}

// checkHostLTO reports compilers that cannot satisfy t's host_lto. The C++ compiler does the link.
func (b *builder) checkHostLTO(t *target, compiler toolchain.Tool) {
	cxx, pos := b.facts.CXX, t.Attr("host_lto")
	switch {
	case cxx.Path == "":
		b.checkCompiler(t)
	case cxx.Family == "":
		b.problems.Errorf(pos, `Name a g++ or clang++ as host_compiler of the toolchain block, or remove host_lto.`,
			"kbuild does not know how %s optimises across files", cxx.Path)
	case cxx.Family == "gcc" && t.HostLTO == "thin":
		b.problems.Errorf(pos, `Write host_lto = "full", or name a clang++ as host_compiler of the toolchain block.`,
			"%s is gcc, which has no ThinLTO", cxx.Path)
	case compiler.Family != cxx.Family || compiler.Version != cxx.Version:
		b.problems.Errorf(pos, "Install the C compiler that belongs to it, or remove host_lto: neither reads the intermediate code of the other.",
			"the C sources of %s are compiled by %s (%s) and linked by %s (%s)", t.Label, compiler.Path, described(compiler), cxx.Path, described(cxx))
	case b.facts.HostLTO.Error != "":
		b.problems.Errorf(pos, b.facts.HostLTO.Error, "%s cannot optimise across files here", cxx.Path)
	}
}

func described(t toolchain.Tool) string { return fmt.Sprintf("%s %s", t.Family, t.Version) }

// members returns the objects of a static library, in order. If clang compiles to intermediate
// code, nvcc's objects come first. If the first member is no ELF file, nvlink silently treats the
// archive as one without device code (11.8, 12.4).
func (b *builder) members(t *target) []string {
	if b.facts.CXX.Family != "clang" || hostLTO(t) == "" {
		return t.ObjectPaths()
	}
	var host, device []string
	for _, o := range t.Objects {
		if o.Source.IsDevice() {
			device = append(device, o.Path)
		} else {
			host = append(host, o.Path)
		}
	}
	return append(device, host...)
}

func (b *builder) checkCompiler(t *target) {
	if b.facts.CXX.Path == "" && !(b.build.Reported[toolchain.NoToolkit] && b.facts.CUDA.Misses.Attribute == "host_compiler") {
		b.problems.Errorf(t.Pos, b.facts.CXX.Error, "no compiler to link %s", t.Label)
	}
}
