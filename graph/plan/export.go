package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Export is what others than kbuild must know of a target to use it: where its files are, and what
// a link with it must add. Paths are those of actions.
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
	Needs       []string // labels of libraries: of those that a link with a static library names as well, or that a program or a shared library loads
	RunPaths    []string // the folders that a program or a shared library looks for its shared libraries in
	Links       Links
	Codes       []string // the device code in a library that is to be made, as the manifest asks for it: "lto_80"
	Fault       string   // why others cannot use it, ""
	FaultPos    manifest.Pos
	InTree      bool // the fault is one of what is installed: in the build tree others can use it
}

// Links is what a link with a static library must add to it. That of a shared library adds nothing,
// and says which runtime it loads.
type Links struct {
	CUDA, HIP  bool         // its runtime
	DeviceLink bool         // there is device code to link
	Always     bool         // with all objects of the archive
	Closed     bool         // it was linked already, and that of all that it needs
	LTO        bool         // with LTO-IR
	Arithmetic string       // what nvlink of CUDA 13 must be told to compute as the LTO-IR was compiled; "" if its own defaults will do
	Floats     []string     // the options of nvcc that the LTO-IR was compiled with, where they are not nvcc's defaults: all of a link must agree
	Toolkit    string       // version of the CUDA toolkit that made the code: an older one does not link it
	Runtime    string       // attribute cudart
	HostLTO    string       // host code is that of a compiler's LTO: "thin" or "full"; ""
	Libs       []string     // -l
	LibDirs    []string     // -L
	CUDADirs   []string     // -L of the toolkit
	CXX        bool         // host code of C++
	Defines    []string     // of a library of headers: NAME or NAME=VALUE, for sources that include them
	Flags      manifest.Pos // where a library of headers has flags, which other build tools do not get
}

// exports says of all targets what others need to use them.
func (b *builder) exports() (all []Export) {
	if !b.options.Exports {
		return nil
	}
	for _, t := range b.order {
		if t.unbuilt == "" && t.Kind != manifest.Generate {
			all = append(all, b.export(t))
		}
	}
	return all
}

func (b *builder) export(t *target) Export {
	e := Export{Label: t.label, Name: strings.ReplaceAll(t.Name, "/", "."), Kind: t.Kind, Pos: t.Pos, File: t.file, Headers: t.PublicHeaders}
	switch {
	case t.Kind == manifest.Module:
		e.Artifacts = b.artifacts(t)
	case t.Kind == manifest.Executable || t.Shared:
		if e.Shared = t.Shared; t.Shared {
			e.Links = Links{Runtime: t.CudaRT, CUDA: !t.isHIP() && b.usesCUDA(t, b.linkage(t))}
		}
		if t.SOVersion != "" {
			e.Plain = strings.TrimSuffix(t.file, "."+t.SOVersion)
		}
		for _, s := range b.linkage(t).shared {
			e.Needs = append(e.Needs, s.label)
			e.RunPaths = appendNew(e.RunPaths, rpath(t.file, s.file))
		}
		b.checkLoaded(t, &e)
	case t.HeaderOnly():
		e.HeaderOnly = true
		e.Links = Links{Libs: t.Libs, LibDirs: t.LibDirs, Defines: defines(t.Defines), Flags: t.AttrPos["flags"]}
		e.needLibraries(t)
		b.checkLibDirs(t, &e)
	case t.Kind == manifest.Library:
		b.exportStatic(t, &e)
	case t.Kind == manifest.Prebuilt:
		b.exportPrebuilt(t, &e)
	}
	if t.Kind == manifest.Library {
		e.Codes = b.codesIn(t.file)
	}
	return e
}

// codesIn is the device code of the objects that a library is made of.
func (b *builder) codesIn(file string) (codes []string) {
	id, ok := b.graph.Producer(file)
	if !ok {
		return nil
	}
	for _, dep := range b.graph.Deps(id) {
		for _, code := range b.graph.Actions[dep].Archs {
			codes = appendNew(codes, code)
		}
	}
	return codes
}

// artifacts are the files of a module with its manifest last, and without what only programs of the
// project link.
func (b *builder) artifacts(t *target) (files []string) {
	modules := b.out("modules") + "/"
	for _, o := range t.node.Outputs {
		if strings.HasPrefix(o, modules) {
			files = append(files, o)
		}
	}
	return files
}

// exportStatic is what a link with a static library adds. Its dependencies are named once, by who
// depends on them.
func (b *builder) exportStatic(t *target, e *Export) {
	l := linkage{libDirs: t.LibDirs}
	e.needLibraries(t)
	own, open := b.linkInputOf(t, t)
	if t.DeviceLink {
		own, open = linkInput{}, false
	}
	libs := b.deviceLibs(t, t.LibDirs)
	e.Links = Links{
		HIP: t.isHIP() && slices.ContainsFunc(t.Sources, isDevice), CUDA: !t.isHIP() && b.usesCUDA(t, l),
		DeviceLink: open || len(libs) > 0 && !t.DeviceLink, Always: t.AlwaysLink, Closed: t.DeviceLink, LTO: own.lto, Runtime: t.CudaRT, HostLTO: hostLTO(t),
		Libs: t.Libs, LibDirs: t.LibDirs,
		CXX: slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return s.Language != "c" && s.Language != "asm" }),
	}
	if own.lto && !e.Links.HIP {
		e.Links.Arithmetic, e.Links.Floats = b.exportFloats(t)
	}
	if k := b.facts.CUDA; k != nil && e.Links.CUDA {
		e.Links.Toolkit, e.Links.CUDADirs = k.Version, k.LibDirs
	}
	b.checkLibDirs(t, e)
}

// checkLibDirs refuses to install a library whose users would search a folder of the project.
func (g *given) checkLibDirs(t *target, e *Export) {
	for _, dir := range t.LibDirs {
		if g.inProject(dir) {
			e.InTree = true
			e.Fault, e.FaultPos = "lib_dirs "+dir+" is in the project, and what -l finds there is not installed. Declare the library as a prebuilt, and name that in deps.", t.attr("lib_dirs")
		}
	}
}

// checkLoaded refuses to install a program or a shared library that loads a library from a folder
// of the project.
func (b *builder) checkLoaded(t *target, e *Export) {
	l := b.linkage(t)
	for _, lib := range l.libs {
		for _, file := range b.facts.Libs[lib] {
			if dir := path.Dir(file); b.inProject(dir) && slices.Contains(l.libDirs, dir) && path.Ext(file) != ".a" {
				e.InTree = true
				e.Fault, e.FaultPos = file+" is loaded from lib_dirs of the project, and is not installed. Declare it as a prebuilt, and name that in deps.", t.attr("lib_dirs")
			}
		}
	}
}

// exportFloats is what nvlink of CUDA 13 must be told for the LTO-IR of t, whichever toolkit has
// compiled it, and how it was compiled.
func (b *builder) exportFloats(t *target) (arithmetic string, options []string) {
	f := floats(t)
	if f == defaultFloats {
		return "", nil
	}
	for i, on := range f.byName() {
		options = append(options, fmt.Sprintf("-%s=%t", strings.ReplaceAll(floatAttributes[i], "_", "-"), on))
	}
	forgotten := defaultFloats
	if forgotten.precSqrt = f.precSqrt; f == forgotten || t.LTOFloats != nil && !*t.LTOFloats {
		return "", options
	}
	return nvcc.Arithmetic(f.ftz, f.precDiv, f.fmad), options
}

func (b *builder) exportPrebuilt(t *target, e *Export) {
	e.Shared = t.SharedFile != ""
	linked, open := b.linkInputOf(t, t)
	if hip := slices.ContainsFunc(b.facts.Prebuilt[t.file].Members, func(m Member) bool { return m.Relocatable && !m.NVLinkReads() }); hip {
		e.Links.HIP, open = true, true
	} else if e.Links.CUDA = !e.Shared && len(b.facts.Prebuilt[t.file].Members) > 0; e.Links.CUDA && b.facts.CUDA != nil {
		e.Links.CUDADirs = b.facts.CUDA.LibDirs
	}
	e.Links.DeviceLink, e.Links.LTO, e.Links.CXX = open && !e.Shared, linked.lto, true
	e.Links.Libs, e.Links.LibDirs, e.Links.Always = t.Libs, t.LibDirs, t.AlwaysLink
	e.needLibraries(t)
	b.checkLibDirs(t, e)
	if t.object != "" {
		e.InTree = false
		e.Fault, e.FaultPos = t.file+" is device code without an archive, which no other build tool links. Put its object into an archive, and declare that as a prebuilt.", t.Pos
	}
}

// needLibraries notes the libraries that a link with t names as well.
func (e *Export) needLibraries(t *target) {
	for _, d := range t.deps {
		if d.Kind == manifest.Library || d.Kind == manifest.Prebuilt {
			e.Needs = appendNew(e.Needs, d.label)
		}
	}
}

// inProject reports a path of the project.
func (g *given) inProject(p string) bool {
	return !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}
