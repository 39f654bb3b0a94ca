package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/plan"
)

// compiler finds a gcc-like host compiler: the one asked for, or the first of the usual names.
func (w *world) compiler(asked string, usual ...string) plan.Tool {
	names := usual
	if asked != "" {
		names = []string{asked}
	}
	for _, n := range names {
		if p := w.lookup(n, w.env("PATH")); p != "" {
			return w.gcc(p)
		}
	}
	return plan.Tool{Error: fmt.Sprintf("%s was not found; install it (on Debian and Ubuntu: apt install build-essential) or name another as host_compiler of the toolchain block.", strings.Join(names, " or "))}
}

// cFor is the C compiler beside a C++ compiler: gcc-11 for g++-11.
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
func (w *world) gcc(path string) plan.Tool {
	parts := map[string]string{"driver": path}
	for _, p := range []string{"cc1plus", "cc1", "as", "ld", "collect2", "lto-wrapper"} {
		parts[p] = w.ask(path, "-print-prog-name="+p, p)
	}
	for _, f := range []string{"liblto_plugin.so", "crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o",
		"libgcc.a", "libgcc_eh.a", "libstdc++.so"} {
		parts[f] = w.ask(path, "-print-file-name="+f, "")
	}
	version, err := w.output(path, "-dumpfullversion", "-dumpversion")
	if err != nil {
		return plan.Tool{Error: fmt.Sprintf("%s does not work: %v", path, err)}
	}
	version = strings.TrimSpace(version)
	id, err := w.identity(parts, version)
	if err != nil {
		return plan.Tool{Error: err.Error()}
	}
	return plan.Tool{Path: path, Version: version, ID: id}
}

// ask is the absolute path a compiler gives for a part of it. A bare program name means PATH; a bare
// file name means that it has none.
func (w *world) ask(compiler, question, program string) string {
	out, err := w.output(compiler, question)
	p := strings.TrimSpace(out)
	if err != nil || p == "" || strings.Contains(p, "\n") {
		return ""
	}
	if !filepath.IsAbs(p) {
		if program == "" || p != program {
			return ""
		}
		return w.lookup(p, w.env("PATH"))
	}
	if _, err := os.Stat(p); err != nil {
		return ""
	}
	return p
}

var hostLimit = regexp.MustCompile(`gcc versions later than (\d+)`)

// hostCXX chooses the host compiler for nvcc: the one asked for, or g++ if the toolkit supports its
// version, or the newest installed g++-N that it does.
func (w *world) hostCXX(hostConfig string) plan.Tool {
	if w.req.HostCompiler != "" {
		return w.compiler(w.req.HostCompiler)
	}
	limit := 0
	if text, err := os.ReadFile(hostConfig); err == nil {
		w.read[hostConfig] = true
		if m := hostLimit.FindSubmatch(text); m != nil {
			limit, _ = strconv.Atoi(string(m[1]))
		}
	}
	tool := w.compiler("", "g++", "clang++")
	major, _, _ := strings.Cut(tool.Version, ".")
	if n, err := strconv.Atoi(major); tool.Path == "" || limit == 0 || err == nil && n <= limit || strings.Contains(tool.Path, "clang") {
		return tool
	}
	for n := limit; n >= 5; n-- {
		if p := w.lookup(fmt.Sprintf("g++-%d", n), w.env("PATH")); p != "" {
			return w.gcc(p)
		}
	}
	return plan.Tool{Error: fmt.Sprintf("this CUDA toolkit supports g++ up to version %d, and %s is version %s: install g++-%d, or name another as host_compiler of the toolchain block.", limit, tool.Path, tool.Version, limit)}
}

// linkDepfile asks the linker whether it can write what it read.
func (w *world) linkDepfile(cxx string) bool {
	if cxx == "" {
		return false
	}
	out, err := w.output(cxx, "-Wl,--help")
	return err == nil && strings.Contains(out, "--dependency-file")
}
