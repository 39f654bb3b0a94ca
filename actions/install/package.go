// Package install copies outputs of a build to a prefix where other projects find them: libraries,
// programs, headers and modules. It also writes the files that CMake and pkg-config read. It knows
// where such files go and how they are written, and nothing of how they were built.
package install

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Package is a set of files that are installed together.
type Package struct {
	Name, Version, Description string

	root    string        // of the project
	exports []plan.Export // dependencies first
	archs   []gencode.Code
	files   []File
	found   map[string]contents // device code of libraries, by label
	// tree is nil if the libraries are installed; else they stay in the build tree.
	tree *Tree
}

// File is a file to install.
type File struct {
	Path string      // below the prefix, slash-separated
	Mode fs.FileMode // of a file that is not a link
	From string      // source file, as actions name it; "" for a generated file
	Link string      // target of a symbolic link; "" for a file

	export   plan.Export
	runPaths map[string]string // of a program: replacements for folders of the build tree
	pos      manifest.Pos      // in the manifest
}

// Folders below the prefix.
const (
	binDir     = "bin"
	includeDir = "include"
	libDir     = "lib"
)

// File modes. The user's umask does not apply, as with make and CMake.
const (
	plainMode   fs.FileMode = 0o644
	programMode fs.FileMode = 0o755
)

// Labels returns the targets to install for the requested labels: those, and the libraries that
// links with them or programs need.
func Labels(exports []plan.Export, labels []string) []string {
	want := map[string]bool{}
	for _, label := range labels {
		want[label] = true
	}
	var out []string
	for _, e := range slices.Backward(exports) { // dependents come before their dependencies
		if want[e.Label] {
			out = append(out, e.Label)
			for _, need := range e.Needs {
				want[need] = true
			}
		}
	}
	slices.Reverse(out)
	return out
}

// New returns the package of the targets that Labels returned. archs are the architectures that the
// toolkit knows. Nothing needs to be built yet.
func New(p *manifest.Project, exports []plan.Export, labels []string, archs []gencode.Code) (*Package, manifest.Diagnostics) {
	k := newPackage(p, exports, labels, archs)
	diags := k.check(p)
	if diags.HasErrors() {
		return nil, diags
	}
	k.lay()
	return k, k.clashes()
}

func newPackage(p *manifest.Project, exports []plan.Export, labels []string, archs []gencode.Code) *Package {
	k := &Package{root: p.Root, archs: archs, found: map[string]contents{}}
	for _, e := range exports {
		if slices.Contains(labels, e.Label) {
			k.exports = append(k.exports, e)
		}
	}
	if p.Package != nil {
		k.Name, k.Version, k.Description = p.Package.Name, p.Package.Version, p.Package.Description
	}
	return k
}

// check reports what other projects, or the CMake project of a tree, could not use.
func (k *Package) check(p *manifest.Project) (diags manifest.Diagnostics) {
	use := k.otherwise("installed", "linked by CMake")
	for _, e := range k.exports {
		if e.Fault != "" && !(k.tree != nil && e.InTree) {
			diags = append(diags, manifest.Diagnostic{Pos: e.FaultPos, Summary: e.Label + " cannot be " + use, Detail: e.Fault})
		}
		if e.Kind == manifest.Executable {
			if k.tree != nil {
				diags = append(diags, manifest.Diagnostic{Pos: e.Pos, Summary: e.Label +
					" is a program; kbuild_add_library wants a library or a prebuilt, and kbuild_add_modules a module"})
			}
			continue
		}
		if k.Name == "" {
			return append(diags, manifest.Diagnostic{Pos: e.Pos, Summary: fmt.Sprintf("%s is to be installed, and the manifest has no package block", e.Label),
				Detail: fmt.Sprintf("CMake and pkg-config find it by the name of its package. Write for example into %s: package { name = %q }", p.File, path.Base(strings.TrimPrefix(e.Label, "library.")))})
		}
		if e.Links.Flags != (manifest.Pos{}) { // they are for compilers that kbuild runs
			diags = append(diags, manifest.Diagnostic{Pos: e.Links.Flags, Summary: e.Label + " has flags, which users outside of kbuild would not get",
				Detail: "Use defines and libs, or set the flags where the library is used."})
		}
		if _, err := k.soname(e); err != nil {
			diags = append(diags, manifest.Diagnostic{Pos: e.Pos, Summary: fmt.Sprintf("%s cannot be %s: %v", e.Label, use, err),
				Detail: "Link it with -Wl,-soname,NAME: programs that were linked with it look for it in a folder of this project."})
		}
	}
	names := map[string]plan.Export{} // for CMake and pkg-config
	for _, e := range k.libraries() {
		if first, twice := names[e.Name]; twice {
			diags = append(diags, manifest.Diagnostic{Pos: e.Pos, Summary: fmt.Sprintf("%s and %s have one name in the package", first.Label, e.Label),
				Detail: "Rename one of them.", Also: manifest.Place{Pos: first.Pos, Say: first.Label}})
		}
		names[e.Name] = e
	}
	return diags
}

// clashes reports two files with the same path.
func (k *Package) clashes() (diags manifest.Diagnostics) {
	first := map[string]File{}
	kept := k.files[:0]
	for _, f := range k.files {
		other, twice := first[f.Path]
		if !twice {
			first[f.Path] = f
			kept = append(kept, f)
		} else if f.From == "" || other.From != f.From {
			diags = append(diags, manifest.Diagnostic{Pos: f.pos, Summary: fmt.Sprintf("%s and %s would both be installed as %s", cmp.Or(other.From, "what kbuild writes"), cmp.Or(f.From, "what kbuild writes"), f.Path),
				Detail: "Rename one of them, or leave one out.", Also: manifest.Place{Pos: other.pos, Say: "the other one"}})
		}
	}
	k.files = kept
	return diags
}

// Files returns the files of the package in the order in which they are installed.
func (k *Package) Files() []File { return k.files }

// Made returns the headers of the package that generate blocks write.
func (k *Package) Made() (files []string) {
	for _, e := range k.exports {
		for _, h := range e.Headers {
			if h.Generated != "" {
				files = append(files, h.Path)
			}
		}
	}
	return files
}

// lay assigns a path to every file. Those for CMake and pkg-config are last.
func (k *Package) lay() {
	for _, e := range k.exports {
		switch {
		case e.Kind == manifest.Executable:
			k.add(e, File{Path: path.Join(binDir, path.Base(e.File)), From: e.File, Mode: programMode, runPaths: k.runPaths(e)})
		case e.Kind == manifest.Module:
			dir := path.Dir(e.Artifacts[len(e.Artifacts)-1])
			for _, f := range e.Artifacts {
				k.add(e, File{Path: path.Join(k.moduleDir(), strings.TrimPrefix(f, dir+"/")), From: f, Mode: plainMode})
			}
		case installs(e):
			mode := plainMode
			if e.Shared {
				mode = programMode
			}
			k.add(e, File{Path: libPath(e), From: e.File, Mode: mode, runPaths: k.runPaths(e)})
			if e.Plain != "" {
				k.add(e, File{Path: path.Join(libDir, path.Base(e.Plain)), Link: path.Base(e.File)})
			}
			if name, _ := k.soname(e); name != "" && name != path.Base(e.File) {
				k.add(e, File{Path: path.Join(libDir, name), Link: path.Base(e.File)})
			}
		}
		for _, h := range e.Headers {
			k.files = append(k.files, File{Path: path.Join(includeDir, h.As), From: h.Path, Mode: plainMode, pos: h.Pos})
		}
	}
	if k.Name == "" {
		return
	}
	for _, e := range k.libraries() {
		k.add(e, File{Path: path.Join(libDir, "pkgconfig", k.pkgName(e)+".pc"), Mode: plainMode})
	}
	config := path.Join(libDir, "cmake", k.Name, k.Name+"Config")
	if k.Version != "" {
		k.files = append(k.files, File{Path: config + "Version.cmake", Mode: plainMode})
	}
	k.files = append(k.files, File{Path: config + ".cmake", Mode: plainMode})
}

func (k *Package) add(e plan.Export, f File) {
	f.export, f.pos = e, e.Pos
	k.files = append(k.files, f)
}

// generated returns the text of a file for CMake or pkg-config.
func (k *Package) generated(f File) (string, error) {
	switch base := path.Base(f.Path); {
	case path.Ext(base) == ".pc":
		return k.pkgConfig(f.export)
	case base == k.Name+"ConfigVersion.cmake":
		return CMakeVersion("kbuild install", k.Version), nil
	default:
		return k.cmakeConfig()
	}
}

func (k *Package) moduleDir() string { return path.Join(libDir, k.Name, "modules") }

// libraries returns the exports that other links can name.
func (k *Package) libraries() (list []plan.Export) {
	for _, e := range k.exports {
		if e.Kind == manifest.Library || e.Kind == manifest.Prebuilt {
			list = append(list, e)
		}
	}
	return list
}

// named returns the export with a label.
func (k *Package) named(label string) plan.Export {
	return k.exports[slices.IndexFunc(k.exports, func(e plan.Export) bool { return e.Label == label })]
}

// hasHeaders reports whether the package has a folder of headers.
func (k *Package) hasHeaders() bool {
	return slices.ContainsFunc(k.exports, func(e plan.Export) bool { return len(e.Headers) > 0 })
}

// installs reports whether a library is installed. A prebuilt library outside of the project is
// used where it is.
func installs(e plan.Export) bool {
	return e.Kind == manifest.Library && !e.HeaderOnly || e.Kind == manifest.Prebuilt && !path.IsAbs(e.File) && !strings.HasPrefix(e.File, "../")
}

func libPath(e plan.Export) string { return path.Join(libDir, path.Base(e.File)) }

// runPaths returns the installed folders of shared libraries by their folders in the build tree.
func (k *Package) runPaths(e plan.Export) map[string]string {
	place := "$ORIGIN/../" + libDir
	if e.Kind == manifest.Library {
		place = "$ORIGIN"
	}
	change := map[string]string{}
	for _, p := range e.RunPaths {
		if strings.HasPrefix(p, "$ORIGIN") && p != place {
			change[p] = place
		}
	}
	return change
}

// Statements about a library's device code come from its file, not from the manifest.

// contents describes the device code of a library.
type contents struct {
	// open is relocatable code and final is final code, each sorted without duplicates: "lto_80",
	// "sm_80".
	open, final []string
	members     [][]gencode.Image
}

// readCode reads the device code of the libraries whose code is not found yet.
func (k *Package) readCode() error {
	for _, e := range k.libraries() {
		if _, ok := k.found[e.Label]; ok || e.HeaderOnly {
			continue
		}
		f, err := fatbin.ReadFile(cache.Absolute(k.root, e.File))
		if err != nil {
			return fmt.Errorf("looking for the device code of %s: %w", e.Label, err)
		}
		var c contents
		var open, final []gencode.Code
		for _, m := range f.Members {
			var images []gencode.Image
			for _, i := range m.Images {
				images = append(images, i.Image)
				if m.Relocatable {
					open = append(open, i.Code())
				} else {
					final = append(final, i.Code())
				}
			}
			if m.Relocatable {
				c.members = append(c.members, images)
			}
		}
		c.open, c.final = spelled(open), spelled(final)
		k.found[e.Label] = c
	}
	return nil
}

func spelled(codes []gencode.Code) (names []string) {
	slices.SortFunc(codes, gencode.Compare)
	for _, c := range slices.Compact(codes) {
		names = append(names, c.String())
	}
	return names
}

// String returns the codes for people to read.
func (c contents) String() string {
	switch {
	case len(c.open) > 0 && len(c.final) > 0:
		return strings.Join(c.final, " ") + ", and relocatable " + strings.Join(c.open, " ")
	case len(c.open) > 0:
		return "relocatable " + strings.Join(c.open, " ")
	case len(c.final) > 0:
		return strings.Join(c.final, " ")
	}
	return "none"
}

// all returns the final and relocatable codes, each once.
func (c contents) all() (codes []string) {
	for _, code := range slices.Concat(c.final, c.open) {
		if !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return codes
}

// links returns the known architectures for which every object of the library has code that a
// device link can use. nvlink skips an object without such code, with a warning at most.
func (c contents) links(known []gencode.Code) (archs []gencode.Code) {
	for _, target := range known {
		lacks := func(images []gencode.Image) bool {
			return !slices.ContainsFunc(images, func(i gencode.Image) bool { return gencode.LinksInto(i, target, true) })
		}
		if !slices.ContainsFunc(c.members, lacks) {
			archs = append(archs, target)
		}
	}
	return archs
}

// numbers returns architectures as CMake spells them: "80", "90a".
func numbers(codes []gencode.Code) (list []string) {
	for _, c := range codes {
		list = append(list, fmt.Sprintf("%d%s", c.Num, c.Suffix))
	}
	return list
}
