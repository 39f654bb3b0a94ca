package probe

import (
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// clang is a driver of 100 KB around libclang-cpp.so and libLLVM.so, and Debian's ld and as keep
// most code in libbfd.so. The code of a program is therefore also in the shared libraries that it
// is linked with. They are searched for as the dynamic loader does it (ld.so(8)): DT_RPATH of the
// file and of its dependents, LD_LIBRARY_PATH, DT_RUNPATH of the file alone, the index of ldconfig,
// the usual folders. The loader is not queried: only glibc's answers, and only by starting the
// program.

// AbsoluteLibraries removes relative and empty entries from LD_LIBRARY_PATH, such as the empty
// entry that LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH adds. They depend on the working directory of a
// program. Tools are identified by the libraries in absolute folders, so they must run with those.
func AbsoluteLibraries() {
	const name = "LD_LIBRARY_PATH"
	if list := os.Getenv(name); list != toolchain.LibraryPath(list) {
		os.Setenv(name, toolchain.LibraryPath(list))
	}
}

// needing is an ELF file with the names of the libraries that it is linked with.
type needing struct {
	names   []string
	loader  string   // the program's loader, which the kernel starts; "" for a library
	rpath   []string // its own and inherited; searched first
	runpath []string // its own
	class   elf.Class
	machine elf.Machine
}

// sharedLibs returns the shared libraries that a program loads, directly or indirectly, by the
// requested names. A library that is not found is "". Scripts, statically linked programs, and ""
// have none.
//
// Where ldconfig knows several builds of a library for several processors, all are returned. The
// second and later roles have a number after the name.
func (w *hostEnv) sharedLibs(program string) map[string]string {
	libs := map[string]string{}
	// $ORIGIN is the folder of the file, not of a link to it.
	real, err := filepath.EvalSymlinks(program)
	if err != nil || program == "" { // "" would be the working directory
		return libs
	}
	first, ok := w.needed(real, nil)
	if first.loader != "" {
		if w.there(first.loader) {
			libs["loader"] = first.loader
		}
		first.names = slices.Concat(first.names, w.preloaded())
	}
	for todo := []needing{first}; ok && len(todo) > 0; todo = todo[1:] {
		for _, name := range todo[0].names {
			if _, done := libs[name]; done {
				continue
			}
			libs[name] = ""
			for i, file := range w.loaded(name, todo[0]) {
				role := name
				if i > 0 {
					role = fmt.Sprint(name, " ", i+1)
				}
				libs[role] = file
				if next, ok := w.needed(file, todo[0].rpath); ok {
					todo = append(todo, next)
				}
			}
		}
	}
	return libs
}

// addLibraries adds the shared libraries of the parts with the given roles to the parts of a tool.
func (w *hostEnv) addLibraries(parts map[string]string, roles []string) {
	for _, role := range roles {
		for name, file := range w.sharedLibs(parts[role]) {
			parts[role+" "+name] = file
		}
	}
}

// needed returns the libraries that an ELF file names; ok is false if file is not ELF. Each file is
// read once: debug/elf reads the string table for each query, and libLLVM's has megabytes.
func (w *hostEnv) needed(file string, inherited []string) (n needing, ok bool) {
	n, known := w.needs[file]
	if !known {
		w.reads(file)
		n = readNeeding(file)
		w.needs[file] = n
	}
	if len(n.runpath) == 0 {
		n.rpath = slices.Concat(n.rpath, inherited)
	} else {
		n.rpath = inherited
	}
	return n, n.class != elf.ELFCLASSNONE
}

// readNeeding parses the dynamic section of an ELF file. The class of any other file is
// ELFCLASSNONE.
func readNeeding(file string) (n needing) {
	f, err := elf.Open(file)
	if err != nil {
		return needing{}
	}
	defer f.Close()
	n = needing{class: f.Class, machine: f.Machine}
	n.names, _ = f.ImportedLibraries() // none without a dynamic section
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(p.Open(), 4096))
			n.loader = strings.TrimRight(string(name), "\x00")
		}
	}
	n.runpath, n.rpath = searched(f, elf.DT_RUNPATH, file), searched(f, elf.DT_RPATH, file)
	return n
}

// searched returns the folders that an ELF file names for its libraries.
func searched(f *elf.File, tag elf.DynTag, file string) []string {
	var dirs []string
	texts, _ := f.DynString(tag)
	for _, text := range texts {
		for _, d := range strings.Split(text, ":") {
			for _, origin := range []string{"$ORIGIN", "${ORIGIN}"} {
				d = strings.ReplaceAll(d, origin, filepath.Dir(file))
			}
			// Relative ones depend on the working directory; no known toolchain uses $LIB.
			if filepath.IsAbs(d) {
				dirs = append(dirs, d)
			}
		}
	}
	return dirs
}

// loaded returns the files that the loader may load for a name: the first that fits the machine, or
// all that ldconfig knows.
func (w *hostEnv) loaded(name string, by needing) []string {
	fits := func(file string) bool {
		if !w.there(file) {
			return false
		}
		n, ok := w.needed(file, nil)
		return ok && n.class == by.class && n.machine == by.machine
	}
	if strings.Contains(name, "/") {
		if fits(name) {
			return []string{name}
		}
		return nil
	}
	dirs := slices.Concat(by.rpath, w.libPath, filepath.SplitList(w.env("LD_LIBRARY_PATH")))
	for _, d := range append(dirs, by.runpath...) {
		if !filepath.IsAbs(d) || !w.there(d) {
			continue
		}
		files := w.forProcessors(d, name, fits)
		if file := filepath.Join(d, name); fits(file) {
			return append(files, file)
		}
		if len(files) > 0 {
			return files // and not the files of later folders, which another processor may load
		}
	}
	var files []string
	for _, file := range w.ldconfig()[name] {
		if fits(file) {
			files = append(files, file)
		}
	}
	for _, d := range []string{"/lib64", "/usr/lib64", "/lib", "/usr/local/lib", "/usr/lib"} {
		if file := filepath.Join(d, name); len(files) == 0 && fits(file) {
			files = []string{file}
		}
	}
	return files
}

// forProcessors returns the builds of a library for some processors, in subfolders of a search
// folder: glibc-hwcaps, and up to glibc 2.36 the others. It returns all of them, whatever the
// processor of this machine. Absent subfolders are recorded, since they may appear.
func (w *hostEnv) forProcessors(dir, name string, fits func(string) bool) (files []string) {
	for _, sub := range []string{"glibc-hwcaps", "tls", "haswell", "xeon_phi", "avx512_1", "x86_64"} {
		top := filepath.Join(dir, sub)
		if !w.there(top) {
			continue
		}
		filepath.WalkDir(top, func(folder string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			w.reads(folder) // subfolders may appear in it
			if file := filepath.Join(folder, name); fits(file) {
				files = append(files, file)
			}
			return nil
		})
	}
	return files
}

// preloaded returns the libraries that the loader adds to every program.
func (w *hostEnv) preloaded() []string {
	const file = "/etc/ld.so.preload"
	if !w.there(file) {
		return nil
	}
	w.reads(file)
	text, _ := regular.Read(file)
	return strings.FieldsFunc(string(text), func(c rune) bool { return strings.ContainsRune(" \t\n:", c) })
}

// ldconfig returns the index of ldconfig: files by the name of a library. Without an index it is
// empty.
func (w *hostEnv) ldconfig() map[string][]string {
	if w.libIndex == nil {
		w.libIndex = map[string][]string{}
		if file := "/etc/ld.so.cache"; w.there(file) {
			w.reads(file)
			text, _ := regular.Read(file)
			w.libIndex = readLDCache(text)
		}
	}
	return w.libIndex
}
