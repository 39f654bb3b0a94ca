package find

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// HostLTO finds the tools for a compiler's link-time optimization. An archive needs an index of the
// symbols in intermediate code. ar reads gcc's objects with gcc's plugin (which gcc-ar adds);
// clang's need the llvm-ar of the same LLVM. Debian's ar loads the plugins of the newest gcc and of
// every LLVM from one folder; kbuild passes it the right plugin.
func (f *Finder) HostLTO(cxx, ar toolchain.Tool) toolchain.HostLTO {
	switch cxx.Family {
	case "gcc":
		plugin := f.ask(cxx.Path, "-print-file-name=", "liblto_plugin.so", false)
		if plugin == "" || f.ask(cxx.Path, "-print-prog-name=", "lto1", true) == "" {
			return toolchain.HostLTO{Error: fmt.Sprintf("%s was built without LTO: it has no lto1 or "+
				"no liblto_plugin.so. Name another as host_compiler of the toolchain block, or remove "+
				"host_lto.", cxx.Path)}
		}
		if ar.Path == "" {
			return toolchain.HostLTO{Error: ar.Error}
		}
		lto := f.archiver(ar.Path, map[string]string{"plugin": plugin})
		lto.Plugin = plugin
		return lto
	case "clang":
		return f.clangLTO(cxx)
	}
	return toolchain.HostLTO{}
}

func (f *Finder) clangLTO(clang toolchain.Tool) toolchain.HostLTO {
	major, _, _ := strings.Cut(clang.Version, ".")
	install := fmt.Sprintf("install it (on Debian and Ubuntu: apt install lld-%[1]s llvm-%[1]s), or remove host_lto.", major)
	lld, strays := f.lld(clang.Path)
	if lld == "" {
		return toolchain.HostLTO{Error: "there is no ld.lld of clang " + major + ": " + install}
	}
	if out, err := f.Output(lld, "--help"); err != nil || !strings.Contains(out, "--dependency-file") {
		return toolchain.HostLTO{Error: fmt.Sprintf("%s does not say what it reads (--dependency-file, "+
			"which lld has from 13 on): install a newer one, or remove host_lto.", lld)}
	}
	// Others in PATH may be too old to read clang's output.
	ar := f.beside(clang.Path, "llvm-ar")
	if ar == "" {
		ar = f.Lookup("llvm-ar-" + major)
	}
	if ar == "" {
		return toolchain.HostLTO{Error: "there is no llvm-ar of clang " + major + ": " + install}
	}
	lto := f.archiver(ar, map[string]string{})
	if strays {
		lto.LD = lld
	}
	if printed := f.tryLTO(clang.Path, lto); OtherLLVM(printed) {
		lto = toolchain.HostLTO{Error: fmt.Sprintf("clang %s, %s and %s do not fit together: %s. The "+
			"linker or the archiver of this clang is not there: %s", clang.Version, lld, ar, printed, install)}
	}
	return lto
}

// lld returns the ld.lld of a clang's own LLVM, or else the one that clang finds. strays reports
// that clang would run another than its own. clang looks first in the folder of the name that it
// was called by, and Debian's unversioned package lld installs one in /usr/bin.
func (f *Finder) lld(clang string) (lld string, strays bool) {
	found := f.ask(clang, "-print-prog-name=", "ld.lld", true)
	own := f.beside(clang, "ld.lld")
	if own == "" {
		return found, false
	}
	return own, f.RealDir(found) != f.RealDir(own)
}

// tryLTO compiles, archives and links one line and returns the error message, or "" on success.
func (f *Finder) tryLTO(clang string, lto toolchain.HostLTO) string {
	link := host.LTO{Family: "clang", Kind: "full", LD: lto.LD}.Link("", false)
	return f.Run(Command{Files: map[string]string{"a.cpp": "int kbuild_trial() { return 1; }\n"},
		Argv: []string{clang, "-flto", "-c", "a.cpp", "-o", "a.o"}, Then: [][]string{
			{lto.AR.Path, "qcsD", "a.a", "a.o"},
			slices.Concat([]string{clang, "-shared", "-nostdlib"}, link, []string{"-Wl,--whole-archive", "a.a", "-o", "a.so"}),
		}}).Complaint()
}

// archiver identifies an ar together with what it loads.
func (f *Finder) archiver(ar string, parts map[string]string) toolchain.HostLTO {
	for name, file := range f.Libraries(ar) {
		parts[name] = file
	}
	parts["driver"] = ar
	id, err := f.Identify(parts)
	if err != nil {
		return toolchain.HostLTO{Error: err.Error()}
	}
	return toolchain.HostLTO{AR: toolchain.Tool{Path: ar, Version: f.Dotted(ar), ID: id}}
}

// dottedRE finds the version in "GNU ar (GNU Binutils for Debian) 2.40".
var dottedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+(\.\d+)+`) })

// Dotted returns the version that a program prints.
func (f *Finder) Dotted(program string) string {
	text, _ := f.Answer(program, "--version")
	return dottedRE().FindString(text)
}
