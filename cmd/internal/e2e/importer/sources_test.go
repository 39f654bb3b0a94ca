package importer_test

import (
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// TestTraps builds a tree in which each source is a trap of its own: it compiles in one way only,
// or not at all.
func TestTraps(t *testing.T) {
	t.Parallel()
	p := e2e.Unpack(t, "traps")
	p.Use(tooltest.Toolkit{})
	p.Need("hipcc")
	_, printed := p.Run("kbuild", "init")
	for _, want := range []string{"<no/such/window.h> was not found: outside/window.cu", "src/steps.cu"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not said: %s", want, printed)
		}
	}
	if c := p.Kbuild(); c.Failed != 0 {
		t.Errorf("%+v", c)
	}
	if out, _ := p.Run("build/bin/show"); out != "1 4\n" {
		t.Errorf("show says %q", out)
	}
	for _, name := range []string{"runtime", "speed"} {
		p.Run("build/bin/" + name)
	}
	if got := p.ELFs("build/bin/show"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	text := string(p.Read("kernels.hcl"))
	for _, want := range []string{
		"# Needs <no/such/window.h>, not found: outside/window.cu:1.\nexecutable \"window\"",
		"# at of src/ray.cu is named in src/trace.cu.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q:\n%s", want, text)
		}
	}
	p.Run("kbuild", "fmt", "--check")
	if c := p.Kbuild(); c.Ran != 0 {
		t.Errorf("again: %+v", c)
	}
}

const makefile = `NVCC = nvcc
FLAGS := -O2 -gencode arch=compute_80,code=sm_80
run: app
	./app > out
app: main.o libk.a
	$(NVCC) $(FLAGS) -rdc=true -o $@ main.o -L. -lk -lm
libk.a: one.o two.o
	ar rcs $@ $^
%.o: %.cu
	$(NVCC) $(FLAGS) -dc -DN=3 -c $< -o $@
main.o: main.cpp
	$(NVCC) -std=c++14 -Xcompiler -Wall -c $< -o $@
`

// TestMake builds a project by make, and by kbuild from the commands that make prints: the device
// code is equal.
func TestMake(t *testing.T) {
	t.Parallel()
	p := e2e.Bare(t)
	p.Use(tooltest.Toolkit{})
	p.Need("make", "nvcc")
	p.Write("Makefile", makefile)
	p.Write("k.h", "void launch();\n")
	p.Write("main.cpp", "#include \"k.h\"\nint main() { launch(); }\n")
	p.Write("one.cu", "extern __device__ int f(int);\n__global__ void k(int *p) { *p = f(N); }\n#include \"k.h\"\nvoid launch() { k<<<1, 1>>>(nullptr); }\n")
	p.Write("two.cu", "__device__ int f(int x) { return x * N; }\n")
	_, printed := p.Run("kbuild", "init")
	if strings.Count(printed, "not carried over") != 1 || !strings.Contains(printed, "what app does") || !strings.Contains(printed, "1 program, 1 library") {
		t.Errorf("kbuild prints %s", printed)
	}
	p.Run("kbuild")
	p.Run("make", "app")
	p.Run("mkdir", "by make")
	p.Run("mv", "app", "by make/app")
	compare(t, p, "by make", "app", "build/bin/app")
}
