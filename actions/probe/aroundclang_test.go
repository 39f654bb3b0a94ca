package probe

import (
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// fakeClang is a clang of version 16 in a folder of its own, which says of itself what is in the
// file "says" beside it.
func fakeClang(t *testing.T) (clang string, r Request) {
	t.Helper()
	dir, bin := t.TempDir(), compilers(t)
	clang = filepath.Join(dir, "llvm/bin/clang++")
	write(t, clang, `#!/bin/sh
here=${0%/*}
case "$*" in
--version) echo "clang version 16.0.6"; while read -r line; do echo "$line"; done <"$here/says";;
-dumpmachine) echo x86_64-pc-linux-gnu;;
-print-resource-dir) echo "$here/../lib/clang/16";;
-dump*) echo 16.0.6;;
-print-search-dirs) printf 'programs: =%s\nlibraries: =%s\n' "$here/../lib/tools" "$here/../../sysroot/lib";;
-print-*) echo "$here/tool";;
esac
`, 0o755)
	write(t, filepath.Join(dir, "llvm/bin/says"), "", 0o644)
	write(t, filepath.Join(dir, "llvm/bin/tool"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(dir, "llvm/lib/clang/16/lib/linux/crt.o"), "", 0o644)
	write(t, filepath.Join(dir, "llvm/lib/tools/as"), "", 0o755)
	write(t, filepath.Join(dir, "home/.config/other"), "", 0o644)
	return clang, Request{Needs: vendors.Needs{HostCompiler: clang}, Env: env(map[string]string{"PATH": bin, "HOME": filepath.Join(dir, "home")}), MemoPath: t.TempDir()}
}

// asksAgain reports that what is remembered of tools is not believed once a file is there.
func asksAgain(t *testing.T, r Request, file string) bool {
	t.Helper()
	f := collect(t, r)
	if f.CXX.Error != "" {
		t.Fatal(f.CXX.Error)
	}
	if _, _, ok := r.remembered(); !ok {
		t.Fatal("nothing is remembered")
	}
	write(t, file, "#!/bin/sh\n", 0o755)
	_, _, ok := r.remembered()
	return !ok
}

// Where a clang looks for gcc, for linkers and its own libraries whatever comes has it asked again.
func TestAroundClang(t *testing.T) {
	clang, r := fakeClang(t)
	llvm := filepath.Dir(filepath.Dir(clang))
	for _, file := range []string{"bin/clang++.cfg", "Scrt1.o", "lib/libc++.so", "lib/x86_64-pc-linux-gnu/crt.o", "lib/clang/16/bin/.hipVersion", "lib/clang/16/lib/linux/new.o",
		"lib/tools/x86_64-pc-linux-gnu-ld", "../sysroot/lib/specs", "../home/.config/clang++.cfg", "../home/.config/clang/clang.cfg"} {
		if file = filepath.Join(llvm, file); !asksAgain(t, r, file) {
			t.Errorf("%s came, and clang is not asked again", file)
		}
	}
	if bin := r.Env("PATH"); !asksAgain(t, r, filepath.Join(bin, "ld")) {
		t.Error("a linker came to PATH, and clang is not asked again")
	}
	if asksAgain(t, r, filepath.Join(llvm, "../home/.config/another")) {
		t.Error("a file of another program has clang asked again")
	}
}

// The files of options that a clang takes unasked are part of it, and those that they name.
func TestConfigurationOfClang(t *testing.T) {
	clang, r := fakeClang(t)
	bin := filepath.Dir(clang)
	write(t, filepath.Join(bin, "says"), "Configuration file: "+bin+"/clang++.cfg\n", 0o644)
	write(t, filepath.Join(bin, "clang++.cfg"), "-O2 @more.cfg\n--config=<CFGDIR>/third.cfg\n", 0o644)
	last := collect(t, r).CXX
	for _, file := range []string{"clang++.cfg", "more.cfg", "third.cfg"} {
		text, _ := os.ReadFile(filepath.Join(bin, file))
		write(t, filepath.Join(bin, file), string(text)+"-DNEW\n", 0o644)
		if now := collect(t, r).CXX; now.Error != "" || now.ID == last.ID {
			t.Errorf("%s changed and is not in the identity: %s", file, now.Error)
		} else {
			last = now
		}
	}
}

// A folder of gcc's own, in which it looks for programs by names that differ from version to
// version.
func TestFoldersOfGCC(t *testing.T) {
	bin := compilers(t)
	own := filepath.Join(t.TempDir(), "lib/gcc")
	write(t, filepath.Join(own, "12/cc1plus"), "", 0o755)
	write(t, filepath.Join(bin, "g++"), "#!/bin/sh\ncase $1 in -dump*) echo 12.2.0;; -print-search-dirs) echo programs: ="+own+"/12/:"+own+"/12/../../../target/bin/:"+bin+
		"/; echo libraries: ="+own+"/../libs;; -print*) echo "+bin+"/cc1plus;; esac\n", 0o755)
	r := Request{Env: env(map[string]string{"PATH": bin}), MemoPath: t.TempDir()}
	for _, file := range []string{"gcc/12/real-ld", "../target/bin/x86_64-linux-gnu-as", "libs/12/specs"} {
		if !asksAgain(t, r, filepath.Join(own, "..", file)) {
			t.Errorf("%s came, and gcc is not asked again", file)
		}
	}
	if asksAgain(t, r, filepath.Join(bin, "unrelated")) {
		t.Error("a program in PATH that gcc does not look for has it asked again")
	}
}

// What nvcc looks for in its installation: gcc finds an assembler there before that of PATH.
func TestFoldersOfToolkit(t *testing.T) {
	tk, path := toolkitDir(t, "12.4", "13"), compilers(t)
	r := Request{Needs: needs("cuda"), Env: env(map[string]string{"PATH": path, "CUDA_HOME": tk}), MemoPath: t.TempDir()}
	for _, file := range []string{"bin/as", "targets/x86_64-linux/include/a.h"} {
		if !asksAgain(t, r, filepath.Join(tk, file)) {
			t.Errorf("%s came, and the tools are not asked again", file)
		}
	}
}

// The plugins of ar write names into the index of an archive.
func TestPluginsOfAR(t *testing.T) {
	bin := compilers(t)
	r := Request{Env: env(map[string]string{"PATH": bin}), MemoPath: t.TempDir()}
	last := collect(t, r).AR
	for _, dir := range []string{"lib/bfd-plugins", "lib/x86_64-linux-gnu/bfd-plugins"} {
		plugin := filepath.Join(filepath.Dir(bin), dir, "gold.so")
		if !asksAgain(t, r, plugin) {
			t.Errorf("%s came, and ar is not asked again", plugin)
		}
		if now := collect(t, r).AR; now.Error != "" || now.ID == last.ID {
			t.Errorf("%s is not in the identity of ar: %s", plugin, now.Error)
		} else {
			last = now
		}
	}
	// LLVM's is a small file before a large library, which is told apart by what its linker noted
	// of its content.
	dir := linked(t, "--disable-new-dtags")
	if err := os.Symlink(filepath.Join(dir, "bin/prog"), filepath.Join(filepath.Dir(bin), "lib/bfd-plugins/linked.so")); err != nil {
		t.Fatal(err)
	}
	before := collect(t, r).AR
	build := exec.Command("gcc", "-shared", "-fPIC", "-DOTHER", "-Wl,--build-id=0x1234567890", "deep.c", "-o", "else/libdeep.so")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if now := collect(t, r).AR; now.ID == before.ID || before.ID == last.ID {
		t.Error("a library of a plugin is not in the identity of ar")
	}
}
