package traced_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// The smallest projects that have each compiler do each kind of work.
var cases = []struct {
	name  string
	tools string // besides nvcc
	args  []string
	files map[string]string
	make  []string // commands that make more files
}{
	{name: "host", files: map[string]string{
		"kernels.hcl": `executable "app" {
  sources  = ["main.cpp"]
  includes = ["first", "inc"]
  lib_dirs = ["libs"]
  libs     = ["thin"]
  deps     = [library.half]
  flags = {
    host = ["-iquote", "quoted", "-include", "forced.h", "@flags.rsp"]
    link = ["-Wl,-Lmore", "-Wl,-lscripted", "@link.rsp"]
  }
}
library "half" {
  sources = ["half.c"]
}
`,
		"main.cpp": `#include "a.h"
#include "q.h"
#if __has_include("there.h") || __has_include(<gone.h>)
#endif
extern "C" int half(int), thin(int);
asm(".section .rodata\n.incbin \"data.bin\"\n.text");
int main() { return half(A) + thin(Q + F + G); }
`,
		"half.c": "int half(int x) { return x / 2; }\n", "inc/a.h": "#define A 1\n", "quoted/q.h": "#define Q 1\n", "inc/forced.h": "#define F 1\n", "first/other.h": "",
		"there.h": "", "data.bin": "x", "flags.rsp": "-DG=1 -isystem late\n", "link.rsp": "-Wl,-z,now -lm\n", "more/libscripted.so": "INPUT(-lm)\n", "libs/thin.c": "int thin(int x) { return x; }\n",
	}, make: []string{"gcc -c libs/thin.c -o libs/thin.o", "ar qcsDT libs/libthin.a libs/thin.o"}},
	{name: "nvcc as one command", args: []string{"--no-split"}, files: map[string]string{
		"kernels.hcl": "executable \"app\" {\n  sources  = [\"src/k.cu\"]\n  includes = [\"inc\"]\n  mode     = \"rdc\"\n  code     = [\"sm_80\"]\n}\n",
		"src/k.cu":    kernel, "inc/a.h": "#define A 1\n", "inc/crt/other.h": "",
	}},
	{name: "device link", files: map[string]string{
		"kernels.hcl": "executable \"app\" {\n  sources  = [\"k.cu\"]\n  includes = [\"inc\"]\n  mode     = \"lto\"\n  code     = [\"sm_80\"]\n}\n", "k.cu": kernel, "inc/a.h": "#define A 1\n",
	}},
	{name: "clang", files: map[string]string{
		"kernels.hcl": "toolchain \"cuda\" {\n  compiler = \"CLANG\"\n}\nlibrary \"l\" {\n  sources  = [\"src/k.cu\"]\n  includes = [\"inc\"]\n  code     = [\"sm_80\"]\n}\n",
		"src/k.cu":    kernel, "inc/a.h": "#define A 1\n",
	}},
	{name: "hipcc", tools: "hipcc", files: map[string]string{
		"kernels.hcl": "executable \"app\" {\n  sources  = [\"src/k.hip\"]\n  includes = [\"inc\"]\n  mode     = \"lto\"\n  code     = [\"gfx906\"]\n}\n",
		"src/k.hip":   "#include <hip/hip_runtime.h>\n" + kernel, "inc/a.h": "#define A 1\n",
	}},
}

const kernel = "#include \"a.h\"\n__global__ void k(float *p) { p[0] = A; }\nint main() { k<<<1, 1>>>(nullptr); }\n"

func TestTraced(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := e2e.New(t)
			p.Need("strace")
			p.Need(strings.Fields(c.tools)...)
			for name, text := range c.files {
				if c.name == "clang" {
					text = strings.ReplaceAll(text, "CLANG", tooltest.ClangCUDA(t))
				}
				p.Run("mkdir", "-p", path.Dir(name))
				p.Write(name, text)
			}
			for _, command := range c.make {
				p.Run(strings.Fields(command)...)
			}
			nothing(t, &p, c.args...)
		})
	}
}

// TestTracedToolkits has NVIDIA's own toolkits, whose nvcc.profile says where the loader looks for
// libraries, compile and link for LTO. A library that lies in the project is none of a compiler's.
func TestTracedToolkits(t *testing.T) {
	tooltest.Broad(t)
	for _, tk := range tooltest.Toolkits(t) {
		t.Run(tk.Release, func(t *testing.T) {
			p := e2e.New(t)
			p.Need("strace")
			p.Use(tk)
			p.Write("kernels.hcl", "executable \"app\" {\n  sources  = [\"k.cu\"]\n  includes = [\"inc\"]\n  mode     = \"lto\"\n  code     = [\"sm_80\"]\n}\n")
			p.Write("k.cu", kernel)
			p.Run("mkdir", "inc")
			p.Write("inc/a.h", "#define A 1\n")
			for _, lib := range []string{"libc.so.6", "libz.so.1", "libnvvm.so"} {
				p.Write(lib, "junk\n")
			}
			nothing(t, &p)
			nothing(t, &p, "--no-split")
			p.Env = append(p.Env, "LD_LIBRARY_PATH=:.:/usr/share:")
			p.Run("kbuild", "--no-cache", "--no-split", "--build-dir", "other")
		})
	}
}

// TestTracedExamples takes all examples, for minutes.
func TestTracedExamples(t *testing.T) {
	if os.Getenv("KBUILD_TRACE_ALL") == "" {
		t.Skip("KBUILD_TRACE_ALL is not set")
	}
	found, err := filepath.Glob("../../../../examples/*/kernels.hcl")
	if err != nil || len(found) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range found {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			p := e2e.Example(t, name)
			p.Need("strace")
			switch name {
			case "partial-lto":
				p.Run("make", "-C", "third_party")
			case "two-vendors":
				p.Need("hipcc")
			}
			nothing(t, &p)
		})
	}
}

// nothing checks that the commands of a project use nothing that no record knows.
func nothing(t *testing.T, p *e2e.Project, args ...string) {
	t.Helper()
	printed, status := p.Status([]string{"HIP_PLATFORM=", "ROCM_PATH="}, append([]string{"kbuild", "-q", "cache", "verify", "--trace"}, args...)...)
	if !regexp.MustCompile(`(?m)^[1-9]\d* commands ran again, 0 paths in no record$`).MatchString(printed) || status != 0 {
		t.Errorf("status %d:\n%s", status, printed)
	}
}
