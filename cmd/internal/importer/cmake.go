package importer

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// cmakeTree is the state of reading a CMake build tree.
type cmakeTree struct {
	*Build
	makefiles bool   // the generator is one of make\'s
	dir       string // the build folder, as CMake spells it
	source    string
	rules     rules
	replies   []targetReply
	byID      map[string]*targetReply
	objects   map[string][]*Group // of object libraries, by name
}

// otherWays explains to users what to do where CMake does not help.
const otherWays = "configure it yourself and run `kbuild init --from BUILD`, " +
	"or draft from the sources alone with `kbuild init --sources`"

// readProject configures a CMake project in a temporary folder, and reads that. CMake finds the CUDA
// toolkit and the host compiler that kbuild finds, unless the environment names others.
func readProject(dir string, m Machine, ui UI) (*Build, error) {
	program, err := exec.LookPath("cmake")
	if err != nil {
		return nil, fmt.Errorf("%s has a CMakeLists.txt, and cmake is not installed. Install it, or %s",
			dir, otherWays)
	}
	tree, err := os.MkdirTemp("", "kbuild-init-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tree)
	ui.Say(fmt.Sprintf("running %s in %s, which runs the project's CMake code. "+
		"`kbuild init --sources` runs nothing", program, tree))
	var env []string
	own := os.Getenv("CUDAHOSTCXX") == "" && os.Getenv("CUDACXX") == "" && m.NVCC != ""
	if own {
		env = []string{"CUDACXX=" + m.NVCC, "CUDAHOSTCXX=" + m.HostCXX}
	}
	args := []string{"-S", dir, "-B", tree, "-DCMAKE_BUILD_TYPE=Release"}
	if err := ask(tree, program, args, env); err != nil {
		return nil, fmt.Errorf("%w\nHelp CMake, or %s", err, otherWays)
	}
	b, err := readCMake(tree, dir, ui)
	if err != nil {
		return nil, fmt.Errorf("%w\nHelp CMake, or %s", err, otherWays)
	}
	for i, n := range b.Notes { // the tree is gone when they are read
		b.Notes[i] = strings.NewReplacer(tree+"/", "", tree, ".").Replace(n)
	}
	if own && b.CCBin == m.HostCXX {
		b.CCBin = "" // kbuild finds it by itself
	}
	return b, nil
}

// readCMake reads a CMake build tree with the help of CMake's file API.
func readCMake(dir, root string, ui UI) (*Build, error) {
	cache := variables(filepath.Join(dir, "CMakeCache.txt"))
	idx, answered, err := reply(dir)
	if err == nil && !answered {
		program := cache["CMAKE_COMMAND"]
		if _, err := os.Stat(program); err != nil {
			program = "cmake"
		}
		ui.Say(fmt.Sprintf("running %s %s, which writes what it knows of the build", program, dir))
		if err = ask(dir, program, []string{dir}, nil); err == nil {
			idx, answered, err = reply(dir)
		}
	}
	if err == nil && !answered {
		err = fmt.Errorf("%s: cmake left no answer of the kind codemodel 2 in .cmake/api/v1/reply; CMake 3.14 or newer does", dir)
	}
	if err != nil {
		return nil, err
	}
	b := &Build{Root: root, made: map[string]string{}, implicit: map[string]bool{},
		searched: map[string]bool{}, loose: map[string]bool{}}
	t := &cmakeTree{Build: b, dir: dir, byID: map[string]*targetReply{}, objects: map[string][]*Group{}}
	t.CCBin = cache["CMAKE_CUDA_HOST_COMPILER"]
	if err := t.read(idx); err != nil {
		return nil, err
	}
	if t.rules, err = readRules(dir); err != nil {
		return nil, err
	}
	for _, objects := range []bool{true, false} { // other targets include those of object libraries
		for i := range t.replies {
			if r := &t.replies[i]; (r.Type == "OBJECT_LIBRARY") == objects {
				if err := t.target(r); err != nil {
					return nil, err
				}
			}
		}
	}
	t.runtimes()
	if exists(t.dir, "CTestTestfile.cmake") {
		t.note("", "tests of CTest")
	}
	return t.finish()
}

// read reads the files of a reply.
func (t *cmakeTree) read(idx index) error {
	folder := filepath.Join(t.dir, ".cmake/api/v1/reply")
	var model codemodel
	if err := readJSON(filepath.Join(folder, idx.file("codemodel")), &model); err != nil {
		return err
	}
	if n := len(model.Configurations); n != 1 {
		return fmt.Errorf("%s has %d configurations, and kbuild init reads one: use the generator Ninja or Unix Makefiles", t.dir, n)
	}
	c := model.Configurations[0]
	t.source, t.dir = model.Paths.Source, model.Paths.Build
	t.Root, t.trees = cmp.Or(t.Root, t.source), []string{t.dir}
	t.makefiles = strings.Contains(idx.CMake.Generator.Name, "Makefiles")
	t.From = strings.Join(slices.DeleteFunc([]string{"CMake " + idx.CMake.Version.String, idx.CMake.Generator.Name, c.Name}, func(s string) bool { return s == "" }), ", ")
	for _, d := range c.Directories {
		if d.HasInstallRule {
			t.note("", "install rules of %s: package and public_headers say what `kbuild install` installs", path.Join(d.Source, "CMakeLists.txt"))
		}
	}
	for _, target := range c.Targets {
		var r targetReply
		if err := readJSON(filepath.Join(folder, target.JSONFile), &r); err != nil {
			return err
		}
		t.replies = append(t.replies, r)
	}
	for i := range t.replies {
		r := &t.replies[i]
		t.byID[r.ID] = r
		for _, a := range r.Artifacts {
			t.made[filepath.Join(model.Paths.Build, a.Path)] = r.Name
			t.loose[r.Name] = r.Type == "OBJECT_LIBRARY"
		}
	}
	if err := t.readToolchains(filepath.Join(folder, idx.file("toolchains")), idx.file("toolchains") != ""); err != nil {
		return err
	}
	t.compilers(filepath.Join(folder, "../../../../CMakeFiles", idx.CMake.Version.String))
	return nil
}

// compilers reads CMake's own records of the compilers. The file API omits languages that only a
// subfolder enables, and the default standard of a compiler.
func (t *cmakeTree) compilers(folder string) {
	cuda := variables(filepath.Join(folder, "CMakeCUDACompiler.cmake"))
	if t.NVCC == "" && cuda["CMAKE_CUDA_COMPILER_ID"] == "NVIDIA" {
		t.NVCC, t.Version = cuda["CMAKE_CUDA_COMPILER"], cuda["CMAKE_CUDA_COMPILER_VERSION"]
		for _, d := range strings.Split(cuda["CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES"]+";"+cuda["CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES"], ";") {
			t.implicit[filepath.Clean(d)] = true
		}
	}
	cxx := variables(filepath.Join(folder, "CMakeCXXCompiler.cmake"))
	if n := cxx["CMAKE_CXX_STANDARD_COMPUTED_DEFAULT"]; n != "" {
		t.DefaultStd = cmp.Or(map[string]string{"OFF": "c++"}[cxx["CMAKE_CXX_EXTENSIONS_COMPUTED_DEFAULT"]], "gnu++") + n
	}
}

func (t *cmakeTree) readToolchains(file string, exists bool) error {
	if !exists {
		return nil
	}
	var tc toolchains
	if err := readJSON(file, &tc); err != nil {
		return err
	}
	for _, c := range tc.Toolchains {
		if c.Language == "CUDA" && c.Compiler.ID == "NVIDIA" {
			t.NVCC, t.Version = c.Compiler.Path, c.Compiler.Version
		}
		for _, d := range c.Compiler.Implicit.LinkDirectories {
			t.implicit[filepath.Clean(d)] = true
			if c.Language == "C" || c.Language == "CXX" {
				t.searched[filepath.Clean(d)] = true
			}
		}
	}
	return nil
}

// target converts one target.
func (t *cmakeTree) target(r *targetReply) error {
	out := &Target{Name: r.Name}
	switch r.Type {
	case "EXECUTABLE":
		out.Kind = "executable"
	case "STATIC_LIBRARY":
		out.Kind = "library"
	case "SHARED_LIBRARY", "MODULE_LIBRARY":
		out.Kind, out.Shared = "library", true
	case "OBJECT_LIBRARY":
		out.Kind = "objects"
	case "UTILITY":
		if !dashboardRE().MatchString(r.Name) {
			t.note(r.Name, "a custom target")
		}
		return nil
	default: // an interface library has no commands; its users' commands contain its options
		return nil
	}
	folder := path.Join(r.Paths.Build, "CMakeFiles", r.Name+".dir")
	relocatable := t.rules.relocatable[folder]
	out.Relinks = t.rules.linked[folder]
	out.NVLink = t.rules.nvlink[folder]
	out.DeviceLink = out.Relinks && r.Type == "STATIC_LIBRARY"
	t.nameFile(out, r, t.rules.soname[folder])
	for _, c := range r.CompileGroups {
		if err := t.compiled(out, r, c, relocatable); err != nil {
			return err
		}
	}
	if out.Kind == "objects" {
		t.objects[r.Name] = out.Groups
		if out.Emit = emitted(r); out.Emit == "" {
			return nil
		}
		out.Kind = "module"
	}
	if err := t.link(out, r); err != nil {
		return err
	}
	t.Targets = append(t.Targets, out)
	return nil
}

var fileNameRE = pattern(`^[A-Za-z0-9_.+-]+$`)

// nameFile gives kbuild's output the file name of CMake's. NameOnDisk may be libcusz.so for a
// target cuszhi. The version that programs look for is in the soname.
func (t *cmakeTree) nameFile(out *Target, r *targetReply, soname string) {
	start, end := "", ""
	switch {
	case out.Kind == "objects":
		return
	case out.Shared:
		start, end = "lib", ".so"
		if version, ok := strings.CutPrefix(soname, r.NameOnDisk+"."); ok {
			out.SOVersion = version
		}
	case out.Kind == "library":
		start, end = "lib", ".a"
	}
	name, starts := strings.CutPrefix(r.NameOnDisk, start)
	name, ends := strings.CutSuffix(name, end)
	if own := plainName(r.Name); !starts || !ends || !fileNameRE().MatchString(name) {
		t.note(r.Name, "the name of the file, %s: kbuild's is %s%s%s", r.NameOnDisk, start, own, end)
	} else if name != own {
		out.OutputName = name
	}
}

// dashboardRE matches the targets that CTest adds.
var dashboardRE = pattern("^(Nightly|Experimental|Continuous)")

// emitted returns the kind of output of a library with CUDA_PTX_COMPILATION or a similar property.
func emitted(r *targetReply) string {
	for _, a := range r.Artifacts {
		if ext := strings.TrimPrefix(path.Ext(a.Path), "."); slices.Contains([]string{"ptx", "cubin", "fatbin"}, ext) {
			return ext
		}
	}
	return ""
}

// compiled converts a group of sources with equal options.
func (t *cmakeTree) compiled(out *Target, r *targetReply, c compileGroup, relocatable bool) error {
	language := languages[c.Language]
	if language == "" || language == "cuda" && t.NVCC == "" {
		var sources []string
		for _, i := range c.SourceIndexes {
			sources = append(sources, r.Sources[i].Path)
		}
		t.note(r.Name, "%s, in the language %s, by a compiler that is not read", strings.Join(sources, ", "), c.Language)
		return nil
	}
	var words []string
	if language == "cuda" { // CMake's rules pass it
		words = append(words, "-forward-unknown-to-host-compiler")
	}
	for _, f := range c.CompileCommandFragments {
		more, err := fragmentWords(f.Fragment)
		if err != nil {
			t.note(r.Name, "%s: %v", f.Fragment, err)
			continue
		}
		words = append(words, more...)
	}
	if language == "cuda" && relocatable {
		words = append(words, "-rdc=true")
	}
	for _, d := range c.Defines {
		words = append(words, "-D"+d.Define)
	}
	for _, i := range c.Includes {
		if i.IsSystem {
			words = append(words, "-isystem", i.Path)
		} else {
			words = append(words, "-I"+i.Path)
		}
	}
	g, err := t.group(r.Name, language, t.dir, words)
	if err != nil {
		return err
	}
	for _, i := range c.SourceIndexes {
		s := r.Sources[i]
		file := s.Path
		if why := misnamed(file, words); why != "" {
			t.note(r.Name, "%s: %s", t.rel(t.source, file), why)
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(t.source, file)
		}
		if s.IsGenerated && !t.inTree(file) {
			if _, err := os.Stat(file); err != nil {
				t.note(r.Name, "%s, which a command of CMake makes: write a generate block for it", t.rel("", file))
				continue
			}
			t.note(r.Name, "%s is taken as CMake's build left it: write a generate block for it", t.rel("", file))
		}
		for _, real := range t.realSources(r.Name, file) {
			g.Sources = appendNew(g.Sources, t.rel("", real))
		}
	}
	if len(g.Sources) > 0 {
		out.Groups = append(out.Groups, g)
	}
	return nil
}

// fragmentWords splits a fragment of the file API. CMake escapes '$' in it as for make, with every
// generator.
func fragmentWords(fragment string) ([]string, error) {
	return toolchain.ShellWords(strings.ReplaceAll(fragment, "$$", "$"), nil)
}

// link converts the link of a target.
func (t *cmakeTree) link(out *Target, r *targetReply) error {
	var unread []string // compiled by custom commands, FindCUDA's included
	for _, s := range r.Sources {
		if s.CompileGroupIndex == nil && manifest.LanguageOf(s.Path) != "" && !out.has(t.rel(t.source, s.Path)) {
			unread = append(unread, s.Path)
		}
		if s.CompileGroupIndex != nil || path.Ext(s.Path) != ".o" && path.Ext(s.Path) != ".ptx" {
			continue
		}
		if name, ok := t.made[filepath.Join(t.source, s.Path)]; ok {
			for _, g := range t.objects[name] {
				out.join(g)
			}
		} else if !s.IsGenerated {
			t.note(r.Name, "the object %s: put it into an archive, and name that in a prebuilt block", s.Path)
		}
	}
	if len(unread) > 0 {
		t.note(r.Name, "%s: CMake does not say how they are compiled. Where find_package(CUDA) has them compiled, as before CMake 3.9, "+
			"enable the language CUDA in CMakeLists.txt, or write a target for them", strings.Join(unread, ", "))
	}
	for _, d := range r.Dependencies {
		of := t.byID[d.ID]
		if of != nil && (of.Type == "STATIC_LIBRARY" && out.Kind == "library" && !out.Shared) {
			out.Deps = appendNew(out.Deps, of.Name)
		}
	}
	l := linkReader{Build: t.Build, dir: t.dir, to: out}
	if t.makefiles { // their links run in the folder of the target
		l.dir = filepath.Join(t.dir, r.Paths.Build)
	}
	for _, role := range []string{"flags", "libraryPath", "libraries"} {
		var words []string
		for _, f := range r.Link.CommandFragments {
			more, err := fragmentWords(f.Fragment)
			if err != nil {
				t.note(r.Name, "%s: %v", f.Fragment, err)
			} else if f.Role == role {
				words = append(words, more...)
			}
		}
		for _, option := range host.SplitOptions(words) {
			// The other flags belong to nvcc's compiles.
			if role != "flags" || r.Link.Language != "CUDA" || isLinkOption(option[0]) {
				l.option(role, option)
			}
		}
	}
	for _, f := range r.Archive.CommandFragments {
		if f.Fragment != "" {
			t.note(r.Name, "%s of the archive", f.Fragment)
		}
	}
	l.end()
	return nil
}

// hasDevice reports whether a target has CUDA sources.
func (t *Target) hasDevice() bool {
	return slices.ContainsFunc(t.Groups, func(g *Group) bool { return g.Language == "cuda" })
}

// has reports whether a source is in a target.
func (t *Target) has(source string) bool {
	return slices.ContainsFunc(t.Groups, func(g *Group) bool { return slices.Contains(g.Sources, source) })
}
