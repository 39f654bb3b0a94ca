package probe

import (
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hostCompiler makes a PATH folder with a compiler that says text of itself and has the given
// parts, and with ar.
func hostCompiler(t *testing.T, text string, parts ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := "#!/bin/sh\ncase $1 in\n-dump*) echo 15.0.6;;\n--version) echo '" + text + "';;\n" +
		"-print-*) p=${1#*=}; if [ -e " + dir + "/parts/$p ]; then echo " + dir + "/parts/$p; else echo $p; fi;;\nesac\n"
	for _, name := range []string{"g++", "gcc"} {
		write(t, filepath.Join(dir, name), script, 0o755)
	}
	write(t, filepath.Join(dir, "ar"), "#!/bin/sh\n", 0o755)
	for _, p := range parts {
		write(t, filepath.Join(dir, p), "#!/bin/sh\necho --dependency-file\n", 0o755)
	}
	return dir
}

const (
	asGCC   = "g++ (Debian 15.0.6-1) 15.0.6\nCopyright (C) 2022 Free Software Foundation, Inc."
	asClang = "Debian clang version 15.0.6"
)

// What LTO runs and reads is in the identity of the compiler, or in that of the archiver.
func TestHostLTO(t *testing.T) {
	for _, c := range []struct {
		text     string
		parts    []string // replaced one by one
		ofAR     []string // those in the identity of the archiver
		archiver string
	}{
		{asGCC, []string{"parts/lto1", "parts/lto-wrapper", "parts/liblto_plugin.so", "parts/ld", "ar"}, []string{"ar", "parts/liblto_plugin.so"}, "ar"},
		{asClang, []string{"parts/ld.lld", "llvm-ar", "parts/ld"}, []string{"llvm-ar"}, "llvm-ar"},
		{asClang, []string{"parts/ld.lld", "llvm-ar-15"}, []string{"llvm-ar-15"}, "llvm-ar-15"},
	} {
		dir := hostCompiler(t, c.text, c.parts...)
		r := Request{Env: env(map[string]string{"PATH": dir}), MemoPath: t.TempDir()}
		last := collect(t, r)
		if lto := last.HostLTO; lto.Error != "" || lto.AR.Path != filepath.Join(dir, c.archiver) || (lto.Plugin != "") != (c.text == asGCC) {
			t.Errorf("%q: %+v", c.parts, lto)
		}
		for _, p := range c.parts {
			write(t, filepath.Join(dir, p), "#!/bin/sh\necho --dependency-file # replaced\n", 0o755)
			now := collect(t, r)
			ar := slices.Contains(c.ofAR, p)
			if ar == (now.HostLTO.AR.ID == last.HostLTO.AR.ID) || !ar && now.CXX.ID == last.CXX.ID {
				t.Errorf("replacing %s changes the identity of the archiver: %v, of the compiler: %v", p, now.HostLTO.AR.ID != last.HostLTO.AR.ID, now.CXX.ID != last.CXX.ID)
			}
			last = now
		}
	}
}

func TestHostLTOMissing(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{asGCC, "built without LTO"},
		{asClang, "apt install lld-15 llvm-15"},
	} {
		dir := hostCompiler(t, c.text)
		if f := collect(t, Request{Env: env(map[string]string{"PATH": dir})}); !strings.Contains(f.HostLTO.Error, c.says) {
			t.Errorf("%q: %+v", c.text, f.HostLTO)
		}
	}
	dir := hostCompiler(t, asClang, "parts/ld.lld", "llvm-ar-14")
	if f := collect(t, Request{Env: env(map[string]string{"PATH": dir})}); !strings.Contains(f.HostLTO.Error, "no llvm-ar of clang 15") {
		t.Errorf("with the llvm-ar of clang 14: %+v", f.HostLTO)
	}
	write(t, filepath.Join(dir, "parts/ld.lld"), "#!/bin/sh\n", 0o755)
	if f := collect(t, Request{Env: env(map[string]string{"PATH": dir})}); !strings.Contains(f.HostLTO.Error, "install a newer one") {
		t.Errorf("with an ld.lld that does not say what it reads: %+v", f.HostLTO)
	}
}

// What the installed compilers say of themselves.
func TestFamily(t *testing.T) {
	for text, want := range map[string]string{
		"AMD clang version 17.0.0 (https://github.com/RadeonOpenCompute/llvm-project)": "clang", "clang version 18.1.3": "clang",
		"nvc++ 24.1-0 64-bit target on x86-64 Linux": "", "a gcc called clang version\nFree Software Foundation": "gcc",
	} {
		if got := find.Family(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for name, want := range map[string]string{"g++": "gcc", "clang++-15": "clang", "clang++-17": "clang"} {
		path := inPath(name, os.Getenv("PATH"))
		if out, err := exec.Command(path, "--version").Output(); err == nil && find.Family(string(out)) != want {
			t.Errorf("%s is %q", name, find.Family(string(out)))
		}
	}
}

// A clang that finds the ld.lld of another LLVM is told that of its own, whose content is in its
// fingerprint; one that finds its own is not.
func TestHostLTOOwnLinker(t *testing.T) {
	dir := hostCompiler(t, asClang, "parts/ld.lld", "ld.lld", "llvm-ar")
	vars := env(map[string]string{"PATH": dir})
	f := collect(t, Request{Env: vars})
	if own := filepath.Join(dir, "ld.lld"); f.HostLTO.LD != own || f.HostLTO.Error != "" {
		t.Errorf("%+v, want %s", f.HostLTO, own)
	}
	write(t, filepath.Join(dir, "ld.lld"), "#!/bin/sh\necho --dependency-file of another\n", 0o755)
	if again := collect(t, Request{Env: vars}); again.CXX.ID == f.CXX.ID {
		t.Error("another ld.lld is the same compiler")
	}
	os.Remove(filepath.Join(dir, "parts/ld.lld"))
	os.Symlink("../ld.lld", filepath.Join(dir, "parts/ld.lld"))
	if f := collect(t, Request{Env: vars}); f.HostLTO.LD != "" {
		t.Errorf("its own linker by another name is named: %+v", f.HostLTO)
	}
	write(t, filepath.Join(dir, "llvm-ar"), "#!/bin/sh\n[ \"$1\" = --version ] || { echo \"error: a.o: Unknown attribute kind (Producer: 'LLVM15.0.6' Reader: 'LLVM 14.0.6')\"; exit 1; }\n", 0o755)
	if f := collect(t, Request{Env: vars}); !strings.Contains(f.HostLTO.Error, "do not fit together") || !strings.Contains(f.HostLTO.Error, "apt install lld-15 llvm-15") {
		t.Errorf("%+v", f.HostLTO)
	}
}
