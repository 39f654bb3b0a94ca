package plan

import (
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
