package install

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Tree is the request of CMake's kbuild_add_library. Its libraries stay where they are built, as
// imported targets of a CMake project that makes kbuild build them. The targets are declared before
// the build. Their device code is therefore described from the manifest.
type Tree struct {
	Name    string   // namespace of the targets
	Labels  []string // requested targets
	Exports []plan.Export
	Archs   []gencode.Code // architectures that the toolkit knows
	Toolkit []string       // folders of the toolkit's libraries
}

// CMake returns a file for CMake to include. It declares the targets and sets the variables
// KBUILD_TARGETS, the requested targets; KBUILD_BUILD, the arguments of kbuild build; KBUILD_FILES,
// the outputs of that build; KBUILD_ARTIFACTS, the files of modules among them; and KBUILD_READ,
// the files after whose edit CMake must run kbuild again.
func (t *Tree) CMake(p *manifest.Project) (string, manifest.Diagnostics, error) {
	k := &Package{Name: t.Name, root: p.Root, archs: t.Archs, tree: t, found: map[string]contents{}}
	labels := Labels(t.Exports, t.Labels)
	for _, e := range t.Exports {
		if slices.Contains(labels, e.Label) {
			k.exports = append(k.exports, e)
		}
	}
	if diags := k.checkTree(); diags.HasErrors() {
		return "", diags, nil
	}
	for _, e := range k.libraries() {
		if e.Kind == manifest.Library {
			k.found[e.Label] = planned(e)
		}
	}
	text, err := k.cmakeTree(p.Files)
	return text, nil, err
}

// checkTree reports exports that CMake could not link.
func (k *Package) checkTree() (diags manifest.Diagnostics) {
	for _, e := range k.exports {
		switch {
		case e.Kind == manifest.Executable:
			diags = append(diags, manifest.Diagnostic{Pos: e.Pos, Summary: e.Label + " is a program; kbuild_add_library wants a library or a prebuilt, and kbuild_add_modules a module"})
		case e.Links.Flags != (manifest.Pos{}):
			diags = append(diags, flagsFault(e))
		case e.Fault != "" && !e.InTree:
			diags = append(diags, manifest.Diagnostic{Pos: e.FaultPos, Summary: e.Label + " cannot be linked by CMake", Detail: e.Fault})
		}
	}
	return append(diags, k.namesakes()...)
}

// planned returns the expected device code of a library that is not built yet. It assumes that all
// objects have the same code.
func planned(e plan.Export) (c contents) {
	var images []gencode.Image
	for _, name := range e.Codes {
		code, err := gencode.Parse(name)
		if err != nil {
			continue
		}
		if e.Links.DeviceLink {
			c.open = append(c.open, name)
			images = append(images, gencode.Image(code))
		} else {
			c.final = append(c.final, name)
		}
	}
	if images != nil {
		c.members = [][]gencode.Image{images}
	}
	return c
}

func (k *Package) cmakeTree(read []string) (string, error) {
	w := &cmakeText{name: k.Name, tree: true}
	w.line("# Written by kbuild cmake, for kbuild_add_library.")
	w.line("cmake_policy(VERSION 3.20...4.0)")
	w.line("get_property(@languages GLOBAL PROPERTY ENABLED_LANGUAGES)")
	targets, wanted := k.cmakeQueried()
	w.line(`set(@wanted "%s")`, strings.Join(wanted, ";"))
	for _, e := range k.libraries() {
		if err := k.cmakeChecks(w, e); err != nil {
			return "", err
		}
	}
	for _, e := range k.libraries() {
		if e.Links.AMD && e.Links.Runtime != "none" && !e.Shared {
			w.line("find_package(hip REQUIRED)")
			break
		}
	}
	for _, dir := range k.generatedFolders() { // CMake rejects include folders that do not exist
		w.line(`file(MAKE_DIRECTORY "%s")`, dir)
	}
	for _, e := range k.libraries() {
		for _, name := range slices.Compact([]string{e.Name, cmakeName(e, k.behindClosed(e))}) {
			if err := k.cmakeTarget(w, e, name); err != nil {
				return "", err
			}
		}
	}
	files, artifacts := k.cmakeFiles()
	for _, v := range []struct {
		name   string
		values []string
	}{{"TARGETS", targets}, {"BUILD", append(slices.Clone(k.tree.Labels), k.Made()...)}, {"FILES", k.absolute(files)}, {"ARTIFACTS", k.absolute(artifacts)}, {"READ", k.absolute(read)}} {
		w.line(`set(KBUILD_%s "%s")`, v.name, strings.Join(v.values, ";"))
	}
	return w.String(), nil
}

// cmakeQueried returns the requested targets, and the names of all targets that their links need.
func (k *Package) cmakeQueried() (targets, wanted []string) {
	for _, e := range k.libraries() {
		if slices.Contains(k.tree.Labels, e.Label) {
			targets = append(targets, k.Name+"::"+e.Name)
			wanted = append(wanted, k.cmakeBehind(nil, e, e.Links.Closed)...)
		}
	}
	return targets, wanted
}

// cmakeFiles returns the files that the build writes, and among them the artifacts of modules.
func (k *Package) cmakeFiles() (files, artifacts []string) {
	for _, e := range k.exports {
		switch {
		case e.Kind == manifest.Module:
			artifacts = append(artifacts, e.Artifacts...)
		case e.HeaderOnly:
		case e.Kind == manifest.Library && e.Plain != "":
			files = append(files, e.File, e.Plain)
		case e.Kind == manifest.Library:
			files = append(files, e.File)
		}
	}
	return slices.Concat(files, artifacts, k.Made()), artifacts
}

// absolute returns files of the project as elements of a CMake list.
func (k *Package) absolute(files []string) (list []string) {
	for _, f := range files {
		list = append(list, cmakeListed(cache.Absolute(k.root, f)))
	}
	return list
}

// headerFolders returns the include folders of a library's public headers.
func (k *Package) headerFolders(e plan.Export) (dirs []string) {
	for _, h := range e.Headers {
		if dir := k.headerFolder(h); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (k *Package) headerFolder(h manifest.Header) string {
	return cmakeListed(cache.Absolute(k.root, path.Clean(cmp.Or(strings.TrimSuffix(h.Path, h.As), "."))))
}

// generatedFolders returns the include folders of headers that the build generates.
func (k *Package) generatedFolders() (dirs []string) {
	for _, e := range k.exports {
		for _, h := range e.Headers {
			if h.Generated != "" {
				dirs = append(dirs, k.headerFolder(h))
			}
		}
	}
	return slices.Compact(dirs)
}

// runtime returns the runtime libraries that a link with a library adds if CMake does not link as
// CUDA.
func (t *Tree) runtime(l plan.Links) (libs []string) {
	for _, lib := range cuda.RuntimeLibs(l.Runtime, "", l.Closed) {
		ending := ".a"
		if lib == "cudart" {
			ending = ".so"
		}
		if dir := t.runtimeDir("lib" + lib + ending); dir != "" && strings.HasPrefix(lib, "cud") {
			lib = cmakeListed(filepath.Join(dir, "lib"+lib+ending))
		}
		libs = append(libs, lib)
	}
	return libs
}

// runtimeDir returns the toolkit folder that has a library, or "" if the linker has to find it.
func (t *Tree) runtimeDir(name string) string {
	for _, dir := range t.Toolkit {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil && path.Base(dir) != "stubs" {
			return dir
		}
	}
	return ""
}

// called returns the name by which a project refers to a library.
func (k *Package) called(e plan.Export) string {
	if k.tree != nil {
		return e.Label
	}
	return k.Name + "::" + e.Name
}

// otherwise selects a text for installed libraries or for those of a build tree.
func (k *Package) otherwise(installed, tree string) string {
	if k.tree != nil {
		return tree
	}
	return installed
}

// pkgHint tells the user where to find the libraries of a link with an installed library.
func (k *Package) pkgHint(e plan.Export) string {
	return k.otherwise(fmt.Sprintf(" and what pkg-config says of %s", k.pkgName(e)), "")
}
