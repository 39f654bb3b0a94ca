package probe

import (
	"context"
	"debug/elf"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Prebuilt files, and libraries that links name by -l, are looked for in each build that makes a
// plan: as a linker does, in the folders of the manifest, of the toolkit, of LIBRARY_PATH, and of
// the system. Which of them a link finds is known only to the linker, so facts have all that it may
// find, and why it may find another.

// Lib is a library named by -l, to be searched for as a linker does.
type Lib struct {
	Name string
	Dirs []string
}

// findLibs adds the libraries of all links.
func (r Request) findLibs(ctx context.Context, facts *plan.Facts) {
	facts.Static, facts.Libs, facts.Unseen = map[string]string{}, map[string][]string{}, map[string]string{}
	add := func(name, file string) {
		if file != "" && !slices.Contains(facts.Libs[name], file) {
			facts.Libs[name] = append(facts.Libs[name], file)
		}
	}
	libDirs := facts.LibDirs()
	for _, l := range r.Libs {
		file, unseen := r.findLib(l, libDirs)
		if add(l.Name, file); unseen != "" {
			facts.Unseen[l.Name] = unseen
		}
	}
	for _, l := range r.Libs {
		r.addStatic(facts, l.Name, l.Name, r.otherDirs(libDirs))
		for _, d := range l.Dirs {
			_, file := r.locate(l.Name, []string{d})
			add(l.Name, file)
			r.addStatic(facts, plan.LibIn(d, l.Name), l.Name, []string{d})
		}
	}
	for _, files := range facts.Libs {
		for _, file := range files {
			facts.Behind[file] = behind(ctx, r, file, libDirs)
		}
	}
}

// observeFiles appends the prebuilt files, and the paths where libraries were searched. It returns
// nil if a prebuilt file is missing.
func (r Request) observeFiles(observed []cache.Observation, f plan.Facts) []cache.Observation {
	seen := map[string]bool{}
	for _, l := range r.Libs {
		for _, d := range slices.Concat(l.Dirs, r.otherDirs(f.LibDirs())) {
			for _, p := range libFiles(inside(r.Root, d), l.Name) {
				kind := cache.KindFile
				if !cache.Exists(p) {
					kind = cache.KindAbsent
				}
				if !seen[p] {
					seen[p], observed = true, append(observed, cache.Observation{Path: p, Kind: kind})
				}
			}
		}
	}
	for _, p := range r.Prebuilt {
		if p = inside(r.Root, p); !cache.Exists(p) {
			return nil
		}
		observed = append(observed, cache.Observation{Path: p, Kind: cache.KindFile})
	}
	return observed
}

// inspect reads the content of a prebuilt file.
func inspect(root, name string) toolchain.Library {
	f, err := fatbin.ReadFile(inside(root, name))
	if err != nil {
		if os.IsNotExist(err) {
			return toolchain.Library{Error: "there is no such file"}
		}
		return toolchain.Library{Error: err.Error()}
	}
	lib := toolchain.Library{Form: f.Kind.String()}
	for _, m := range f.Members {
		pm := toolchain.Member{Name: m.Name, Relocatable: m.Relocatable, NewDriver: m.NewDriver, Fatbins: m.Fatbins, Versions: m.Versions}
		for _, i := range m.Images {
			pm.Images = append(pm.Images, i.Image)
			if i.Kind == gencode.LTO && !slices.Contains(pm.Options, i.Options) {
				pm.Options = append(pm.Options, i.Options)
			}
		}
		lib.Members = append(lib.Members, pm)
	}
	return lib
}

// languageOf returns the language whose toolchain links a library: CUDA unless it has other code.
func languageOf(lib toolchain.Library) string {
	for _, m := range lib.Members {
		if l := m.Language(); l != "cuda" {
			return l
		}
	}
	return "cuda"
}

// inside returns the absolute path of p, which may be relative to the project.
func inside(root, p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(root, p)
}

// otherDirs returns the folders that a link searches after those of the manifest. toolkits are those
// of toolkits.
func (r Request) otherDirs(toolkits []string) []string {
	dirs := append(slices.Clone(toolkits), filepath.SplitList(r.Env("LIBRARY_PATH"))...)
	return append(dirs, systemFolders[:]...)
}

// systemFolders are the folders that a linker searches last.
var systemFolders = [...]string{"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}

// libFiles returns the files that -lNAME can mean in a folder: a shared library before an archive,
// or the file that -l:FILE names.
func libFiles(dir, name string) []string {
	if file, ok := strings.CutPrefix(name, ":"); ok {
		return []string{filepath.Join(dir, file)}
	}
	return []string{filepath.Join(dir, "lib"+name+".so"), filepath.Join(dir, "lib"+name+".a")}
}

// locate returns the first file that -lNAME can mean in some folders, and its folder.
func (r Request) locate(name string, dirs []string) (dir, file string) {
	for _, d := range dirs {
		for _, file := range libFiles(d, name) {
			if cache.Exists(inside(r.Root, file)) {
				return d, file
			}
		}
	}
	return "", ""
}

// addStatic records under key the archive that -lNAME means in some folders, and its content, if it
// holds device code of NVIDIA. For any other file it records "". If no file is found it records
// nothing.
func (r Request) addStatic(f *plan.Facts, key, name string, dirs []string) {
	_, file := r.locate(name, dirs)
	if _, done := f.Static[key]; done || file == "" {
		return
	}
	if f.Static[key] = ""; filepath.Ext(file) != ".a" {
		return
	}
	lib, read := f.Prebuilt[file]
	if !read {
		lib = inspect(r.Root, file)
	}
	// For other files ld decides: it reads them or reports an error.
	if lib.Error == "" && len(lib.Members) > 0 && languageOf(lib) == "cuda" {
		f.Static[key], f.Prebuilt[file] = file, lib
	}
}

// findLib returns the file that -lNAME means, or "" for a library of the toolkit or of the
// compiler. unseen states why the linker may use another file.
func (r Request) findLib(l Lib, toolkits []string) (found, unseen string) {
	dir, file := r.locate(l.Name, slices.Concat(l.Dirs, r.otherDirs(toolkits)))
	known := ofCompiler().MatchString(l.Name)
	ofToolkit := slices.Contains(toolkits, dir) && vendors.IsLibrary(l.Name)
	switch {
	case file == "" && known:
		return "", ""
	case file == "":
		return "", "it was not found"
	case slices.Contains(l.Dirs, dir) || slices.Contains(filepath.SplitList(r.Env("LIBRARY_PATH")), dir):
		return file, ""
	case known || ofToolkit || !slices.Contains(systemFolders[:], dir):
		return "", ""
	}
	if head := headOf(inside(r.Root, file), 4); head != "\x7fELF" && head != "!<ar" {
		return "", file + " is a script of the linker" // libc.so is text
	}
	return file, ""
}

// ofCompiler matches libraries of compilers and of libc, which never depend on a project's code.
// Some are linker scripts, and some are in folders that only the compiler knows.
var ofCompiler = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(c|m|mvec|pthread|dl|rt|util|anl|resolv|crypt|gcc|gcc_s|gcc_eh|stdc\+\+|stdc\+\+fs|supc\+\+|c\+\+|c\+\+abi|gomp|omp|iomp5|gfortran|quadmath|atomic|ssp|gcov|[atlu]san|hwasan)$`)
})

// behind finds the libraries that a shared library needs in turn. A program must export the symbols
// that those refer to as well. Libraries of the system, of the toolkit and of the compiler refer to
// no symbols of a program.
func behind(ctx context.Context, r Request, file string, toolkits []string) (out plan.Behind) {
	if info, err := os.Stat(inside(r.Root, file)); err != nil || !info.Mode().IsRegular() {
		return out // a named pipe would never be read
	}
	var needs bool
	if out.Unnamed, needs = needsOthers(inside(r.Root, file)); !needs {
		return out
	}
	system := append(Request{Env: func(string) string { return "" }}.otherDirs(toolkits), "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib")
	done := map[string]bool{}
	finder, _ := newFinder(ctx, r)
	for todo := []string{inside(r.Root, file)}; len(todo) > 0; todo = todo[1:] {
		libs := finder.Libraries(todo[0])
		for _, name := range slices.Sorted(maps.Keys(libs)) {
			short := shortName(name)
			if vendors.IsLibrary(short) {
				out.Toolkit = out.Toolkit || libs[name] == ""
				continue
			}
			if done[name] || ofCompiler().MatchString(short) {
				continue
			}
			done[name] = true
			found := libs[name]
			beside := found == ""
			if beside { // the program's runpath leads there: see plan.LibraryFolders
				if found = filepath.Join(filepath.Dir(todo[0]), name); !cache.Exists(found) {
					out.Missing = name
					continue
				}
				todo = append(todo, found)
			}
			if rel, err := filepath.Rel(r.Root, found); err == nil && filepath.IsLocal(rel) {
				found = rel
			}
			if dir := filepath.Dir(found); !slices.Contains(system, dir) {
				out.Files = append(out.Files, found)
				if beside && !slices.Contains(out.Beside, dir) {
					out.Beside = append(out.Beside, dir)
				}
			}
		}
	}
	return out
}

// shortName returns the NAME of -lNAME for a requested library.
func shortName(library string) string {
	short, _, _ := strings.Cut(strings.TrimPrefix(library, "lib"), ".so")
	return short
}

// needsOthers reports whether file is a shared library without DT_SONAME, and whether it needs
// libraries besides those of the compiler.
func needsOthers(file string) (unnamed, needs bool) {
	f, err := elf.Open(file)
	if err != nil {
		return false, false
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	imported, _ := f.ImportedLibraries()
	return f.Type == elf.ET_DYN && err == nil && len(names) == 0,
		slices.ContainsFunc(imported, func(name string) bool { return !ofCompiler().MatchString(shortName(name)) })
}

// IsScript reports whether an interpreter runs a program.
func IsScript(file string) bool { return headOf(file, 2) == "#!" }

// headOf returns the first n bytes of a file, or all of a shorter one.
func headOf(file string, n int64) string {
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, n))
	return string(head)
}
