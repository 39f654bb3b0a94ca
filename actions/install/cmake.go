package install

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/plan"
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

// cmakeConfig returns the text of NAMEConfig.cmake.
func (k *Package) cmakeConfig() (string, error) {
	w := &cmakeText{name: k.Name}
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
	k.cmakeComponents(w)
	for _, e := range k.libraries() {
		if err := k.cmakeChecks(w, e); err != nil {
			return "", err
		}
	}
	k.cmakePackages(w)
	for _, e := range k.libraries() {
		if err := k.cmakeTarget(w, e, e.Name); err != nil {
			return "", err
		}
		if k.behindClosed(e) {
			if err := k.cmakeTarget(w, e, cmakeName(e, true)); err != nil {
				return "", err
			}
		}
	}
	return w.String(), nil
}

// cmakeText is a CMake file. In its lines @x is a private variable of this package.
type cmakeText struct {
	strings.Builder
	name string
	tree bool // included by kbuild_add_library, not read by find_package
}

func (w *cmakeText) line(format string, args ...any) {
	format = strings.ReplaceAll(format, "@", "_"+w.name+"_")
	fmt.Fprintf(w, format+"\n", args...)
}

// notFound writes the commands that end find_package or kbuild_add_library with an error.
func (w *cmakeText) notFound(indent, format string, args ...any) {
	if w.tree {
		w.line("%smessage(FATAL_ERROR %s)", indent, cmakeQuoted(fmt.Sprintf("kbuild: "+format, args...)))
		return
	}
	w.line("%sset(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)", indent)
	w.line("%sset(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE %s)", indent, cmakeQuoted(fmt.Sprintf(format, args...)))
	w.line("%sreturn()", indent)
}

// cmakeQuoted returns a quoted argument without any expansion.
func cmakeQuoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(s) + `"`
}

// cmakeListed returns an element of a list within a quoted argument.
func cmakeListed(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, `;`, `\;`).Replace(s)
}

// cmakeComponents writes the selection of libraries: all, or the components and their dependencies.
func (k *Package) cmakeComponents(w *cmakeText) {
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

// linkedSuffix ends the target name of a library whose device code another library has linked.
// Targets that use it through that library must not link the code again.
const linkedSuffix = ".linked"

func cmakeName(e plan.Export, linked bool) string {
	if linked && e.Links.DeviceLink {
		return e.Name + linkedSuffix
	}
	return e.Name
}

func (k *Package) named(label string) plan.Export {
	return k.exports[slices.IndexFunc(k.exports, func(e plan.Export) bool { return e.Label == label })]
}

// cmakeChecks writes the checks that reject a project that could not link a library.
func (k *Package) cmakeChecks(w *cmakeText, e plan.Export) error {
	if !e.Links.DeviceLink {
		return nil
	}
	c, err := k.contentsOf(e)
	if err != nil {
		return err
	}
	w.line(`if("%s" IN_LIST @wanted)`, e.Name)
	if e.Links.AMD {
		w.notFound("  ", "%s has AMD code that is still to be linked, which CMake does for its own libraries only: link with hipcc -fgpu-rdc --hip-link%s, or build it with mode = whole",
			k.called(e), k.pkgHint(e))
		w.line("endif()")
		return nil
	}
	w.line(`  if(NOT "CUDA" IN_LIST @languages)`)
	w.notFound("    ", "%s has device code that is linked together with the program's: add CUDA to the LANGUAGES of project()%s", k.called(e), k.otherwise(", or name other COMPONENTS", ", or build it with device_link = true"))
	w.line("  endif()")
	if e.Links.Toolkit != "" {
		w.line(`  if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS "%s")`, e.Links.Toolkit)
		w.notFound("    ", "the device code of %s was made by CUDA %s, which the linker of an older toolkit does not read", k.called(e), e.Links.Toolkit)
		w.line("  endif()")
	}
	if known := numbers(k.archs); len(known) > 0 {
		w.line("  foreach(@arch IN LISTS CMAKE_CUDA_ARCHITECTURES)")
		w.line(`    string(REGEX REPLACE "-(real|virtual)$" "" @arch "${@arch}")`)
		w.line(`    if("${@arch}" MATCHES "^(%s)$" AND NOT "${@arch}" MATCHES "^(%s)$")`, strings.Join(known, "|"), strings.Join(c.links(k.archs), "|"))
		w.line(`      message(WARNING "%s has no code that links for ${@arch} of CMAKE_CUDA_ARCHITECTURES (it has %s); nvlink leaves out what it lacks")`, k.called(e), strings.Join(c.open, " "))
		w.line("    endif()")
		w.line("  endforeach()")
	}
	w.line("endif()")
	return nil
}

// cmakePackages writes the find_dependency calls for the libraries.
func (k *Package) cmakePackages(w *cmakeText) {
	for _, e := range k.libraries() {
		l := e.Links
		needs := func(format string) {
			w.line("if(%s)", k.cmakeWanted(e))
			w.line(format)
			w.line("endif()")
		}
		switch {
		case l.Runtime == "none":
		case e.Shared && l.CUDA && l.Runtime == "shared":
			needs("  find_package(CUDAToolkit QUIET) # for the linker, which looks for what libraries load")
		case e.Shared:
		case l.CUDA:
			needs("  if(NOT \"CUDA\" IN_LIST @languages)\n    find_dependency(CUDAToolkit)\n  endif()")
		case l.AMD:
			needs(`  if(NOT DEFINED CMAKE_POLICY_VERSION_MINIMUM)
    set(CMAKE_POLICY_VERSION_MINIMUM 3.5) # what ROCm 5 says that it is for, CMake 4 refuses
    find_dependency(hip)
    unset(CMAKE_POLICY_VERSION_MINIMUM)
  else()
    find_dependency(hip)
  endif()`)
		}
	}
}

// cmakeWanted returns the condition under which a library is used.
func (k *Package) cmakeWanted(e plan.Export) string {
	wanted := fmt.Sprintf(`"%s" IN_LIST _%s_wanted`, e.Name, k.Name)
	if k.behindClosed(e) {
		wanted += fmt.Sprintf(` OR "%s" IN_LIST _%s_wanted`, cmakeName(e, true), k.Name)
	}
	return wanted
}

// behindClosed reports whether the device code of a library was linked into another library.
func (k *Package) behindClosed(e plan.Export) bool {
	return e.Links.DeviceLink && slices.ContainsFunc(k.exports, func(u plan.Export) bool {
		return u.Links.Closed && slices.Contains(k.cmakeBehind(nil, u, true), cmakeName(e, true))
	})
}

// cmakeTarget declares a library under a name.
func (k *Package) cmakeTarget(w *cmakeText, e plan.Export, name string) error {
	c, err := k.contentsOf(e)
	if err != nil {
		return err
	}
	sort := "STATIC"
	switch {
	case e.Shared:
		sort = "SHARED"
	case e.HeaderOnly:
		sort = "INTERFACE"
	}
	w.line("")
	w.line("# Device code: %s.", c)
	w.line(`if("%s" IN_LIST @wanted AND NOT TARGET %s::%s)`, name, k.Name, name)
	w.line("  add_library(%s::%s %s IMPORTED%s)", k.Name, name, sort, k.otherwise("", " GLOBAL"))
	property := func(property, value string) {
		w.line(`  set_property(TARGET %s::%s PROPERTY %s "%s")`, k.Name, name, property, value)
	}
	if !e.HeaderOnly {
		property("IMPORTED_LOCATION", k.cmakePath(e))
	}
	if dirs := k.cmakeIncludes(e); dirs != nil {
		property("INTERFACE_INCLUDE_DIRECTORIES", strings.Join(dirs, ";"))
	}
	property("KBUILD_DEVICE_CODE", strings.Join(c.all(), ";"))
	property("KBUILD_DEVICE_LINK", map[bool]string{true: "ON", false: "OFF"}[e.Links.DeviceLink && name == e.Name])
	switch {
	case e.Shared:
		if err := k.cmakeShared(w, e, property); err != nil {
			return err
		}
	case e.HeaderOnly:
		var defines []string
		for _, d := range e.Links.Defines {
			defines = append(defines, cmakeListed(d))
		}
		if defines != nil {
			property("INTERFACE_COMPILE_DEFINITIONS", strings.Join(defines, ";"))
		}
		k.cmakeLibraries(e, name, property)
	default:
		k.cmakeStatic(w, e, name, property)
	}
	w.line("endif()")
	return nil
}

// cmakeIncludes returns the include folders of a library.
func (k *Package) cmakeIncludes(e plan.Export) []string {
	switch {
	case k.tree != nil:
		return k.headerFolders(e)
	case k.hasHeaders():
		return []string{"${_" + k.Name + "_prefix}/" + includeDir}
	}
	return nil
}

func (k *Package) cmakePath(e plan.Export) string {
	if k.tree == nil && installs(e) {
		return "${_" + k.Name + "_prefix}/" + libPath(e)
	}
	return cmakeListed(cache.Absolute(k.root, e.File))
}

// cmakeShared sets the soname and the dependencies of a shared library.
func (k *Package) cmakeShared(w *cmakeText, e plan.Export, property func(name, value string)) error {
	name, err := k.soname(e)
	if e.Kind == manifest.Library {
		name = path.Base(e.File)
	}
	if name != "" {
		property("IMPORTED_SONAME", name)
	}
	if needs := k.cmakeNeeds(e, false); needs != nil {
		property("IMPORTED_LINK_DEPENDENT_LIBRARIES", strings.Join(needs, ";"))
	}
	if e.Links.CUDA && e.Links.Runtime == "shared" && k.tree != nil {
		if dir := k.tree.runtimeDir("libcudart.so"); dir != "" {
			property("INTERFACE_LINK_OPTIONS", "LINKER:-rpath-link,"+cmakeListed(dir))
		}
	} else if e.Links.CUDA && e.Links.Runtime == "shared" {
		// CMake adds no -rpath-link for the kind of target that CUDA::cudart is.
		w.line("  if(TARGET CUDA::cudart)")
		w.line("    get_target_property(@cudart CUDA::cudart IMPORTED_LOCATION)")
		w.line(`    get_filename_component(@cudart "${@cudart}" DIRECTORY)`)
		w.line(`    set_property(TARGET %s::%s PROPERTY INTERFACE_LINK_OPTIONS "LINKER:-rpath-link,${@cudart}")`, k.Name, e.Name)
		w.line("  endif()")
	}
	return err
}

// cmakeNeeds returns the targets that a library depends on.
func (k *Package) cmakeNeeds(e plan.Export, linked bool) (targets []string) {
	for _, label := range e.Needs {
		targets = append(targets, k.Name+"::"+cmakeName(k.named(label), linked))
	}
	return targets
}

// cmakeLibraries sets the libraries that a link with e adds, and their folders.
func (k *Package) cmakeLibraries(e plan.Export, name string, property func(name, value string)) {
	l := e.Links
	libs := k.cmakeNeeds(e, l.Closed || name != e.Name)
	for _, lib := range l.Libs {
		libs = append(libs, cmakeListed(lib))
	}
	if l.AMD && l.Runtime != "none" {
		libs = append(libs, "hip::amdhip64")
	}
	if libs != nil {
		property("INTERFACE_LINK_LIBRARIES", strings.Join(libs, ";"))
	}
	if l.LibDirs != nil {
		property("INTERFACE_LINK_DIRECTORIES", strings.Join(k.absolute(l.LibDirs), ";"))
	}
}

// cmakeStatic sets what a link with a static library adds.
func (k *Package) cmakeStatic(w *cmakeText, e plan.Export, name string, property func(name, value string)) {
	l := e.Links
	languages := map[bool]string{true: "CXX", false: "C"}[l.CXX]
	k.cmakeLibraries(e, name, property)
	// The archive itself, which CMake names later, adds nothing after this option. CMake splits
	// HOST_LINK at commas.
	if l.Always {
		property("INTERFACE_LINK_OPTIONS", "$<HOST_LINK:LINKER:--whole-archive$<COMMA>"+k.cmakePath(e)+"$<COMMA>--no-whole-archive>")
	}
	if l.HostLTO != "" {
		property("KBUILD_HOST_LTO", l.HostLTO)
	}
	switch {
	case l.DeviceLink && !l.AMD && name == e.Name:
		property("IMPORTED_LINK_INTERFACE_LANGUAGES", "CUDA;"+languages)
	case l.CUDA && l.Runtime != "none":
		w.line(`  if("CUDA" IN_LIST @languages)`)
		w.line(`    set_property(TARGET %s::%s PROPERTY IMPORTED_LINK_INTERFACE_LANGUAGES "CUDA;%s")`, k.Name, name, languages)
		w.line("  else()")
		w.line(`    set_property(TARGET %s::%s PROPERTY IMPORTED_LINK_INTERFACE_LANGUAGES "%s")`, k.Name, name, languages)
		w.line(`    set_property(TARGET %s::%s APPEND PROPERTY INTERFACE_LINK_LIBRARIES "%s")`, k.Name, name, k.cudaTargets(l))
		if l.Closed && k.tree == nil {
			w.line(`    set_property(TARGET %s::%s APPEND PROPERTY INTERFACE_LINK_DIRECTORIES "${CUDAToolkit_LIBRARY_DIR}")`, k.Name, name)
		}
		w.line("  endif()")
	default:
		property("IMPORTED_LINK_INTERFACE_LANGUAGES", languages)
	}
	k.cmakeDeviceLink(w, e, name, property)
}

// cudaTargets returns FindCUDAToolkit's targets for what CMake links by itself if the language CUDA
// is enabled. For a build tree it returns the runtime of the toolkit that builds the library, which
// is local.
func (k *Package) cudaTargets(l plan.Links) string {
	if k.tree != nil {
		return strings.Join(k.tree.runtime(l), ";")
	}
	runtime := "CUDA::cudart_static"
	if l.Runtime == "shared" {
		runtime = "CUDA::cudart"
	}
	// Device code of a closed library may launch kernels, for which FindCUDAToolkit of 3.25 has no
	// target.
	if l.Closed {
		return "cudadevrt;" + runtime
	}
	return runtime
}

// cmakeDeviceLink sets whether a program's device link reads the library.
func (k *Package) cmakeDeviceLink(w *cmakeText, e plan.Export, name string, property func(name, value string)) {
	l := e.Links
	switch {
	case !l.DeviceLink && !l.Closed:
		return
	case l.Closed || name != e.Name:
		property("CUDA_RESOLVE_DEVICE_SYMBOLS", "ON")
		return
	}
	property("CUDA_SEPARABLE_COMPILATION", "ON")
	if !l.LTO {
		return
	}
	w.line(`  set_property(TARGET %s::%s APPEND PROPERTY INTERFACE_LINK_OPTIONS "$<DEVICE_LINK:-dlto>")`, k.Name, name)
	if l.Floats != nil {
		property("KBUILD_LTO_OPTIONS", strings.Join(l.Floats, ";"))
	}
	if l.Arithmetic != "" {
		var options []string
		for option := range strings.SplitSeq(strings.TrimPrefix(l.Arithmetic, "-Xnvvm="), ",") {
			options = append(options, "-Xnvlink=-Xnvvm="+option)
		}
		w.line(`  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13) # its nvlink forgets how LTO-IR was compiled`)
		w.line(`    set_property(TARGET %s::%s APPEND PROPERTY INTERFACE_LINK_OPTIONS "$<DEVICE_LINK:%s>")`, k.Name, name, strings.Join(options, ";"))
		w.line("  endif()")
	}
}

// cmakeVersion returns the text of NAMEConfigVersion.cmake, see CMakeVersion. A version satisfies
// requests with the same major number that are not newer, and ranges that contain it.
func (k *Package) cmakeVersion() string { return CMakeVersion("kbuild install", k.Version) }

// CMakeVersion returns the version file of a package. by names the command that writes the package.
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
