package nvcc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// TestNamedToolkitEqualsNVCC builds examples with the toolkit taken apart and in one piece.
func TestNamedToolkitEqualsNVCC(t *testing.T) {
	namedToolkit(t)
	for name, want := range map[string]string{
		"lto":     "cicc 4, cudafe++ 2, fatbinary 3, host-part 3, host-refs 1, join 2, link 1, nvlink 2, preprocess 6, slice 4",
		"modules": "cicc ", // how many depends on what artifacts share
	} {
		e := realExample(t, name)
		if c := e.Kbuild(); !strings.HasPrefix(c.Kinds, want) || strings.Contains(c.Kinds, "emit") {
			t.Errorf("%s ran %s, want %s", name, c.Kinds, want)
		}
		if c := e.Kbuild(); c.Up_to_date != c.Actions {
			t.Errorf("%s again: %+v", name, c)
		}
		e.Kbuild("--no-split", "--build-dir", "plain")
		for _, pattern := range []string{"bin/*", "modules/*.cubin", "modules/*.ptx"} {
			files, _ := filepath.Glob(filepath.Join(e.Dir, "build", pattern))
			for _, f := range files {
				file := strings.TrimPrefix(f, e.Dir+"/build/")
				switch {
				case filepath.Ext(f) == ".ptx" && string(e.Read("build/"+file)) != string(e.Read("plain/"+file)):
					t.Errorf("%s: %s differs from nvcc's", name, file)
				case filepath.Ext(f) != ".ptx" && e.DeviceCode("build/"+file) != e.DeviceCode("plain/"+file):
					t.Errorf("%s: the code of %s differs from nvcc's", name, file)
				}
			}
		}
	}
}

// TestNamedToolkitChecksPTX ships PTX that ptxas refuses: nvcc does not make it, and neither does kbuild.
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
		if _, said, status := e.Fails(args...); status != e2e.ExitFailed || !strings.Contains(said, "Not a name of any known instruction") {
			t.Errorf("%v: %d\n%s", args, status, said)
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
