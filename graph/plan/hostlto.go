package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Host LTO (attribute host_lto): C and C++ sources are compiled to the compiler's intermediate
// code, and the link of the program makes machine code of all of it. Objects that nvcc makes stay
// machine code; one link takes both.

// linkLTO is what a link of t does with intermediate code: what t asks for or else its libraries;
// "" if there is no such code.
func linkLTO(t *target, l linkage) string {
	for _, u := range append([]*target{t}, l.statics...) {
		if kind := hostLTO(u); kind != "" {
			return kind
		}
	}
	return ""
}

// ltoCompile gives the options that compile a source to intermediate code.
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

// ltoLink gives the options of a link of t that make machine code of intermediate code.
func (g *given) ltoLink(t *target, l linkage) []string {
	kind := linkLTO(t, l)
	if kind == "" {
		return nil
	}
	return g.lto(kind).Link(optLevel(t, t.anySource()), t.Debug)
}

// checkHostLTO reports what the compilers cannot do, where t asks for it. The link is done by the
// C++ compiler.
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

// members are the objects of a static library, in order. Where clang makes intermediate code those
// that nvcc made come first: nvlink takes an archive for one without device code, and says nothing,
// if its first member is no ELF file (11.8, 12.4).
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

// ltoArchive turns the archiving of t into that of intermediate code: the index needs the names
// that are in there.
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
	if ck.facts.CXX.Path == "" && !(ck.nvccSaid && ck.facts.CUDAMisses.Attribute == "host_compiler") {
		ck.errorf(t.Pos, ck.facts.CXX.Error, "no compiler to link %s", t.label)
	}
}
