package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
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

// ltoCompile returns the options that compile a source to intermediate code.
func (ck *checks) ltoCompile(t *target, s manifest.Source, compiler Tool) []string {
	if hostLTO(t) == "" || !isHost(s) {
		return nil
	}
	ck.checkHostLTO(t, compiler)
	return ck.lto(t.HostLTO).Compile(fileName(t) + "/" + ck.inTree(s.Path))
}

func (g *given) lto(kind string) host.LTO {
	return host.LTO{Family: g.facts.CXX.Family, Kind: kind, LD: g.facts.HostLTO.LD}
}

// ltoLink returns the link options that compile intermediate code to machine code.
func (g *given) ltoLink(t *target, l linkage) []string {
	kind := linkLTO(t, l)
	if kind == "" {
		return nil
	}
	return g.lto(kind).Link(optLevel(t, t.anySource()), t.Debug)
}

// checkHostLTO reports compilers that cannot satisfy t's host_lto. The C++ compiler does the link.
func (ck *checks) checkHostLTO(t *target, compiler Tool) {
	cxx, pos := ck.facts.CXX, t.attr("host_lto")
	switch {
	case cxx.Path == "":
		ck.checkCompiler(t)
	case cxx.Family == "":
		ck.errorf(pos, `Name a g++ or clang++ as host_compiler of the toolchain block, or remove host_lto.`,
			"kbuild does not know how %s optimises across files", cxx.Path)
	case cxx.Family == "gcc" && t.HostLTO == "thin":
		ck.errorf(pos, `Write host_lto = "full", or name a clang++ as host_compiler of the toolchain block.`,
			"%s is gcc, which has no ThinLTO", cxx.Path)
	case compiler.Family != cxx.Family || compiler.Version != cxx.Version:
		ck.errorf(pos, "Install the C compiler that belongs to it, or remove host_lto: neither reads the intermediate code of the other.",
			"the C sources of %s are compiled by %s (%s) and linked by %s (%s)", t.label, compiler.Path, described(compiler), cxx.Path, described(cxx))
	case ck.facts.HostLTO.Error != "":
		ck.errorf(pos, ck.facts.HostLTO.Error, "%s cannot optimise across files here", cxx.Path)
	}
}

func described(t Tool) string { return fmt.Sprintf("%s %s", t.Family, t.Version) }

// members returns the objects of a static library, in order. If clang compiles to intermediate
// code, nvcc's objects come first. If the first member is no ELF file, nvlink silently treats the
// archive as one without device code (11.8, 12.4).
func (g *given) members(t *target) []string {
	if g.facts.CXX.Family != "clang" || hostLTO(t) == "" {
		return paths(t.objects)
	}
	var host, device []string
	for _, o := range t.objects {
		if o.device {
			device = append(device, o.path)
		} else {
			host = append(host, o.path)
		}
	}
	return append(device, host...)
}

// ltoArchive makes the archive action of t use an archiver that can index the symbols in
// intermediate code.
func (g *given) ltoArchive(t *target, a *graph.Action, members []string) {
	if hostLTO(t) == "" {
		return
	}
	lto := g.facts.HostLTO
	a.Tools = []string{"lto-ar"}
	a.Argv = host.Archive(lto.AR.Path, t.file, members)
	if lto.Plugin != "" {
		a.Argv, a.Work.Response = host.ArchiveWith(lto.Plugin, lto.AR.Path, t.file, members), atFile(5)
	}
}

func (ck *checks) checkCompiler(t *target) {
	if ck.facts.CXX.Path == "" && !(ck.nvccReported && ck.facts.CUDAMisses.Attribute == "host_compiler") {
		ck.errorf(t.Pos, ck.facts.CXX.Error, "no compiler to link %s", t.label)
	}
}
