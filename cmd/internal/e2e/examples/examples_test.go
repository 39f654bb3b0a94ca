package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

func TestExampleHello(t *testing.T) {
	t.Parallel()
	e := realExample(t, "hello")
	if c := e.Kbuild(); c.Kinds != "cicc 2, cudafe++ 1, fatbinary 1, host-part 1, join 1, link 1, preprocess 3, ptxas 2" {
		t.Errorf("cold: %+v", c)
	}
	if got := e.ELFs("build/bin/hello"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	if out, _ := e.Run("cuobjdump", "--list-ptx", "build/bin/hello"); !strings.Contains(out, "sm_90.ptx") {
		t.Errorf("no PTX: %s", out)
	}
	e.Run("build/bin/hello")
	e.Settled("build/bin/hello")
}

func TestExampleLTO(t *testing.T) {
	t.Parallel()
	e := realExample(t, "lto")
	e.Kbuild()
	if got := e.Calls("build/bin/app", "fade"); got != "" {
		t.Errorf("with LTO the kernel calls %s", got)
	}
	e.Kbuild("--profile", "dev")
	if got := e.Calls("build/dev/bin/app", "fade"); got != "_Z5blendfff" {
		t.Errorf("without LTO the kernel calls %q", got)
	}
	e.linksAsNVCC("build/bin/app", "build/obj/executable.app/src/main.cu.o", "build/obj/executable.app/src/blend.cu.o")
	e.Run("build/bin/app")
	e.Settled("build/bin/app")
	if c := e.Kbuild("--arch", "sm_86"); c.Failed != 0 {
		t.Errorf("another architecture: %+v", c)
	}
	if got := e.ELFs("build/bin/app"); got != "sm_86" {
		t.Errorf("--arch sm_86 gives %q", got)
	}
}

// linksAsNVCC holds the machine code of a program against what nvcc links of the objects with LTO.
// It sees the plain host objects as well.
func (e *example) linksAsNVCC(program string, objects ...string) {
	e.T.Helper()
	e.Run(slices.Concat([]string{"nvcc", "-ccbin", tooltest.HostGCC(e.T), "-dlto", "-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90",
		"-o", "nvccs"}, objects)...)
	if e.DeviceCode(program) != e.DeviceCode("nvccs") {
		e.T.Errorf("the code of %s is another than nvcc's", program)
	}
	e.Run("rm", "nvccs")
}

func TestExamplePartialLTO(t *testing.T) {
	t.Parallel()
	e := realExample(t, "partial-lto")
	e.Run("make", "-C", "third_party")
	_, printed := e.Run("kbuild", "--progress", "plain")
	if strings.Contains(printed, "not built for LTO") {
		t.Errorf("expected partial LTO is not quiet:\n%s", printed)
	}
	if got := e.ELFs("build/bin/bench"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	if got := e.Calls("build/bin/bench", "relax_kernel"); got != "_Z14spectra_weightf" {
		t.Errorf("relax_kernel calls %q", got)
	}
	e.linksAsNVCC("build/bin/bench", "build/obj/executable.bench/bench/main.cpp.o", "build/lib/libsolver.a", "third_party/libspectra.a")
	e.Run("build/bin/bench")
	e.Settled("build/bin/bench")

	// A comment changes no code, and neither does a line that is new: nothing behind the
	// preprocessor runs.
	relax := string(e.Read("src/relax.cu"))
	for what, text := range map[string]string{"a comment": relax + "// a comment\n", "a line": "// a line\n" + relax, "blanks": strings.ReplaceAll(relax, "  ", "    ")} {
		e.Write("src/relax.cu", text)
		if c := e.Kbuild(); c.Kinds != "preprocess 3" {
			t.Errorf("%s: %+v", what, c)
		}
	}
	// An edit runs what comes after it.
	e.Write("src/relax.cu", strings.Replace(relax, "* spectra", "+ spectra", 1))
	if c := e.Kbuild(); c.Kinds != "archive 1, cicc 2, cudafe++ 1, fatbinary 2, host-part 1, host-refs 1, join 1, link 1, nvlink 2, preprocess 3, slice 2" {
		t.Errorf("an edit: %+v", c)
	}
	e.Write("src/relax.cu", relax)
	if c := e.Kbuild(); c.Ran != 0 {
		t.Errorf("reverted: %+v", c)
	}
	// What the device sees of another architecture only, and what only the host sees, is noticed.
	const kernel = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
	e.Write("src/relax.cu", strings.Replace(relax, kernel, kernel+"#if __CUDA_ARCH__ >= 900\n  if (i == 7) out[i] = 42;\n#endif\n", 1))
	if c := e.Kbuild(); c.Kinds != "archive 1, cicc 1, fatbinary 2, host-part 1, host-refs 1, join 1, link 1, nvlink 1, preprocess 3, slice 2" {
		t.Errorf("an edit for sm_90 only: %+v", c)
	}
	e.Write("src/relax.cu", relax)
	e.Kbuild()
	e.Write("src/relax.cu", strings.Replace(relax, "int n) {\n  float *next", "int n) {\n#ifndef __CUDA_ARCH__\n  if (n < 0) return cudaErrorInvalidValue;\n#endif\n  float *next", 1))
	if c := e.Kbuild(); c.Kinds != "archive 1, cudafe++ 1, host-part 1, host-refs 1, join 1, link 1, preprocess 3, slice 2" {
		t.Errorf("an edit for the host only: %+v", c)
	}
}

func TestExampleSharedLibrary(t *testing.T) {
	t.Parallel()
	e := realExample(t, "shared-library")
	e.Kbuild()
	if got := e.ELFs("build/lib/libvec.so"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	if got := e.Calls("build/lib/libvec.so", "double_kernel"); got != "" {
		t.Errorf("the kernel calls %s", got)
	}
	e.Run("build/bin/app")
	e.Settled("build/bin/app", "build/lib/libvec.so")
}

func TestExampleGenerate(t *testing.T) {
	t.Parallel()
	e := realExample(t, "generate")
	e.Kbuild()
	if out, _ := e.Run("build/bin/lookup"); !strings.Contains(out, "16 squares") && !strings.Contains(out, "ok") {
		t.Errorf("it says %q", out)
	}
	e.Settled("build/bin/lookup")
	if c := e.Kbuild("--var", "size=32"); !strings.HasPrefix(c.Kinds, "cicc 2, ") || !strings.Contains(c.Kinds, "generate 1, ") {
		t.Errorf("another size: %+v", c)
	}
}

func TestExampleGenerateMany(t *testing.T) {
	t.Parallel()
	e := realExample(t, "generate-many")
	e.Kbuild("--require-split")
	if out, _ := e.Run("build/bin/reduce"); strings.Contains(out, "no kernel") || !strings.Contains(out, "\n4 reductions") {
		t.Errorf("it says %q", out)
	}
	e.Settled("build/bin/reduce")
	e.Edit("tools/reduce.sh", "in sum max", "in max")
	e.Kbuild()
	if out, _ := e.Run("build/bin/reduce"); !strings.Contains(out, "\n2 reductions") {
		t.Errorf("with one operation it says %q", out)
	}
	if left, _ := filepath.Glob(filepath.Join(e.Dir, "build/gen/reduce/sum*")); left != nil {
		t.Errorf("%q are left", left)
	}
}

func TestExampleImports(t *testing.T) {
	t.Parallel()
	e := realExample(t, "imports")
	e.Kbuild("--require-split")
	for _, lib := range []string{"fill", "sum"} {
		if got := e.ELFs("build/lib/" + lib + "/libkernels.a"); got != "sm_80 sm_90" {
			t.Errorf("%s holds %q", lib, got)
		}
	}
	e.Settled("build/bin/app")
}

func TestExampleMatrix(t *testing.T) {
	t.Parallel()
	e := realExample(t, "matrix")
	if c := e.Kbuild(); !strings.HasPrefix(c.Kinds, "cicc 6, ") {
		t.Errorf("three variants for two architectures run %s", c.Kinds)
	}
	for _, variant := range []string{"float.8", "float.16", "double.8"} {
		for _, arch := range []string{"80", "90"} {
			cubin := "build/modules/gemm." + variant + ".sm_" + arch + ".cubin"
			if archs, has := e.ELFs(cubin), e.Functions(cubin); archs != "sm_"+arch || !slices.Equal(has, []string{"gemm"}) {
				t.Errorf("%s is code of %s and has %q", cubin, archs, has)
			}
			if ptx := string(e.Read("build/modules/gemm." + variant + ".compute_" + arch + ".ptx")); !strings.Contains(ptx, ".target sm_"+arch) {
				t.Errorf("%s compute_%s is no PTX for it", variant, arch)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(e.Dir, "build/modules/gemm.double.16.sm_80.cubin")); err == nil {
		t.Error("the excluded variant was built")
	}
	if printed, _ := e.Run("sh", "-c", "kbuild precompile --verify build/modules/*.json"); strings.Count(printed, ": 4 artifacts as it says\n") != 3 {
		t.Errorf("the manifests: %s", printed)
	}
	out, _ := e.Run("build/bin/list")
	if n := strings.Count(out, "\n"); n != 12 {
		t.Errorf("the table has %d entries, want 12:\n%s", n, out)
	}
	if out, _ := e.Run("build/bin/list", "86"); out != "gemm.float.16.sm_80.cubin\n" {
		t.Errorf("a loader would take %s", out)
	}
	e.Settled("build/bin/list", "build/modules/gemm.float.8.json")
}

func TestExampleMakefile(t *testing.T) {
	t.Parallel()
	e := realExample(t, "makefile")
	e.Need("make")
	e.Run("make", "-j2")
	if got := e.ELFs("app"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	e.Run("./app")
	out, errs := e.Run("make")
	if strings.TrimSpace(errs) != "" || strings.Contains(out, "-o app") {
		t.Errorf("with nothing to do make says %q %q", out, errs)
	}
}

func TestExampleCMake(t *testing.T) {
	t.Parallel()
	e := realExample(t, "cmake")
	e.Need("cmake")
	e.Run(asCMake(t, &e.Project, "cmake", "-B", "build", ".")...)
	e.Run("cmake", "--build", "build")
	if got := e.ELFs("build/app"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	e.Run("build/app")
	if out, _ := e.Run("cmake", "--build", "build"); strings.Contains(out, "Linking") {
		t.Errorf("the second build links:\n%s", out)
	}
}

// clangd takes the compile commands of .cu files.
func TestClangd(t *testing.T) {
	t.Parallel()
	e := realExample(t, "partial-lto")
	clangd, err := exec.LookPath("clangd")
	for n := 30; n > 12 && err != nil; n-- {
		clangd, err = exec.LookPath(fmt.Sprint("clangd-", n))
	}
	if err != nil {
		tooltest.Missing(t, "clangd")
	}
	e.Run("make", "-C", "third_party")
	db, _ := e.Run("kbuild", "compdb")
	e.Write("compile_commands.json", db)
	_, printed := e.Run(clangd, "--check=src/relax.cu")
	if !strings.Contains(printed, "All checks completed, 0 errors") {
		t.Errorf("clangd says:\n%s", printed)
	}
}

func TestExamplePasses(t *testing.T) {
	t.Parallel()
	e := realExample(t, "passes")
	e.Kbuild()
	if got := e.Calls("build/bin/app", "normalise"); strings.Contains(got, "block_sum") {
		t.Errorf("the kernel calls %s", got)
	}
	e.Run("build/bin/app")
	e.Settled("build/bin/app")
	e.Edit("src/main.cu", "#include <cmath>", "// a line\n#include <cmath>")
	e.Ran("a line", "preprocess 3")
	e.Edit("src/main.cu", "x *= 1.0f", "x *= 2.0f")
	e.Ran("for sm_90", "cicc 1, fatbinary 2, host-part 1, host-refs 1, join 1, link 1, nvlink 1, preprocess 3, slice 2")
	e.Ran("sm_86", "cicc 2, fatbinary 3, host-part 1, host-refs 1, join 2, link 1, nvlink 1, preprocess 2, slice 6", "--arch", "sm_80,sm_86,sm_90")
	e.Ran("sm_80 alone", "fatbinary 3, host-part 1, host-refs 1, join 2, link 1, slice 2", "--arch", "sm_80")
}
