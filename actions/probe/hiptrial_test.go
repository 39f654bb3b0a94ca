package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
)

// twoLLVMs is a ROCm whose clang finds an lld of another LLVM before its own, unless COMPILER_PATH
// names the folder of its own: what Debian's clang++-15 does where the package lld (14) is
// installed. Each lld says of itself what it is.
func twoLLVMs(t *testing.T) (dir string, vars map[string]string) {
	t.Helper()
	dir = t.TempDir()
	const fails = "#!/bin/sh\necho \"lld: error: trial.bc: Opaque pointers are only supported in -opaque-pointers mode (Producer: 'LLVM15.0.6' Reader: 'LLVM 14.0.6')\"\nexit 1\n"
	write(t, filepath.Join(dir, "llvm14/lld"), fails, 0o755)
	for _, name := range []string{"lld", "clang-offload-bundler", "ld", "clang"} {
		write(t, filepath.Join(dir, "llvm15", name), "#!/bin/sh\n", 0o755)
	}
	write(t, filepath.Join(dir, "bitcode/ockl.bc"), "", 0o644)
	write(t, filepath.Join(dir, "bin/clang++"), "#!/bin/sh\necho 15.0.6\n", 0o755)
	write(t, filepath.Join(dir, "bin/hipcc"), strings.ReplaceAll(`#!/bin/sh
if [ "$COMPILER_PATH" != "" ] && [ -e "${COMPILER_PATH%%:*}/lld" ]; then lld=${COMPILER_PATH%%:*}/lld; else lld=DIR/llvm14/lld; fi
case "$*" in
*-\#\#\#*--hip-link*) echo "hipcc-cmd: DIR/bin/clang++"
	echo ' "DIR/llvm15/clang-offload-bundler" "-type=o" "-targets=host-x,hip-amdgcn-amd-amdhsa-gfx906" "-input=kbuild_input.o" "-output=h" "-output=i" "-unbundle"'
	echo ' "'$lld'" "-flavor" "gnu" "-plugin-opt=mcpu=gfx906" "-o" "x" "i"'
	echo ' "DIR/llvm15/clang-offload-bundler" "-type=o" "-targets=host-x,hipv4-amdgcn-amd-amdhsa--gfx906" "-input=/dev/null" "-input=x" "-output=y"'
	echo ' "DIR/llvm15/ld" "-o" "kbuild_output"' ;;
*-\#\#\#*) echo "hipcc-cmd: DIR/bin/clang++"
	echo ' "DIR/llvm15/clang" "-cc1" "-mlink-builtin-bitcode" "DIR/bitcode/ockl.bc" "-o" "x"'
	echo ' "DIR/llvm15/clang-offload-bundler" "-output=x"' ;;
*) cat DIR/said 2>/dev/null && exit 1; exit 0 ;;
esac
`, "DIR", dir), 0o755)
	return dir, map[string]string{"PATH": filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
}

// hipcc is given the lld of its own clang, in front of what the user says of other tools.
func TestHIPOwnLinker(t *testing.T) {
	dir, vars := twoLLVMs(t)
	for before, want := range map[string]string{"": filepath.Join(dir, "llvm15"), "/mine": filepath.Join(dir, "llvm15") + ":/mine"} {
		vars["COMPILER_PATH"] = before
		k, fault := collectHIP(t, vars)
		if k == nil {
			t.Fatal(fault)
		}
		if !slices.Contains(k.Env, "COMPILER_PATH="+want) || k.LinkFault != "" || k.CompileFault != "" {
			t.Errorf("with %q: %q, %s%s", before, k.Env, k.LinkFault, k.CompileFault)
		}
	}
	var out bytes.Buffer
	vars["COMPILER_PATH"] = ""
	out.WriteString(doctor(t, Request{Needs: needs("hip"), Env: env(vars)}))
	for _, want := range []string{"fit together", "kbuild has it use that of " + filepath.Join(dir, "llvm15")} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("doctor does not say %q:\n%s", want, &out)
		}
	}
	os.Remove(filepath.Join(dir, "llvm14/lld"))
	os.Symlink("../llvm15/lld", filepath.Join(dir, "llvm14/lld")) // Debian's lld of the same version
	if k, _ := collectHIP(t, vars); len(k.Env) != 1 {
		t.Errorf("one LLVM by two names: %q", k.Env)
	}
}

// Parts that do not fit are found before anything is built.
func TestHIPMisfit(t *testing.T) {
	dir, vars := twoLLVMs(t)
	os.Remove(filepath.Join(dir, "llvm15/lld"))
	faults := func() (*hip.Compiler, string) {
		k, fault := collectHIP(t, vars)
		if k == nil {
			t.Fatal(fault)
		}
		var out bytes.Buffer
		out.WriteString(doctor(t, Request{Needs: needs("hip"), Env: env(vars)}))
		return k, out.String()
	}
	k, printed := faults()
	for _, want := range []string{"clang 15.0.6 and " + dir + "/llvm14/lld do not fit together", "Reader: 'LLVM 14.0.6'", "apt install lld-15"} {
		if !strings.Contains(k.LinkFault, want) || !strings.Contains(printed, want) {
			t.Errorf("%q is not in %s, or not in\n%s", want, k.LinkFault, printed)
		}
	}
	write(t, filepath.Join(dir, "said"), "error: Unknown attribute kind (86) (Producer: 'LLVM17.0.6' Reader: 'LLVM 15.0.6')\n", 0o644)
	if k, printed = faults(); !strings.Contains(k.CompileFault, "apt install rocm-device-libs)") || !strings.Contains(printed, k.CompileFault) || k.LinkFault != "" {
		t.Errorf("%s%s\n%s", k.CompileFault, k.LinkFault, printed)
	}
	// Not of another LLVM: a build may go well all the same, and doctor speaks of it.
	write(t, filepath.Join(dir, "said"), "error: gfx906 is history\n", 0o644)
	if k, printed = faults(); k.CompileFault != "" || !strings.Contains(printed, "gfx906 is history") {
		t.Errorf("%s\n%s", k.CompileFault, printed)
	}
}

// An lld that is installed later is found, though there is a memo.
func TestHIPLinkerInstalledLater(t *testing.T) {
	dir, vars := twoLLVMs(t)
	own := filepath.Join(dir, "llvm15/lld")
	os.Rename(own, own+".not")
	r := Request{Needs: needs("hip"), Env: env(vars)}
	f, w := newFinder(t.Context(), r)
	if facts := r.collect(f, w); facts.HIP.Compiler == nil || !w.asked[own] || !w.asked[filepath.Join(dir, "bin/lld")] {
		t.Errorf("%s: not noted as absent: %v", facts.HIP.Missing, w.asked)
	}
}
