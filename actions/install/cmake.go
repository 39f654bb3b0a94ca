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

// The package of CMake relies on what CMake 3.25 and 4.4 do with an imported static library that
// has device code:
//
//   - If CUDA is among its IMPORTED_LINK_INTERFACE_LANGUAGES, CMake links a program of plain C++ as
//     a CUDA program. The link has the runtime of CUDA_RUNTIME_LIBRARY, cudadevrt, rt, pthread and
//     dl.
//   - With CUDA_SEPARABLE_COMPILATION, the link of such a program gets a device link that reads the
//     library's file. With CUDA_RESOLVE_DEVICE_SYMBOLS the device link omits the file.
//   - $<DEVICE_LINK:-dlto> among its INTERFACE_LINK_OPTIONS makes that device link read the LTO-IR.
//     CMake itself passes -dlto only to programs with INTERPROCEDURAL_OPTIMIZATION; those have
//     LTO-IR of their own too, and then calls into the library are optimized.
//   - CMake removes duplicate options, so that an option of two words could lose its first word:
//     -Xnvlink=-Xnvvm=... is one word.
//   - CUDA::cudart_static of FindCUDAToolkit may belong to another toolkit than the compiler, and
//     two runtimes do not link. (4.4 does so with one toolkit in /usr and the compiler's in another
//     folder.) It is only for projects without the language CUDA.

// cmakeText is a CMake file. In its lines @x is a private variable of this package.
type cmakeText struct {
	*Package
	strings.Builder
	target string // whose properties are set
}

func (w *cmakeText) line(format string, args ...any) {
	format = strings.ReplaceAll(format, "@", "_"+w.Name+"_")
	fmt.Fprintf(&w.Builder, format+"\n", args...)
}

// property sets a property of the target to a list. values are spelled as in a quoted argument.
func (w *cmakeText) property(name string, values ...string) {
	w.line(`  set_property(TARGET %s PROPERTY %s "%s")`, w.target, name, strings.Join(values, ";"))
}

// notFound writes the commands that end find_package or kbuild_add_library with an error.
func (w *cmakeText) notFound(indent, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(text) + `"`
	if w.tree != nil {
		w.line(`%smessage(FATAL_ERROR "kbuild: %s)`, indent, quoted[1:])
		return
	}
	w.line("%sset(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)", indent)
	w.line("%sset(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE %s)", indent, quoted)
	w.line("%sreturn()", indent)
}

// cmakeListed returns an element of a list within a quoted argument.
func cmakeListed(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, `;`, `\;`).Replace(s)
}

func allListed(texts []string) (list []string) {
	for _, s := range texts {
		list = append(list, cmakeListed(s))
	}
	return list
}

// absolute returns files of the project as elements of a CMake list.
func (k *Package) absolute(files []string) (list []string) {
	for _, f := range files {
		list = append(list, cmakeListed(cache.Absolute(k.root, f)))
	}
	return list
}

// otherwise selects a text for installed libraries or for those of a build tree.
func (k *Package) otherwise(installed, tree string) string {
	if k.tree != nil {
		return tree
	}
	return installed
}

// cmakeConfig returns the text of NAMEConfig.cmake.
func (k *Package) cmakeConfig() (string, error) {
	if err := k.readCode(); err != nil {
		return "", err
	}
	w := &cmakeText{Package: k}
	w.line("# Written by kbuild install: the package %s for find_package of CMake. It finds its files from where it is.", strings.TrimSpace(k.Name+" "+k.Version))
	w.line("if(CMAKE_VERSION VERSION_LESS 3.18)")
	w.notFound("  ", "its package is for CMake 3.18 and newer")
	w.line("endif()")
	w.line("cmake_policy(VERSION 3.18...4.0)")
	w.line(`get_filename_component(@prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)`)
	w.line("include(CMakeFindDependencyMacro)")
	w.line("get_property(@languages GLOBAL PROPERTY ENABLED_LANGUAGES)")
	if slices.ContainsFunc(k.exports, func(e plan.Export) bool { return e.Kind == manifest.Module }) {
		w.line(`set(%s_MODULE_DIR "${@prefix}/%s")`, k.Name, k.moduleDir())
	}
	// The libraries: all, or the components with their dependencies.
	var all []string
	for _, e := range k.libraries() {
		all = append(all, e.Name)
		w.line("set(@needs_%s %s)", e.Name, strings.Join(k.cmakeBehind(nil, e, e.Links.Closed), " "))
	}
	w.line("set(@components ${${CMAKE_FIND_PACKAGE_NAME}_FIND_COMPONENTS})")
	w.line("if(NOT @components)")
	w.line("  set(@components %s)", strings.Join(all, " "))
	w.line("endif()")
	w.line(`set(@wanted "")`)
	w.line("foreach(@component IN LISTS @components)")
	w.line("  if(DEFINED @needs_${@component})")
	w.line("    list(APPEND @wanted ${@needs_${@component}})")
	w.line("    set(${CMAKE_FIND_PACKAGE_NAME}_${@component}_FOUND TRUE)")
	w.line("  elseif(${CMAKE_FIND_PACKAGE_NAME}_FIND_REQUIRED_${@component})")
	w.line("    set(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)")
	w.line(`    set(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE "it has no component ${@component}; there are: %s")`, strings.Join(all, ", "))
	w.line("    return()")
	w.line("  endif()")
	w.line("endforeach()")
	w.checks()
	for _, e := range k.libraries() {
		w.dependencies(e)
	}
	for _, e := range k.libraries() {
		w.library(e, e.Name)
		if k.behindClosed(e) {
			w.library(e, cmakeName(e, true))
		}
	}
	return w.String(), nil
}

// linkedSuffix ends the target name of a library whose device code another library has linked.
// Targets that use it through that library must not link the code again.
const linkedSuffix = ".linked"

func cmakeName(e plan.Export, linked bool) string {
	if linked && e.Links.DeviceLink {
		return e.Name + linkedSuffix
	}
	return e.Name
}

// cmakeBehind appends the names of the targets of a library and of its dependencies. linked reports
// that a library with a device link of its own depends on it.
func (k *Package) cmakeBehind(names []string, e plan.Export, linked bool) []string {
	name := cmakeName(e, linked)
	if slices.Contains(names, name) {
		return names
	}
	names = append(names, name)
	for _, label := range e.Needs {
		names = k.cmakeBehind(names, k.named(label), linked || e.Links.Closed)
	}
	return names
}

// behindClosed reports whether the device code of a library was linked into another library.
func (k *Package) behindClosed(e plan.Export) bool {
	return e.Links.DeviceLink && slices.ContainsFunc(k.exports, func(u plan.Export) bool {
		return u.Links.Closed && slices.Contains(k.cmakeBehind(nil, u, true), cmakeName(e, true))
	})
}

// checks writes the checks that reject a project that could not link a library.
func (w *cmakeText) checks() {
	for _, e := range w.libraries() {
		if !e.Links.DeviceLink {
			continue
		}
		called, hint := w.Name+"::"+e.Name, " and what pkg-config says of "+w.pkgName(e)
		if w.tree != nil {
			called, hint = e.Label, ""
		}
		w.line(`if("%s" IN_LIST @wanted)`, e.Name)
		if other := e.Links.Other; other != nil {
			w.notFound("  ", "%s has %s that is still to be linked, which CMake does for its own libraries only: link with %s%s, or build it with mode = whole",
				called, other.Code, other.Linker, hint)
			w.line("endif()")
			continue
		}
		w.line(`  if(NOT "CUDA" IN_LIST @languages)`)
		w.notFound("    ", "%s has device code that is linked together with the program's: add CUDA to the LANGUAGES of project()%s", called, w.otherwise(", or name other COMPONENTS", ", or build it with device_link = true"))
		w.line("  endif()")
		if e.Links.Toolkit != "" {
			w.line(`  if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS "%s")`, e.Links.Toolkit)
			w.notFound("    ", "the device code of %s was made by CUDA %s, which the linker of an older toolkit does not read", called, e.Links.Toolkit)
			w.line("  endif()")
		}
		if c := w.found[e.Label]; len(w.archs) > 0 {
			w.line("  foreach(@arch IN LISTS CMAKE_CUDA_ARCHITECTURES)")
			w.line(`    string(REGEX REPLACE "-(real|virtual)$" "" @arch "${@arch}")`)
			w.line(`    if("${@arch}" MATCHES "^(%s)$" AND NOT "${@arch}" MATCHES "^(%s)$")`, strings.Join(numbers(w.archs), "|"), strings.Join(numbers(c.links(w.archs)), "|"))
			w.line(`      message(WARNING "%s has no code that links for ${@arch} of CMAKE_CUDA_ARCHITECTURES (it has %s); nvlink leaves out what it lacks")`, called, strings.Join(c.open, " "))
			w.line("    endif()")
			w.line("  endforeach()")
		}
		w.line("endif()")
	}
}

// runtime returns CMake's name of the runtime that a link with e needs and that CMake does not know
// as a language, PACKAGE::LIBRARY; or "".
func runtime(e plan.Export) string {
	if e.Links.Other == nil || e.Links.Runtime == "none" {
		return ""
	}
	return e.Links.Other.Runtime
}

// dependencies finds the packages of CMake that a library needs.
func (w *cmakeText) dependencies(e plan.Export) {
	find := ""
	switch l := e.Links; {
	case l.Runtime == "none":
	case e.Shared && l.CUDA && l.Runtime == "shared":
		find = "  find_package(CUDAToolkit QUIET) # for the linker, which looks for what libraries load"
	case e.Shared:
	case l.CUDA:
		find = "  if(NOT \"CUDA\" IN_LIST @languages)\n    find_dependency(CUDAToolkit)\n  endif()"
	case runtime(e) != "":
		name, _, _ := strings.Cut(runtime(e), "::")
		find = strings.ReplaceAll(`  if(NOT DEFINED CMAKE_POLICY_VERSION_MINIMUM)
    set(CMAKE_POLICY_VERSION_MINIMUM 3.5) # what ROCm 5 says that it is for, CMake 4 refuses
    find_dependency(@)
    unset(CMAKE_POLICY_VERSION_MINIMUM)
  else()
    find_dependency(@)
  endif()`, "@", name)
	}
	if find == "" {
		return
	}
	wanted := fmt.Sprintf(`"%s" IN_LIST @wanted`, e.Name)
	if w.behindClosed(e) {
		wanted += fmt.Sprintf(` OR "%s" IN_LIST @wanted`, cmakeName(e, true))
	}
	w.line("if(" + wanted + ")")
	w.line(find)
	w.line("endif()")
}

// library declares a library under a name: its own, or the one with linkedSuffix.
func (w *cmakeText) library(e plan.Export, name string) {
	l, c := e.Links, w.found[e.Label]
	sort := "STATIC"
	switch {
	case e.Shared:
		sort = "SHARED"
	case e.HeaderOnly:
		sort = "INTERFACE"
	}
	w.target = w.Name + "::" + name
	w.line("")
	w.line("# Device code: %s.", c)
	w.line(`if("%s" IN_LIST @wanted AND NOT TARGET %s)`, name, w.target)
	w.line("  add_library(%s %s IMPORTED%s)", w.target, sort, w.otherwise("", " GLOBAL"))
	file := cmakeListed(cache.Absolute(w.root, e.File))
	if w.tree == nil && installs(e) {
		file = "${_" + w.Name + "_prefix}/" + libPath(e)
	}
	if !e.HeaderOnly {
		w.property("IMPORTED_LOCATION", file)
	}
	if dirs := headerFolders(w.root, e.Headers); w.tree != nil && dirs != nil {
		w.property("INTERFACE_INCLUDE_DIRECTORIES", dirs...)
	} else if w.tree == nil && w.hasHeaders() {
		w.property("INTERFACE_INCLUDE_DIRECTORIES", "${_"+w.Name+"_prefix}/"+includeDir)
	}
	w.property("KBUILD_DEVICE_CODE", c.all()...)
	w.property("KBUILD_DEVICE_LINK", map[bool]string{true: "ON", false: "OFF"}[l.DeviceLink && name == e.Name])
	switch {
	case e.Shared:
		w.shared(e)
	case e.HeaderOnly:
		if l.Defines != nil {
			w.property("INTERFACE_COMPILE_DEFINITIONS", allListed(l.Defines)...)
		}
		w.libs(e, false)
	default:
		w.static(e, name, file)
	}
	w.line("endif()")
}

// shared sets the soname and the dependencies of a shared library.
func (w *cmakeText) shared(e plan.Export) {
	name, _ := w.soname(e) // check has read it
	if e.Kind == manifest.Library {
		name = path.Base(e.File)
	}
	if name != "" {
		w.property("IMPORTED_SONAME", name)
	}
	if needs := w.needs(e, false); needs != nil {
		w.property("IMPORTED_LINK_DEPENDENT_LIBRARIES", needs...)
	}
	switch {
	case !e.Links.CUDA || e.Links.Runtime != "shared":
	case w.tree != nil:
		if dir := w.tree.runtimeDir("libcudart.so"); dir != "" {
			w.property("INTERFACE_LINK_OPTIONS", "LINKER:-rpath-link,"+cmakeListed(dir))
		}
	default: // CMake adds no -rpath-link for the kind of target that CUDA::cudart is.
		w.line("  if(TARGET CUDA::cudart)")
		w.line("    get_target_property(@cudart CUDA::cudart IMPORTED_LOCATION)")
		w.line(`    get_filename_component(@cudart "${@cudart}" DIRECTORY)`)
		w.line(`    set_property(TARGET %s PROPERTY INTERFACE_LINK_OPTIONS "LINKER:-rpath-link,${@cudart}")`, w.target)
		w.line("  endif()")
	}
}

// needs returns the targets that a library depends on.
func (w *cmakeText) needs(e plan.Export, linked bool) (targets []string) {
	for _, label := range e.Needs {
		targets = append(targets, w.Name+"::"+cmakeName(w.named(label), linked))
	}
	return targets
}

// libs sets the libraries that a link with e adds, and their folders.
func (w *cmakeText) libs(e plan.Export, linked bool) {
	libs := append(w.needs(e, linked), allListed(e.Links.Libs)...)
	if name := runtime(e); name != "" {
		libs = append(libs, name)
	}
	if libs != nil {
		w.property("INTERFACE_LINK_LIBRARIES", libs...)
	}
	if e.Links.LibDirs != nil {
		w.property("INTERFACE_LINK_DIRECTORIES", w.absolute(e.Links.LibDirs)...)
	}
}

// static sets what a link with a static library adds, and whether its device link reads the library.
func (w *cmakeText) static(e plan.Export, name, file string) {
	l := e.Links
	languages := map[bool]string{true: "CXX", false: "C"}[l.CXX]
	linked := l.Closed || name != e.Name
	w.libs(e, linked)
	// The archive itself, which CMake names later, adds nothing after this option. CMake splits
	// HOST_LINK at commas.
	if l.Always {
		w.property("INTERFACE_LINK_OPTIONS", "$<HOST_LINK:LINKER:--whole-archive$<COMMA>"+file+"$<COMMA>--no-whole-archive>")
	}
	if l.HostLTO != "" {
		w.property("KBUILD_HOST_LTO", l.HostLTO)
	}
	switch {
	case l.DeviceLink && l.Other == nil && name == e.Name:
		w.property("IMPORTED_LINK_INTERFACE_LANGUAGES", "CUDA", languages)
	case l.CUDA && l.Runtime != "none":
		w.line(`  if("CUDA" IN_LIST @languages)`)
		w.line(`    set_property(TARGET %s PROPERTY IMPORTED_LINK_INTERFACE_LANGUAGES "CUDA;%s")`, w.target, languages)
		w.line("  else()")
		w.line(`    set_property(TARGET %s PROPERTY IMPORTED_LINK_INTERFACE_LANGUAGES "%s")`, w.target, languages)
		w.line(`    set_property(TARGET %s APPEND PROPERTY INTERFACE_LINK_LIBRARIES "%s")`, w.target, w.cudaTargets(l))
		if l.Closed && w.tree == nil {
			w.line(`    set_property(TARGET %s APPEND PROPERTY INTERFACE_LINK_DIRECTORIES "${CUDAToolkit_LIBRARY_DIR}")`, w.target)
		}
		w.line("  endif()")
	default:
		w.property("IMPORTED_LINK_INTERFACE_LANGUAGES", languages)
	}
	switch {
	case linked && (l.DeviceLink || l.Closed):
		w.property("CUDA_RESOLVE_DEVICE_SYMBOLS", "ON")
	case l.DeviceLink:
		w.property("CUDA_SEPARABLE_COMPILATION", "ON")
	}
	if linked || !l.DeviceLink || !l.LTO {
		return
	}
	w.line(`  set_property(TARGET %s APPEND PROPERTY INTERFACE_LINK_OPTIONS "$<DEVICE_LINK:-dlto>")`, w.target)
	if l.Floats != nil {
		w.property("KBUILD_LTO_OPTIONS", l.Floats...)
	}
	if l.Arithmetic != "" {
		options := strings.ReplaceAll(strings.TrimPrefix(l.Arithmetic, "-Xnvvm="), ",", ";-Xnvlink=-Xnvvm=")
		w.line(`  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13) # its nvlink forgets how LTO-IR was compiled`)
		w.line(`    set_property(TARGET %s APPEND PROPERTY INTERFACE_LINK_OPTIONS "$<DEVICE_LINK:-Xnvlink=-Xnvvm=%s>")`, w.target, options)
		w.line("  endif()")
	}
}

// cudaTargets returns what CMake links by itself if the language CUDA is enabled: targets of
// FindCUDAToolkit, or for a build tree the runtime of the toolkit that builds the library, which is
// local.
func (k *Package) cudaTargets(l plan.Links) string {
	if k.tree == nil {
		runtime := "CUDA::cudart_static"
		if l.Runtime == "shared" {
			runtime = "CUDA::cudart"
		}
		// Device code of a closed library may launch kernels, for which FindCUDAToolkit of 3.25 has
		// no target.
		if l.Closed {
			return "cudadevrt;" + runtime
		}
		return runtime
	}
	var libs []string
	for _, lib := range cuda.RuntimeLibs(l.Runtime, "", l.Closed) {
		file := "lib" + lib + ".a"
		if lib == "cudart" {
			file = "libcudart.so"
		}
		if dir := k.tree.runtimeDir(file); dir != "" && strings.HasPrefix(lib, "cud") {
			lib = cmakeListed(filepath.Join(dir, file))
		}
		libs = append(libs, lib)
	}
	return strings.Join(libs, ";")
}

// CMakeVersion returns the version file of a package. A version satisfies requests with the same
// major number that are not newer, and ranges that contain it. by names the command that writes the
// package.
func CMakeVersion(by, version string) string {
	major, _, _ := strings.Cut(version, ".")
	return fmt.Sprintf(`# Written by %[3]s.
set(PACKAGE_VERSION "%[1]s")
if(PACKAGE_FIND_VERSION_RANGE)
  if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION_MIN OR NOT PACKAGE_FIND_VERSION_MIN_MAJOR STREQUAL "%[2]s"
     OR (PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "INCLUDE" AND PACKAGE_VERSION VERSION_GREATER PACKAGE_FIND_VERSION_MAX)
     OR (PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "EXCLUDE" AND PACKAGE_VERSION VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION_MAX))
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
  else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
elseif(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION OR (PACKAGE_FIND_VERSION AND NOT PACKAGE_FIND_VERSION_MAJOR STREQUAL "%[2]s"))
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
if(CMAKE_SIZEOF_VOID_P AND NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(PACKAGE_VERSION_UNSUITABLE TRUE)
endif()
`, version, major, by)
}

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

// runtimeDir returns the toolkit folder that has a library, or "" if the linker has to find it.
func (t *Tree) runtimeDir(name string) string {
	for _, dir := range t.Toolkit {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil && path.Base(dir) != "stubs" {
			return dir
		}
	}
	return ""
}

// CMake returns a file for CMake to include. It declares the targets and sets the variables
// KBUILD_TARGETS, the requested targets; KBUILD_BUILD, the arguments of kbuild build; KBUILD_FILES,
// the outputs of that build; KBUILD_ARTIFACTS, the files of modules among them; and KBUILD_READ,
// the files after whose edit CMake must run kbuild again.
func (t *Tree) CMake(p *manifest.Project) (string, manifest.Diagnostics, error) {
	k := newPackage(p, t.Exports, Labels(t.Exports, t.Labels), t.Archs)
	k.Name, k.tree = t.Name, t
	if diags := k.check(p); diags.HasErrors() {
		return "", diags, nil
	}
	for _, e := range k.libraries() {
		if e.Kind == manifest.Library {
			k.found[e.Label] = planned(e)
		}
	}
	if err := k.readCode(); err != nil {
		return "", nil, err
	}
	w := &cmakeText{Package: k}
	w.line("# Written by kbuild cmake, for kbuild_add_library.")
	w.line("cmake_policy(VERSION 3.20...4.0)")
	w.line("get_property(@languages GLOBAL PROPERTY ENABLED_LANGUAGES)")
	var targets, wanted []string
	var packages []string // of runtimes
	for _, e := range k.libraries() {
		if name, _, ok := strings.Cut(runtime(e), "::"); ok && !e.Shared && !slices.Contains(packages, name) {
			packages = append(packages, name)
		}
		if slices.Contains(t.Labels, e.Label) {
			targets = append(targets, k.Name+"::"+e.Name)
			wanted = append(wanted, k.cmakeBehind(nil, e, e.Links.Closed)...)
		}
	}
	w.line(`set(@wanted "%s")`, strings.Join(wanted, ";"))
	w.checks()
	for _, name := range packages {
		w.line("find_package(%s REQUIRED)", name)
	}
	var made []manifest.Header
	for _, e := range k.exports {
		for _, h := range e.Headers {
			if h.Generated != "" {
				made = append(made, h)
			}
		}
	}
	for _, dir := range headerFolders(k.root, made) { // CMake rejects include folders that do not exist
		w.line(`file(MAKE_DIRECTORY "%s")`, dir)
	}
	var files, artifacts []string
	for _, e := range k.exports {
		if e.Kind == manifest.Module {
			artifacts = append(artifacts, e.Artifacts...)
		} else if e.Kind == manifest.Library && !e.HeaderOnly {
			files = append(files, e.File)
			if e.Plain != "" {
				files = append(files, e.Plain)
			}
		}
	}
	for _, e := range k.libraries() {
		for _, name := range slices.Compact([]string{e.Name, cmakeName(e, k.behindClosed(e))}) {
			w.library(e, name)
		}
	}
	files = slices.Concat(files, artifacts, k.Made())
	for _, v := range []struct {
		name   string
		values []string
	}{{"TARGETS", targets}, {"BUILD", append(slices.Clone(t.Labels), k.Made()...)}, {"FILES", k.absolute(files)},
		{"ARTIFACTS", k.absolute(artifacts)}, {"READ", k.absolute(p.Files)}} {
		w.line(`set(KBUILD_%s "%s")`, v.name, strings.Join(v.values, ";"))
	}
	return w.String(), nil, nil
}

// planned returns the expected device code of a library that is not built yet. It assumes that all
// objects have the same code.
func planned(e plan.Export) (c contents) {
	var images []gencode.Image
	for _, name := range e.Codes {
		code, err := gencode.Parse(name)
		switch {
		case err != nil:
		case e.Links.DeviceLink:
			c.open = append(c.open, name)
			images = append(images, gencode.Image(code))
		default:
			c.final = append(c.final, name)
		}
	}
	if images != nil {
		c.members = [][]gencode.Image{images}
	}
	return c
}

// headerFolders returns the include folders of headers, as elements of a CMake list.
func headerFolders(root string, headers []manifest.Header) (dirs []string) {
	for _, h := range headers {
		dir := path.Clean(cmp.Or(strings.TrimSuffix(h.Path, h.As), "."))
		if dir = cmakeListed(cache.Absolute(root, dir)); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
