// Package tooltest finds the real compilers that tests run, in any installed version: Debian 12 has
// nvcc 11.8 with g++-11 and clang 15, Debian 13 nvcc 12.4 with g++-13 and clang 17. It knows
// nothing of kbuild.
package tooltest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Need skips a test in a short run, or if a program is missing. If all tools are required, as in
// `make test`, a missing program fails the test.
func Need(t testing.TB, names ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real compilers")
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Missing(t, name)
		}
	}
}

// Broad skips a slow test that only adds breadth: make test-all runs it.
func Broad(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("runs with KBUILD_TEST_ALL=1, as in make test-all")
	}
}

// Sample returns the sorted names of a table's rows: those of sample, or all in make test-all.
func Sample[V any](table map[string]V, sample ...string) []string {
	if !All() {
		return slices.Sorted(slices.Values(sample))
	}
	return slices.Sorted(maps.Keys(table))
}

// All reports whether the tests that add breadth run too: make test-all.
func All() bool { return os.Getenv("KBUILD_TEST_ALL") != "" }

// Missing skips a test that lacks a tool, or fails it if all tools are required.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("KBUILD_REQUIRE_TOOLS") != "" {
		t.Fatalf("%s is required here and was not found in PATH", what)
	}
	t.Skipf("needs %s, which is not in PATH", what)
}

// CUDA returns the release of the nvcc in PATH, as 11.8.
func CUDA(t testing.TB) float64 {
	t.Helper()
	Need(t, "nvcc")
	out, _ := exec.Command("nvcc", "--version").CombinedOutput()
	m := regexp.MustCompile(`release (\d+\.\d+),`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("nvcc does not say its release:\n%s", out)
	}
	release, _ := strconv.ParseFloat(string(m[1]), 64)
	return release
}

// HostGCC returns the name of a g++ that the nvcc in PATH accepts for host code, according to
// host_config.h: "g++-11". The gcc has the same name, with "gcc" instead of "g++".
func HostGCC(t testing.TB) string {
	t.Helper()
	Need(t, "nvcc")
	name := hostGCC()
	if name == "" {
		Missing(t, "a g++ that this nvcc takes")
	}
	return name
}

var hostGCC = sync.OnceValue(func() string {
	for _, name := range []string{"g++-11", "g++-12", "g++-13", "g++-14", "g++-15", "g++-10", "g++-9", "g++"} {
		if _, err := exec.LookPath(name); err == nil && exec.Command("nvcc", "-ccbin", name, "-E", "-x", "cu", os.DevNull).Run() == nil {
			return name
		}
	}
	return ""
})

// LLVM returns the suffix of an installed clang++ and of the programs that belong to it: "-15" for
// clang++-15, ld.lld-15, llvm-ar-15 and clang-offload-bundler-15, "" for names without a version.
func LLVM(t testing.TB) string {
	t.Helper()
	Need(t)
	suffix, ok := llvm()
	if !ok {
		Missing(t, "a clang++ with the lld, llvm-ar and clang-offload-bundler of its version")
	}
	return suffix
}

var llvm = sync.OnceValues(func() (string, bool) {
	suffixes := []string{""}
	for n := 30; n > 12; n-- {
		suffixes = append(suffixes, fmt.Sprint("-", n))
	}
	for _, s := range suffixes {
		if together("clang++"+s, "ld.lld"+s, "llvm-ar"+s, "clang-offload-bundler"+s) {
			return s, true
		}
	}
	return "", false
})

// together reports whether all of these programs are installed in one folder.
func together(names ...string) bool {
	dirs := map[string]bool{}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return false
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return false
		}
		dirs[filepath.Dir(path)] = true
	}
	return len(dirs) == 1
}

// ClangCUDA returns the name of the clang++ of LLVM. It skips a test if this clang compiles no
// CUDA, not even an empty source. clang 17 of Debian 13 fails on the __float128 of its C library,
// 2.41. The clang 15 of Debian 12 works.
func ClangCUDA(t testing.TB) string {
	t.Helper()
	return clangThat(t, clangCUDA)
}

// ClangHost returns the name of the clang++ of LLVM. It skips a test if that clang cannot compile
// the host code of nvcc. The headers of CUDA 12.4 and of glibc 2.41 declare cospi in two ways,
// which only gcc accepts.
func ClangHost(t testing.TB) string {
	t.Helper()
	return clangThat(t, clangHost)
}

func clangThat(t testing.TB, fault func() string) string {
	t.Helper()
	Need(t, "nvcc")
	name := "clang++" + LLVM(t)
	if printed := fault(); printed != "" {
		if ClangMajor(t) == 15 {
			t.Fatal(printed)
		}
		t.Skip("cannot be here: ", printed)
	}
	return name
}

// clangCUDA returns the first error of the clang of LLVM for an empty CUDA source.
var clangCUDA = sync.OnceValue(func() string {
	suffix, _ := llvm()
	return ClangFault(suffix)
})

// ClangFault returns the first error of the clang++ with a suffix for an empty CUDA source, or "".
func ClangFault(suffix string) string {
	path := cmp.Or(os.Getenv("CUDA_HOME"), "/usr/lib/cuda")
	if _, err := os.Stat(path); err != nil {
		path = "/usr/local/cuda"
	}
	return faultOf("compiles no CUDA", "clang++"+suffix, "--cuda-path="+path, "-Wno-unknown-cuda-version", "--offload-arch=sm_80", "-fsyntax-only", "-x", "cuda", os.DevNull)
}

// clangHost returns the first error of clang for the host code of an empty CUDA source.
var clangHost = sync.OnceValue(func() string {
	suffix, _ := llvm()
	dir, err := os.MkdirTemp("", "kbuild-test")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	return faultOf("is no host compiler for nvcc", "nvcc", "-ccbin", "clang++"+suffix, "-allow-unsupported-compiler", "-c", "-x", "cu", os.DevNull, "-o", filepath.Join(dir, "a.o"))
})

// faultOf returns the first error that a command prints, or "" if it succeeds.
func faultOf(what string, argv ...string) string {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err == nil {
		return ""
	}
	if m := regexp.MustCompile(`(?m)^.*error: .*$`).Find(out); m != nil {
		out = m
	}
	suffix, _ := llvm()
	return fmt.Sprintf("clang++%s %s: %s", suffix, what, out)
}

// ClangMajor returns the major version of the clang of LLVM.
func ClangMajor(t testing.TB) int {
	t.Helper()
	out, err := exec.Command("clang++"+LLVM(t), "-dumpversion").Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	fmt.Sscan(string(out), &n)
	return n
}

// Hang waits until a signal ends the process, for test doubles of programs. In select {} the runtime
// of a program without C reports a deadlock.
func Hang() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	for {
		<-c
	}
}
