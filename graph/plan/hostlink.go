package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// hostLink returns the host link of t without device code.
func (b *builder) hostLink(t *target, l linkage) host.LinkOptions {
	h := host.LinkOptions{Objects: append(t.ObjectPaths(), l.embeds...), Libs: l.libs,
		LibDirs: l.libDirs, Flags: t.Flags.Link, Output: t.File}
	if kind := linkLTO(t, l); kind != "" {
		level := toolchain.HostLevels.Of(&t.Target, t.AnySource())
		h.LTO = b.facts.lto(kind).Link(level, t.Debug)
	}
	if b.facts.LinkDepfile { // only that file names the libraries of -l and the system's start files
		h.Depfile = b.build.Out("obj", t.Folder(), "link.d")
	}
	// GNU ld prints the paths that it probes. Other linkers, which flags may name, accept the option
	// but print other things, or nothing.
	other := func(flag string) bool {
		return strings.HasPrefix(flag, "-fuse-ld=") && flag != "-fuse-ld=bfd" || strings.HasPrefix(flag, "--ld-path=")
	}
	h.Trace = b.facts.LinkDepfile && b.facts.LinkTrace && !slices.ContainsFunc(slices.Concat(t.Flags.Link, h.LTO), other)
	for _, s := range append(append([]*target(nil), l.statics...), l.pre...) {
		switch {
		case s.Wrapped != "":
			h.Objects = append(h.Objects, s.Wrapped)
		case s.AlwaysLink:
			h.Whole = append(h.Whole, s.File)
		default:
			h.Archives = append(h.Archives, s.File)
		}
	}
	for _, s := range l.shared {
		// A link by path would make the loader search relative to the working directory.
		if b.facts.Behind[s.File].Unnamed {
			h.Shared = append(h.Shared, "-L"+path.Dir(s.File), "-l:"+path.Base(s.File))
		} else {
			h.Shared = append(h.Shared, s.File)
		}
		h.RPaths = appendNew(h.RPaths, rpath(t.File, s.File))
	}
	h.Needed = b.neededFolders(t, l)
	if t.Shared {
		h.SOName = path.Base(t.File)
	}
	return h
}

// neededFolders returns the folders of the transitive dependencies of shared libraries in the link
// of t. GNU ld searches for those neither in the folders of -L nor beside the library that needs
// them. Other linkers accept the option and need no such library.
func (b *builder) neededFolders(t *target, l linkage) (dirs []string) {
	linked := append(slices.Clone(l.statics), l.pre...)
	linked = append(linked, t)
	for _, u := range append([]*target{t}, b.walk.closure(t)...) {
		behind := !slices.Contains(linked, u)
		toolkit := behind && u.CudaRT == "shared"
		if behind {
			dirs = appendNew(dirs, u.LibDirs...)
			toolkit = toolkit || slices.ContainsFunc(u.Libs, func(l string) bool { return len(b.facts.Libs[l]) == 0 })
		}
		for _, file := range b.facts.hostFiles(u) {
			if behind {
				dirs = appendNew(dirs, path.Dir(file))
			}
			needs := b.facts.Behind[file]
			if needs.Missing != "" {
				dirs = appendNew(dirs, l.libDirs...)
			}
			dirs = appendNew(dirs, needs.Beside...)
			toolkit = toolkit || needs.Toolkit
		}
		if toolkit {
			dirs = appendNew(dirs, b.facts.LibDirs()...)
		}
	}
	return slices.DeleteFunc(dirs, ofSystem)
}

// rpath returns the run path by which the file from finds the library to. It is relative, so that
// the build tree can be moved. A library outside of the build tree gets its absolute folder.
func rpath(from, to string) string {
	if path.IsAbs(to) && !path.IsAbs(from) {
		return path.Dir(to)
	}
	up := ""
	dir := path.Dir(from)
	for !strings.HasPrefix(to, dir+"/") && dir != "." && dir != "/" {
		up += "/.."
		dir = path.Dir(dir)
	}
	rel := path.Dir(to)
	if dir != "." {
		rel = strings.TrimPrefix(strings.TrimPrefix(rel, dir), "/")
	}
	// Not path.Join, which would remove $ORIGIN/..
	return strings.TrimSuffix("$ORIGIN"+up+"/"+rel, "/")
}

// usesCUDA reports whether the program needs the CUDA runtime: it links a CUDA source or prebuilt
// device code.
func (b *builder) usesCUDA(t *target, l linkage) bool {
	for _, u := range append(append([]*target{t}, l.statics...), l.pre...) {
		if u.shipsCUDA() || len(b.facts.Prebuilt[u.File].Members) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(l.libs, func(name string) bool { return b.facts.static(name, l.libDirs) != "" })
}

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
