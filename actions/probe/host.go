package probe

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// compiler finds and identifies a gcc-like host compiler: the requested one, or the first of the
// usual names.
func (w *hostEnv) compiler(asked string, usual ...string) toolchain.Tool {
	names := usual
	if asked != "" {
		names = []string{asked}
	}
	if p := w.first(names); p != "" {
		return w.gcc(p)
	}
	return notFound(names)
}

// first returns the path of the first of some programs that is in PATH.
func (w *hostEnv) first(names []string) string {
	for _, n := range names {
		if p := w.lookup(n, w.env("PATH")); p != "" {
			return p
		}
	}
	return ""
}

func notFound(names []string) toolchain.Tool {
	return toolchain.Tool{Error: fmt.Sprintf("%s was not found; install it (on Debian and Ubuntu: apt install build-essential) or name another as host_compiler of the toolchain block.", strings.Join(names, " or "))}
}

// cFor returns the name of the C compiler beside a C++ compiler: gcc-11 for g++-11.
func cFor(cxx string) string {
	dir, base := filepath.Split(cxx)
	switch {
	case strings.Contains(base, "clang++"):
		return dir + strings.Replace(base, "clang++", "clang", 1)
	case strings.Contains(base, "g++"):
		return dir + strings.Replace(base, "g++", "gcc", 1)
	}
	return ""
}

// gcc identifies a compiler by the programs it runs and the files it links on its own account.
func (w *hostEnv) gcc(path string) toolchain.Tool {
	version, err := w.version(path)
	text, err2 := w.answer(path, "--version")
	if err = cmp.Or(err, err2); err != nil {
		// It may work once what it runs or loads has changed.
		w.reads(path)
		w.follow(path, map[string]string{}, map[string]bool{})
		w.sharedLibs(path)
		return toolchain.Tool{Error: fmt.Sprintf("%s does not work: %v", path, err)}
	}
	parts := map[string]string{"driver": path}
	steps := w.behindWrapper(path, parts)
	// objcopy for -gsplit-dwarf.
	programs := []string{"cc1plus", "cc1", "as", "ld", "collect2", "lto-wrapper", "lto1", "objcopy"}
	files := []string{"crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o", "libgcc.a", "libgcc_eh.a", "libstdc++.so"}
	if family(text) == "clang" { // clang compiles and optimizes by itself
		programs = []string{"as", "ld", "ld.lld", "objcopy"}
		parts["LLVMgold.so"] = w.llvmGold(path)
		w.addSystem(parts)
	} else {
		files = append(files, "liblto_plugin.so")
	}
	for _, p := range programs {
		parts[p] = w.ask(path, "-print-prog-name="+p, p)
	}
	parts["specs"] = w.elsewhere(path, programs)
	if family(text) == "clang" {
		w.aroundClang(path)
		w.configuration(text, parts)
		if own, strays := w.llvmLLD(path); strays {
			parts["ld.lld of its own"] = own
			programs = append(programs, "ld.lld of its own")
		}
	}
	for _, f := range files {
		parts[f] = w.ask(path, "-print-file-name="+f, "")
	}
	w.addLibraries(parts, append(programs, "driver", "liblto_plugin.so", "LLVMgold.so"))
	texts := []string{version, text}
	if steps != "" {
		texts = append(texts, steps)
	}
	id, err := w.fingerprint(parts, texts...)
	if err != nil {
		return toolchain.Tool{Error: err.Error()}
	}
	return toolchain.Tool{Path: path, Version: version, ID: id, Family: family(text)}
}

func (w *hostEnv) version(compiler string) (string, error) {
	return w.answer(compiler, "-dumpfullversion", "-dumpversion")
}

// ask returns the absolute path that a compiler prints for a part of it. A bare program name means
// PATH; a bare file name means that the compiler has no such file.
func (w *hostEnv) ask(compiler, question, program string) string {
	p, err := w.answer(compiler, question)
	if err != nil || p == "" || strings.Contains(p, "\n") {
		return ""
	}
	if !filepath.IsAbs(p) {
		if program == "" || p != program {
			return ""
		}
		return w.lookup(p, w.env("PATH"))
	}
	if !w.there(p) {
		return ""
	}
	return p
}

var hostLimit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`gcc versions later than (\d+)`) })

// hostCXX chooses the host compiler for nvcc. It is the requested one, else g++ if the toolkit
// supports its version, else the newest installed g++-N that the toolkit supports.
//
// nvcc always gets the choice by -ccbin. By default Debian's 11.8 queries the version of the g++ of
// PATH (12), but then runs the g++-11 of its own folder. The device code is then compiled for a
// compiler that is not used. Host sources and links use the same compiler, since two versions of
// libstdc++ do not mix.
func (w *hostEnv) hostCXX(hostConfig string) toolchain.Tool {
	w.limit = w.gccLimit(hostConfig)
	if w.req.HostCompiler != "" {
		return w.compiler(w.req.HostCompiler)
	}
	usual := []string{"g++", "clang++"}
	path := w.first(usual)
	if path == "" {
		return notFound(usual)
	}
	version, err := w.version(path)
	if err != nil || w.fits(toolchain.Tool{Path: path, Version: version}) {
		return w.gcc(path)
	}
	w.reads(path)
	for n := w.limit; n >= 5; n-- {
		if p := w.lookup(fmt.Sprintf("g++-%d", n), w.env("PATH")); p != "" {
			return w.gcc(p)
		}
	}
	return toolchain.Tool{Error: fmt.Sprintf("this CUDA toolkit supports g++ up to version %d, and %s is version %s: install g++-%d, or name another as host_compiler of the toolchain block.", w.limit, path, version, w.limit)}
}

// gccLimit returns the newest major version of gcc that the toolkit's headers accept, or 0 if they
// state none.
func (w *hostEnv) gccLimit(hostConfig string) int {
	text, err := regular.Read(hostConfig)
	if err != nil {
		return 0
	}
	w.reads(hostConfig)
	m := hostLimit().FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// fits reports whether the toolkit accepts a compiler, as far as is known.
func (w *hostEnv) fits(tool toolchain.Tool) bool {
	major, _, _ := strings.Cut(tool.Version, ".")
	n, err := strconv.Atoi(major)
	return w.limit == 0 || err == nil && n <= w.limit || strings.Contains(filepath.Base(tool.Path), "clang")
}

// isGNULinker reports whether the compiler links with GNU ld.
func (w *hostEnv) isGNULinker(cxx string) bool {
	out, _ := w.answer(cxx, "-Wl,--version")
	return strings.HasPrefix(out, "GNU ld ")
}

// elsewhere records the paths where a compiler could find other programs, by COMPILER_PATH and its
// installation. It returns the specs file that the compiler reads, or "" for built-in specs. What a
// compiler looks for in its installation (as, x86_64-linux-gnu-as, real-ld, collect-ld ...) depends
// on its version. Those folders change rarely, so they are watched as a whole. In folders of PATH
// only the programs are watched.
func (w *hostEnv) elsewhere(compiler string, programs []string) (specs string) {
	text, _ := w.answer(compiler, "-print-search-dirs")
	f, _ := host.ParseFolders(text)
	for _, d := range append(f.Programs, f.Libraries...) {
		file := filepath.Join(d, "specs")
		if specs == "" && w.there(filepath.Clean(d)) && w.there(file) {
			specs = file
		}
	}
	for _, d := range f.Libraries {
		// lto-wrapper starts another gcc, which gets these folders.
		w.comes(filepath.Join(d, gccFolder(f.Programs), "specs"))
	}
	inPath := filepath.SplitList(w.env("PATH"))
	for _, d := range f.Programs {
		if d = filepath.Clean(d); !slices.Contains(inPath, d) {
			w.watch(d)
		}
	}
	for _, program := range programs {
		for _, d := range f.Programs {
			if file := filepath.Join(d, program); exists(file) {
				break
			} else if slices.Contains(inPath, filepath.Clean(d)) {
				w.absent[file] = true
			}
		}
	}
	return specs
}

// gccFolder returns the end of the path of a gcc's own folder, "x86_64-linux-gnu/12", or "" if no
// path has one.
func gccFolder(programs []string) string {
	for _, d := range programs {
		if _, end, ok := strings.Cut(filepath.Clean(d), "/gcc/"); ok {
			return end
		}
	}
	return ""
}

// linkDepfile reports whether the linker can write a dependency file.
func (w *hostEnv) linkDepfile(cxx string) bool {
	if cxx == "" {
		return false
	}
	out, err := w.output(cxx, "-Wl,--help")
	return err == nil && strings.Contains(out, "--dependency-file")
}
