package probe

import (
	"debug/elf"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// clang is a driver of 100 KB around libclang-cpp.so and libLLVM.so, and Debian's ld and as keep
// most code in libbfd.so. The code of a program is therefore also in the shared libraries that it
// is linked with. The program's own loader lists them without running any of their code, as ldd has
// it do, and glibc's prints where it looks (LD_DEBUG=libs). A library that appears earlier on the
// way makes facts invalid. A loader that does not print its way is queried each time.

// AbsoluteLibraries removes relative and empty entries from LD_LIBRARY_PATH, such as the empty
// entry that LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH adds. They depend on the working directory of a
// program. Tools are identified by the libraries in absolute folders, so they must run with those.
func AbsoluteLibraries() {
	const name = "LD_LIBRARY_PATH"
	if list := os.Getenv(name); list != toolchain.LibraryPath(list) {
		os.Setenv(name, toolchain.LibraryPath(list))
	}
}

// Libraries implements find.Host. Scripts and statically linked programs have none.
func (h *hostEnv) Libraries(program string, first ...string) map[string]string {
	// $ORIGIN is the folder of the file, not of a link to it.
	real, err := filepath.EvalSymlinks(program)
	if err != nil || !filepath.IsAbs(real) { // "" would be the working directory
		return map[string]string{}
	}
	key := strings.Join(append(slices.Clone(first), real), ":")
	libs, known := h.libs[key]
	if !known {
		libs = map[string]string{}
		h.reads(real)
		loader, linked := loaderOf(real)
		if cache.Exists(loader) {
			libs["loader"] = loader
		} else {
			loader, _ = loaderOf("/bin/sh") // of a library
		}
		if linked && loader != "" && real != realName(loader) {
			h.list(libs, loader, real, first)
		}
		h.libs[key] = libs
	}
	return maps.Clone(libs)
}

// loaderOf returns the loader that the kernel starts for a program, or "". linked reports whether
// the file is linked with shared libraries.
func loaderOf(file string) (loader string, linked bool) {
	f, err := elf.Open(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(p.Open(), 4096))
			loader = strings.TrimRight(string(name), "\x00")
		}
	}
	names, _ := f.ImportedLibraries() // none without a dynamic section
	return loader, loader != "" || len(names) > 0
}

// list has a loader list the libraries of a program.
func (h *hostEnv) list(libs map[string]string, loader, program string, first []string) {
	h.reads("/etc/ld.so.preload")
	path := append(slices.Clone(first), h.libPath)
	args := []string{program}
	if strings.Contains(loader, "musl") {
		args = []string{"--list", program} // glibc's fails if a library is missing
	}
	cmd := exec.CommandContext(h.ctx, loader, args...)
	cmd.Env = append(os.Environ(), "LD_TRACE_LOADED_OBJECTS=1", "LD_DEBUG=libs", "LD_PRELOAD=",
		"GLIBC_TUNABLES=", "LD_LIBRARY_PATH="+toolchain.LibraryPath(strings.Join(path, ":")))
	out, err := cmd.CombinedOutput()
	searched, told := false, false
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		_, debug, isDebug := strings.Cut(line, ":\t")
		debug = strings.TrimSpace(debug)
		line, isLibrary := strings.CutPrefix(line, "\t")
		name, file, isFile := strings.Cut(line, " => ")
		searched = searched || isLibrary && isFile
		if i := strings.LastIndex(file, " (0x"); i >= 0 {
			file = file[:i]
		}
		switch {
		case isLibrary && isFile && filepath.IsAbs(file):
			libs[name] = file
		case isLibrary && isFile: // not found
			libs[name] = ""
		case isLibrary && strings.HasPrefix(line, loader+" "): // libraries refer to it, too
			libs[filepath.Base(loader)] = loader
		case isLibrary && filepath.IsAbs(line): // preloaded
			file, _, _ = strings.Cut(line, " (0x")
			libs[file] = file
		case isDebug && strings.HasPrefix(debug, "search cache="):
			h.reads(strings.TrimPrefix(debug, "search cache="))
		case isDebug && strings.HasPrefix(debug, "search path="):
			dirs, _, _ := strings.Cut(strings.TrimPrefix(debug, "search path="), "\t")
			for _, dir := range strings.Split(dirs, ":") {
				h.tried(dir)
			}
		case isDebug && strings.HasPrefix(debug, "trying file="):
			told = true
			h.tried(strings.TrimPrefix(debug, "trying file="))
		}
	}
	h.note(err)
	h.trouble = h.trouble || err != nil || searched && !told
}

// tried records a file or folder that the loader tried, if it is absent.
func (h *hostEnv) tried(name string) {
	if filepath.IsAbs(name) && !cache.Exists(name) {
		h.absent(name)
	}
}
