package probe

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// clangRE matches the start of every clang's version text: "Debian clang version 15.0.6", "AMD
// clang version 14.0.0".
var clangRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\S+ )?clang version `) })

// family returns "clang" or "gcc" by a compiler's version text, or "" if it is neither.
func family(versionText string) string {
	switch {
	case clangRE().MatchString(versionText):
		return "clang"
	case strings.Contains(versionText, "Free Software Foundation"):
		return "gcc"
	}
	return ""
}

// hostLTO finds the tools for a compiler's link-time optimization. An archive needs an index of the
// symbols in intermediate code. ar reads gcc's objects with gcc's plugin (which gcc-ar adds);
// clang's need the llvm-ar of the same LLVM. Debian's ar loads the plugins of the newest gcc and of
// every LLVM from one folder; kbuild passes it the right plugin.
func (w *hostEnv) hostLTO(cxx, ar toolchain.Tool) plan.HostLTO {
	switch cxx.Family {
	case "gcc":
		return w.gccLTO(cxx, ar)
	case "clang":
		return w.clangLTO(cxx)
	}
	return plan.HostLTO{}
}

func (w *hostEnv) gccLTO(gcc, ar toolchain.Tool) plan.HostLTO {
	plugin := w.ask(gcc.Path, "-print-file-name=liblto_plugin.so", "")
	if plugin == "" || w.ask(gcc.Path, "-print-prog-name=lto1", "lto1") == "" {
		return plan.HostLTO{Error: fmt.Sprintf("%s was built without LTO: it has no lto1 or no liblto_plugin.so. Name another as host_compiler of the toolchain block, or remove host_lto.", gcc.Path)}
	}
	if ar.Path == "" {
		return plan.HostLTO{Error: ar.Error}
	}
	return w.archiver(ar.Path, map[string]string{"plugin": plugin})
}

func (w *hostEnv) clangLTO(clang toolchain.Tool) plan.HostLTO {
	major, _, _ := strings.Cut(clang.Version, ".")
	install := fmt.Sprintf("install it (on Debian and Ubuntu: apt install lld-%[1]s llvm-%[1]s), or remove host_lto.", major)
	lld, strays := w.llvmLLD(clang.Path)
	if lld == "" {
		return plan.HostLTO{Error: "there is no ld.lld of clang " + major + ": " + install}
	}
	if out, err := w.output(lld, "--help"); err != nil || !strings.Contains(out, "--dependency-file") {
		return plan.HostLTO{Error: fmt.Sprintf("%s does not say what it reads (--dependency-file, which lld has from 13 on): install a newer one, or remove host_lto.", lld)}
	}
	ar := w.llvmAR(clang.Path, major)
	if ar == "" {
		return plan.HostLTO{Error: "there is no llvm-ar of clang " + major + ": " + install}
	}
	lto := w.archiver(ar, nil)
	if strays {
		lto.LD = lld
	}
	if printed := w.tryLTO(clang.Path, lto); otherLLVM(printed) {
		lto = plan.HostLTO{Error: fmt.Sprintf("clang %s, %s and %s do not fit together: %s. The linker or the archiver of this clang is not there: %s", clang.Version, lld, ar, printed, install)}
	}
	return lto
}

// llvmLLD returns the ld.lld of a clang's own LLVM, or else the one that clang finds. strays
// reports that clang would run another than its own. clang looks first in the folder of the name
// that it was called by, and Debian's unversioned package lld installs one in /usr/bin.
func (w *hostEnv) llvmLLD(clang string) (lld string, strays bool) {
	found := w.ask(clang, "-print-prog-name=ld.lld", "ld.lld")
	own := filepath.Join(realDir(clang), "ld.lld")
	if !filepath.IsAbs(own) || !w.there(own) {
		return found, false
	}
	return own, realDir(found) != realDir(own)
}

// tryLTO compiles, archives and links one line and returns the error message, or "" on success.
func (w *hostEnv) tryLTO(clang string, lto plan.HostLTO) string {
	dir := w.folderWith("a.cpp", "int kbuild_trial() { return 1; }\n")
	if dir == "" {
		return ""
	}
	defer os.RemoveAll(dir)
	link := host.LTO{Family: "clang", Kind: "full", LD: lto.LD}.Link("", false)
	for _, argv := range [][]string{
		{clang, "-flto", "-c", "a.cpp", "-o", "a.o"},
		{lto.AR.Path, "qcsD", "a.a", "a.o"},
		slices.Concat([]string{clang, "-shared", "-nostdlib"}, link, []string{"-Wl,--whole-archive", "a.a", "-o", "a.so"}),
	} {
		if printed := w.try(dir, nil, argv); printed != "" {
			return printed
		}
	}
	return ""
}

// llvmGold returns the plugin that a clang passes to GNU ld.
func (w *hostEnv) llvmGold(clang string) string {
	if gold := filepath.Join(realDir(clang), "../lib/LLVMgold.so"); filepath.IsAbs(gold) && w.there(gold) {
		return gold
	}
	return ""
}

// llvmAR returns the llvm-ar of a clang: beside it, or by its version. Others in PATH may be too
// old to read clang's output.
func (w *hostEnv) llvmAR(clang, major string) string {
	if beside := filepath.Join(realDir(clang), "llvm-ar"); filepath.IsAbs(beside) && w.there(beside) {
		return beside
	}
	return w.lookup("llvm-ar-"+major, w.env("PATH"))
}

// archiver identifies an ar together with what it loads.
func (w *hostEnv) archiver(ar string, plugins map[string]string) plan.HostLTO {
	parts := w.sharedLibs(ar)
	maps.Copy(parts, plugins)
	parts["driver"] = ar
	id, err := w.fingerprint(parts)
	if err != nil {
		return plan.HostLTO{Error: err.Error()}
	}
	text, _ := w.answer(ar, "--version")
	return plan.HostLTO{AR: toolchain.Tool{Path: ar, Version: dottedRE().FindString(text), ID: id}, Plugin: plugins["plugin"]}
}
