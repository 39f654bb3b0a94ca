package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

func (ck *checks) linkArgv(t *target, l linkage, objs []string, deviceLink bool, kind graph.Kind) (argv, inputs []string) {
	h := host.LinkOptions{Depfile: ck.linkDepfile(t), Trace: ck.tracesLink(t, l), Objects: objs, Libs: l.libs, LibDirs: l.libDirs,
		LTO: ck.ltoLink(t, l), Flags: t.Flags.Link, Output: t.file}
	for _, s := range append(append([]*target(nil), l.statics...), l.pre...) {
		switch {
		case s.object != "":
			h.Objects = append(h.Objects, s.object)
		case s.AlwaysLink:
			h.Whole = append(h.Whole, s.file)
		default:
			h.Archives = append(h.Archives, s.file)
		}
	}
	inputs = slices.Concat(inputs, h.Objects, h.Whole, h.Archives)
	for _, s := range l.shared {
		inputs = append(inputs, s.file)
		// A link by path would make the loader search relative to the working directory.
		if ck.facts.Behind[s.file].Unnamed {
			h.Shared = append(h.Shared, "-L"+path.Dir(s.file), "-l:"+path.Base(s.file))
		} else {
			h.Shared = append(h.Shared, s.file)
		}
		h.RPaths = appendNew(h.RPaths, rpath(t.file, s.file))
	}
	h.Needed = ck.neededFolders(t, l)
	if kind == graph.SharedLink {
		h.SOName = path.Base(t.file)
	}
	if !t.isHIP() && ck.usesCUDA(t, l) && ck.facts.CUDA != nil {
		h.CUDALibs = nvcc.RuntimeLibs(t.CudaRT, ck.facts.CUDA.CUDART, deviceLink)
		h.CUDADirs = ck.facts.CUDA.LibDirs
		ck.checkLibraries(t, h.LibDirs, h.Flags, h.CUDALibs...)
	}
	return host.Link(ck.facts.CXX.Path, h), inputs
}

// neededFolders returns the folders of the transitive dependencies of shared libraries in the link
// of t. GNU ld searches for those neither in the folders of -L nor beside the library that needs
// them. Other linkers accept the option and need no such library.
func (ck *checks) neededFolders(t *target, l linkage) (dirs []string) {
	linked := append(slices.Clone(l.statics), l.pre...)
	linked = append(linked, t)
	for _, u := range append([]*target{t}, ck.closure(t)...) {
		behind := !slices.Contains(linked, u)
		toolkit := behind && u.CudaRT == "shared"
		if behind {
			dirs = appendNew(dirs, u.LibDirs...)
			toolkit = toolkit || slices.ContainsFunc(u.Libs, func(l string) bool { return len(ck.facts.Libs[l]) == 0 })
		}
		for _, file := range ck.hostFiles(u) {
			if behind {
				dirs = appendNew(dirs, path.Dir(file))
			}
			needs := ck.facts.Behind[file]
			if needs.Missing != "" {
				dirs = appendNew(dirs, l.libDirs...)
			}
			dirs = appendNew(dirs, needs.Beside...)
			toolkit = toolkit || needs.Toolkit
		}
		if toolkit && ck.facts.CUDA != nil {
			dirs = appendNew(dirs, ck.facts.CUDA.LibDirs...)
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
func (g *given) usesCUDA(t *target, l linkage) bool {
	for _, u := range append(append([]*target{t}, l.statics...), l.pre...) {
		if u.shipsCUDA() || len(g.facts.Prebuilt[u.file].Members) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(l.libs, func(name string) bool { return g.facts.static(name, l.libDirs) != "" })
}

// linkDepfile returns the dependency file of the linker, "" if it writes none. Only that file names
// the libraries of -l and the system's start files.
func (g *given) linkDepfile(t *target) string {
	if !g.facts.LinkDepfile {
		return ""
	}
	return g.out("obj", fileName(t), "link.d")
}

// tracesLink reports whether the linker of t is GNU ld, which prints the paths that it probes.
// Other linkers, which flags may name, accept the option but print other things, or nothing.
func (g *given) tracesLink(t *target, l linkage) bool {
	other := func(flag string) bool {
		return strings.HasPrefix(flag, "-fuse-ld=") && flag != "-fuse-ld=bfd" || strings.HasPrefix(flag, "--ld-path=")
	}
	return g.facts.LinkDepfile && g.facts.LinkTrace && !slices.ContainsFunc(t.Flags.Link, other) && !slices.ContainsFunc(g.ltoLink(t, l), other)
}

// linkTools returns the tools of a host link. The toolkit is one if its libraries are linked, in
// case the linker cannot report that it read them.
func (g *given) linkTools(t *target, l linkage) []string {
	if g.facts.CUDA != nil && g.usesCUDA(t, l) {
		return []string{"cxx", "nvcc"}
	}
	return []string{"cxx"}
}
