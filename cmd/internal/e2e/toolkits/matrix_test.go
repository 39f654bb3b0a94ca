// Package toolkits_test builds with every CUDA toolkit that is there: the one in PATH, and those
// that KBUILD_TEST_CUDA names.
package toolkits_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// matrix is the project of testdata, built by a toolkit.
func matrix(t *testing.T, tk tooltest.Toolkit) e2e.Project {
	t.Helper()
	p := e2e.Unpack(t, "matrix")
	p.Use(tk)
	return p
}

// eachToolkit runs f for the newest toolkit, and in make test-all for every one, two at a time.
func eachToolkit(t *testing.T, f func(t *testing.T, tk tooltest.Toolkit)) {
	t.Parallel()
	list := tooltest.Toolkits(t)
	for _, tk := range list {
		t.Run(tk.Release, func(t *testing.T) {
			t.Parallel()
			if tk != list[len(list)-1] {
				tooltest.Broad(t)
			}
			f(t, tk)
		})
	}
}

// TestMatrix takes every mode of every toolkit apart, and holds it against nvcc as one command,
// another folder, a second build and one more architecture.
func TestMatrix(t *testing.T) {
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		p := matrix(t, tk)
		first := p.Kbuild("-k0", "--require-split")
		if first.Failed+first.Skipped > 0 || first.Ran == 0 {
			t.Fatalf("taken apart: %+v", first)
		}
		if c := p.Kbuild(); c.Up_to_date != c.Actions {
			t.Errorf("again: %+v", c)
		}
		made := products(t, &p)
		if tooltest.All() {
			p.Elsewhere(nil, made...)
		}
		if c := p.Kbuild("-k0", "--no-split", "--build-dir", "plain"); c.Failed+c.Skipped > 0 {
			t.Fatalf("in one piece: %+v", c)
		}
		for _, file := range made {
			sameCode(t, &p, file)
		}
		more := tk.More()
		c := p.Kbuild("--require-split", "--var", `more=["`+more+`"]`)
		if ran := "cicc 5, fatbinary "; !strings.HasPrefix(c.Kinds, ran) {
			t.Errorf("%s more ran %s, want %s", more, c.Kinds, ran)
		}
		if c := p.Kbuild(); c.Ran != 0 {
			t.Errorf("back again: %+v", c)
		}
	})
}

// products are the programs and the artifacts of modules that were built.
func products(t *testing.T, p *e2e.Project) (files []string) {
	t.Helper()
	for _, pattern := range []string{"build/bin/*", "build/modules/*"} {
		found, err := filepath.Glob(filepath.Join(p.Dir, pattern))
		if err != nil || len(found) < 6 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		for _, f := range found {
			files = append(files, strings.TrimPrefix(f, p.Dir+"/"))
		}
	}
	return files
}

// sameCode holds the device code of a file against that of nvcc as one command.
func sameCode(t *testing.T, p *e2e.Project, file string) {
	t.Helper()
	plain := "plain" + strings.TrimPrefix(file, "build")
	same := true
	switch filepath.Ext(file) {
	case ".ltoir": // holds its module id, encrypted
	case ".json":
		same = p.Kernels(file) == p.Kernels(plain)
	case ".ptx":
		ptx := func(name string) string { return e2e.ModuleID.ReplaceAllString(string(p.Read(name)), "<id>") }
		same = ptx(file) == ptx(plain)
	default:
		same = p.DeviceCode(file) == p.DeviceCode(plain)
	}
	if !same {
		t.Errorf("the code of %s differs from nvcc's", file)
	}
}

// TestArithmetic compiles a kernel whole, and for an LTO link: the PTX of both has the instructions
// that the options ask for.
func TestArithmetic(t *testing.T) {
	tooltest.Broad(t)
	options := map[string]string{"ftz": "ftz = true", "fmad": "fmad = false", "div": "prec_div = false"}
	var hcl strings.Builder
	hcl.WriteString("defaults {\n  lto_floats = true\n}\n")
	for name, option := range options {
		fmt.Fprintf(&hcl, "module \"whole-%s\" {\n  sources = [\"k.cu\"]\n  code = [\"compute_80\"]\n  mode = \"whole\"\n  emit = [\"ptx\"]\n  %s\n}\n", name, option)
		fmt.Fprintf(&hcl, "module \"lto-%s\" {\n  sources = [\"k.cu\"]\n  code = [\"sm_80\"]\n  mode = \"lto\"\n  emit = [\"ptx\"]\n  %s\n}\n", name, option)
	}
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		p := e2e.New(t)
		p.Use(tk)
		p.Write("k.cu", "__global__ void k(float *p) { p[0] = (p[1] * p[2] + p[3]) / p[4] + sqrtf(p[5]); }\n")
		p.Write("kernels.hcl", hcl.String())
		p.Kbuild("-k0")
		for name := range options {
			whole, lto := p.Read("build/modules/whole-"+name+".compute_80.ptx"), p.Read("build/modules/lto-"+name+".compute_80.ptx")
			for _, op := range []string{"fma.rn", ".ftz", "mul", "add", "div.rn", "div.approx", "div.full", "sqrt.rn", "sqrt.approx"} {
				if a, b := bytes.Count(whole, []byte(op)), bytes.Count(lto, []byte(op)); a != b {
					t.Errorf("%s: %s is %d times in the code compiled whole, and %d times with LTO", name, op, a, b)
				}
			}
		}
	})
}

// TestArithmeticOfEnvironment has the environment say how code computes, of which a part is
// compiled by nvcc as one command.
func TestArithmeticOfEnvironment(t *testing.T) {
	tooltest.Broad(t)
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		p := e2e.New(t)
		p.Use(tk)
		p.Write("kernel.cu", "__device__ float g(float, float, float);\n__global__ void k(float *p) { p[0] = g(p[1], p[2], p[3]); }\n")
		p.Write("g.cu", "__device__ float g(float a, float b, float c) { return a * b + c; }\n")
		p.Env = append(p.Env, "NVCC_APPEND_FLAGS=-fmad=false")
		p.Write("kernels.hcl", `defaults {
  code = ["sm_80"]
  mode = "lto"
}
library "g" {
  sources = ["g.cu"]
  split   = false
}
module "m" {
  sources = ["kernel.cu"]
  deps    = [library.g]
  emit    = ["ptx"]
}
`)
		p.Kbuild()
		if ptx := p.Read("build/modules/m.compute_80.ptx"); !bytes.Contains(ptx, []byte("mul.rn")) {
			t.Errorf("the multiplication of g.cu is no instruction of its own:\n%s", ptx)
		}
	})
}
