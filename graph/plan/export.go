package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Export describes a target for other build tools: where its files are, and what a link with it
// must add. Paths are those of actions.
type Export struct {
	Label, Name string
	Kind        manifest.Kind
	Pos         manifest.Pos
	File        string   // of a library, a program or a prebuilt
	HeaderOnly  bool     // a library of headers, without File
	Shared      bool     // File is a shared library
	Plain       string   // of a shared library with a soversion: the name without it
	Artifacts   []string // of a module, the manifest last
	Headers     []manifest.Header

	// Labels of libraries that a link with a static library names as well, or that a program or a
	// shared library loads.
	Needs    []string
	RunPaths []string // the run path of a program or a shared library
	Links    Links
	Codes    []string // the device code in a library of this build, as in the manifest: "lto_80"
	Fault    string   // why other build tools cannot use it, or ""
	FaultPos manifest.Pos
	InTree   bool // the fault concerns only the installed target: in the build tree it is usable
}

// Links describes what a link with a static library must add. That of a shared library adds nothing
// and names the runtime that it loads.
type Links struct {
	CUDA bool // needs that runtime

	// The toolchain of code that nvcc does not link; nil if there is none.
	Other *toolchain.Info

	DeviceLink bool // has device code to link
	Always     bool // links all objects of the archive
	Closed     bool // its device code and that of its dependencies is linked already
	LTO        bool // has LTO-IR

	// Options of CUDA 13's nvlink to compute as the LTO-IR was compiled; "" if its defaults
	// suffice.
	Arithmetic string

	// The nvcc options of the LTO-IR if they are not nvcc's defaults: all of a link must agree.
	Floats []string

	// Version of the CUDA toolkit that compiled the code: an older one does not link it.
	Toolkit  string
	Runtime  string   // attribute cudart
	HostLTO  string   // LTO kind of its host code: "thin", "full" or ""
	Libs     []string // -l
	LibDirs  []string // -L
	CUDADirs []string // -L of the toolkit
	CXX      bool     // has C++ host code

	// Of a library of headers: NAME or NAME=VALUE, for sources that include them.
	Defines []string

	// Of a library of headers: position of its flags, which other build tools do not get.
	Flags manifest.Pos
}

// export returns the export of a target.
func (b *builder) export(t *target) Export {
	e := Export{Label: t.Label, Name: strings.ReplaceAll(t.Name, "/", "."), Kind: t.Kind, Pos: t.Pos, File: t.File, Headers: t.PublicHeaders}
	switch {
	case t.Kind == manifest.Module:
		for _, o := range t.node.Outputs { // without the files that only programs of the project link
			if strings.HasPrefix(o, b.build.Out("modules")+"/") {
				e.Artifacts = append(e.Artifacts, o)
			}
		}
	case t.Kind == manifest.Executable || t.Shared:
		if e.Shared = t.Shared; t.Shared {
			e.Links = Links{Runtime: t.CudaRT, CUDA: t.Codes.Language() == "cuda" && b.usesCUDA(t, b.walk.linkage(t))}
		}
		if t.SOVersion != "" {
			e.Plain = strings.TrimSuffix(t.File, "."+t.SOVersion)
		}
		for _, s := range b.walk.linkage(t).shared {
			e.Needs = append(e.Needs, s.Label)
			e.RunPaths = appendNew(e.RunPaths, rpath(t.File, s.File))
		}
		l := b.walk.linkage(t)
		for _, lib := range l.libs {
			for _, file := range b.facts.Libs[lib] {
				if dir := path.Dir(file); inProject(dir) && slices.Contains(l.libDirs, dir) && path.Ext(file) != ".a" {
					e.InTree = true
					e.Fault, e.FaultPos = file+" is loaded from lib_dirs of the project, and is not installed. Declare it as a prebuilt, and name that in deps.", t.Attr("lib_dirs")
				}
			}
		}
	case t.HeaderOnly():
		e.HeaderOnly = true
		e.Links = Links{Libs: t.Libs, LibDirs: t.LibDirs, Defines: toolchain.Defines(t.Defines), Flags: t.AttrPos["flags"]}
	case t.Kind == manifest.Library:
		own, open := linkInputOf(b.toolchain(t), &t.Target)
		if t.DeviceLink {
			own, open = toolchain.LinkInput{}, false
		}
		libs, cuda := b.deviceLibs(&t.Target, t.LibDirs), t.Codes.Language() == "cuda"
		e.Links = Links{
			CUDA:       cuda && b.usesCUDA(t, linkage{libDirs: t.LibDirs}),
			DeviceLink: open || len(libs) > 0 && !t.DeviceLink, Always: t.AlwaysLink, Closed: t.DeviceLink,
			LTO: own.LTO, Runtime: t.CudaRT, HostLTO: hostLTO(t), Libs: t.Libs, LibDirs: t.LibDirs,
			CXX: slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return s.Language != "c" && s.Language != "asm" }),
		}
		if !cuda && slices.ContainsFunc(t.Sources, manifest.Source.IsDevice) {
			info := b.toolchain(t).Info()
			e.Links.Other = &info
		}
		if tc, is := b.toolchain(t).(toolchain.Exporter); is && own.LTO {
			e.Links.Arithmetic, e.Links.Floats = tc.ExportLTO(&t.Target)
		}
		if k := b.toolchains["cuda"].Info(); e.Links.CUDA {
			e.Links.Toolkit, e.Links.CUDADirs = k.Version, k.LibDirs
		}
	case t.Kind == manifest.Prebuilt:
		e.Shared = t.SharedFile != ""
		linked, open := linkInputOf(b.toolchain(t), &t.Target)
		e.Links = Links{LTO: linked.LTO, CXX: true, Libs: t.Libs, LibDirs: t.LibDirs, Always: t.AlwaysLink}
		i := slices.IndexFunc(t.Library.Members, func(m toolchain.Member) bool { return m.Relocatable && !m.NVLinkReads() })
		if i >= 0 {
			info := b.toolchains[t.Library.Members[i].Language()].Info()
			e.Links.Other, open = &info, true
		} else if e.Links.CUDA = !e.Shared && len(t.Library.Members) > 0; e.Links.CUDA {
			e.Links.CUDADirs = b.toolchains["cuda"].Info().LibDirs
		}
		e.Links.DeviceLink = open && !e.Shared
	}
	// What a link with a static library, a prebuilt or a library of headers names as well. Each
	// dependency is named once, by its dependent.
	if t.Kind == manifest.Prebuilt || t.Kind == manifest.Library && !t.Shared {
		for _, d := range t.deps {
			if d.Kind == manifest.Library || d.Kind == manifest.Prebuilt {
				e.Needs = appendNew(e.Needs, d.Label)
			}
		}
		for _, dir := range t.LibDirs {
			if inProject(dir) {
				e.InTree = true
				e.Fault, e.FaultPos = "lib_dirs "+dir+" is in the project, and what -l finds there is not installed. Declare the library as a prebuilt, and name that in deps.", t.Attr("lib_dirs")
			}
		}
	}
	if t.Wrapped != "" {
		e.InTree = false
		e.Fault, e.FaultPos = t.File+" is device code without an archive, which no other build tool links. Put its object into an archive, and declare that as a prebuilt.", t.Pos
	}
	if t.Kind == manifest.Library {
		if id, ok := b.graph.Producer(t.File); ok {
			for _, dep := range b.graph.Deps(id) {
				e.Codes = appendNew(e.Codes, b.graph.Actions[dep].Archs...)
			}
		}
	}
	return e
}

// inProject reports whether p is a path in the project.
func inProject(p string) bool {
	return !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}
