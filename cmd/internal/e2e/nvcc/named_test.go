package nvcc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// These tests run with the CUDA toolkit that KBUILD_TEST_CUDA names (the last, if it is a list as PATH is), of 13.2 or newer, beside whatever is
// installed:
//
//	pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl,cuobjdump]==13.5.0'
//	KBUILD_TEST_CUDA=.../site-packages/nvidia/cu13 go test ./cmd/internal/e2e/nvcc -run NamedToolkit

// namedToolkit puts the toolkit before all others.
func namedToolkit(t *testing.T) {
	t.Helper()
	list := os.Getenv("KBUILD_TEST_CUDA")
	tk := list[strings.LastIndex(list, ":")+1:]
	if tk == "" {
		t.Skip("KBUILD_TEST_CUDA names no toolkit")
	}
	for _, tool := range []string{"nvcc", "cuobjdump"} {
		if !e2e.IsExecutable(filepath.Join(tk, "bin", tool)) {
			t.Skipf("the toolkit of KBUILD_TEST_CUDA has no %s", tool)
		}
	}
	t.Setenv("CUDA_HOME", tk)
	t.Setenv("PATH", filepath.Join(tk, "bin")+":"+os.Getenv("PATH"))
}

// TestNamedToolkitChecksPTX ships PTX that ptxas refuses: nvcc does not make it, and neither does
// kbuild.
func TestNamedToolkitChecksPTX(t *testing.T) {
	namedToolkit(t)
	e := example{e2e.New(t)}
	e.Write("m.cu", "__global__ void k() { asm volatile(\"no_such_instruction;\"); }\n")
	e.Write("kernels.hcl", `module "m" {
  sources = ["m.cu"]
  code    = ["compute_90"]
  mode    = "whole"
  emit    = ["ptx", "fatbin"]
}
`)
	for _, args := range [][]string{{"-k0"}, {"-k0", "--no-split"}} {
		if _, printed, status := e.Fails(args...); status != e2e.ExitFailed || !strings.Contains(printed, "Not a name of any known instruction") {
			t.Errorf("%v: %d\n%s", args, status, printed)
		}
	}
	e.Edit("m.cu", "no_such_instruction;", "")
	if c := e.Kbuild(); c.Failed != 0 {
		t.Errorf("mended: %+v", c)
	}
	if kernels := e.Kernels("build/modules/m.json"); strings.Count(kernels, `"_Z1kv"`) != 2 {
		t.Errorf("its manifest says %s", kernels)
	}
}

// TestNamedToolkitOptions compiles with each option that changes a step: nvcc is taken apart, and
// the machine code is what it is otherwise.
func TestNamedToolkitOptions(t *testing.T) {
	tooltest.Broad(t)
	namedToolkit(t)
	e := example{e2e.New(t)}
	help, _ := e.Run("nvcc", "--help")
	e.Write("k.cu", "__device__ float g(float x) { return x * x + 1 / x; }\n__global__ void k(float *p) { p[threadIdx.x] = g(p[threadIdx.x]) / 3; }\n")
	var text strings.Builder
	var objects []string
	for i, option := range []string{"--extensible-whole-program", "--split-compile=4", "--Ofast-compile=min", "--frandom-seed=7", "--compress-mode=size",
		"--compress-mode=none", "--jobserver", "--static-global-template-stub=false", "--device-entity-has-hidden-visibility=false",
		"--skip-ptx-semantics-check", "--safety-compatibility", "--fdevice-sanitize=memcheck", "--concat", "--utf-8", "--threads=2"} {
		if name, _, _ := strings.Cut(option, "="); !strings.Contains(help, name+" ") {
			continue
		}
		fmt.Fprintf(&text, "library \"l%d\" {\n  sources = [\"k.cu\"]\n  mode = \"whole\"\n  code = [\"sm_80\", \"compute_90\"]\n  flags = { nvcc = [%q] }\n}\n", i, option)
		objects = append(objects, fmt.Sprintf("/obj/library.l%d/k.cu.o", i))
	}
	e.Write("kernels.hcl", text.String())
	e.Kbuild("--require-split")
	e.Kbuild("--no-split", "--build-dir", "plain")
	for _, o := range objects {
		if e.DeviceCode("build"+o) != e.DeviceCode("plain"+o) {
			t.Errorf("the code of %s differs from nvcc's", o)
		}
	}
}

// TestNamedToolkitTile takes tile code apart: the object has a second fatbin, as nvcc's.
func TestNamedToolkitTile(t *testing.T) {
	tooltest.Broad(t)
	namedToolkit(t)
	if !e2e.IsExecutable(filepath.Join(os.Getenv("CUDA_HOME"), "bin/tileiras")) {
		t.Skip("the toolkit of KBUILD_TEST_CUDA has no tileiras")
	}
	e := example{e2e.New(t)}
	e.Write("a.cu", `#include <cuda_tile.h>
__global__ void simt(int *p) { *p = 3; }
__tile_global__ void tile(int *) { (void)cuda::tiles::bid().x; }
int main() { simt<<<1, 1>>>(nullptr); tile<<<1, 1>>>(nullptr); }
`)
	e.Write("kernels.hcl", `executable "a" {
  sources = ["a.cu"]
  std     = "c++20"
  mode    = "whole"
  code    = ["sm_80", "sm_100"]
  flags   = { nvcc = ["-enable-tile"] }
}
`)
	const want = "cicc 2, cudafe++ 1, fatbinary 2, host-part 1, link 1, preprocess 3, ptxas 2, tileiras 2"
	if c := e.Kbuild("--require-split"); c.Kinds != want {
		t.Errorf("it ran %s, want %s", c.Kinds, want)
	}
	e.Kbuild("--no-split", "--build-dir", "plain")
	if e.DeviceCode("build/bin/a") != e.DeviceCode("plain/bin/a") {
		t.Error("the code differs from nvcc's")
	}
	e.Edit("a.cu", "<cuda_tile.h>\n", "<cuda_tile.h>\n// A comment.\n")
	if c := e.Kbuild(); c.Kinds != "preprocess 3" {
		t.Errorf("for a comment it ran %s", c.Kinds)
	}
	e.Edit("kernels.hcl", `"sm_100"`, `"sm_100", "sm_120"`)
	if c := e.Kbuild(); !strings.Contains(c.Kinds, "tileiras 1") {
		t.Errorf("for another architecture it ran %s", c.Kinds)
	}
}
