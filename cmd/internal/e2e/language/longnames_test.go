package language_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// What compilers build alone, kbuild builds: names of 255 bytes, but for the endings that nvcc (205
// to 216) and hipcc (237) give to their temporary files; folders so deep that a path has almost
// 4096.
func TestLongNames(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	long := func(begin string, length int, ending string) string {
		return begin + strings.Repeat("x", length-len(begin)-len(ending)) + ending
	}
	list := tooltest.Toolkits(t)
	for _, tk := range []tooltest.Toolkit{list[0], list[len(list)-1]} {
		p := e2e.New(t)
		p.Use(tk)
		deep := strings.Repeat(long("", 250, "/"), 14)
		program, library, c, kernel, inner := long("", 255, ""), long("", 250, ""), long("c", 255, ".c"), long("k", 209, ".cu"), deep+long("i", 209, ".cpp")
		p.Write("kernels.hcl", fmt.Sprintf(`defaults {
  code = ["sm_80", "sm_90"]
  mode = "lto"
}

library %q {
  sources = [%q, %q]
}

executable %q {
  sources = [%q]
  deps    = [library.%s]
}
`, library, c, long("f", 209, ".cu"), program, kernel, library))
		p.Write(c, "int c(void) { return 0; }\n")
		p.Write(long("f", 209, ".cu"), "__device__ int f() { return 1; }\n")
		p.Write(kernel, "__device__ int f();\n__global__ void k(int *p) { *p = f(); }\nextern \"C\" int c(void);\nint main() { return c(); }\n")
		p.Kbuild("--require-split")
		p.Run("build/bin/" + program)
		p.Settled("build/bin/"+program, "build/lib/lib"+library+".a")
		p.Kbuild("--no-split", "--build-dir", "whole")
		for range 2 {
			p.Run("kbuild", "cc", "nvcc", "-arch=sm_80", "-dc", kernel, "-o", long("o", 255, ".o"))
			p.Run("rm", long("o", 255, ".o"))
		}
		p.Run("mkdir", "-p", deep)
		p.Write(inner, "int main() {}\n")
		p.Write("kernels.hcl", fmt.Sprintf("executable \"m\" {\n  sources = [%q]\n}\n", inner))
		p.Kbuild()
		p.Run("rm", "-r", "kernels.hcl", strings.Split(deep, "/")[0])
		p.Run("kbuild", "init")
		p.Kbuild()
		if list[0] == list[len(list)-1] {
			break
		}
	}
}
