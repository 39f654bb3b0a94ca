package toolkits_test

import (
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// TestCommas has values and names that nvcc, fatbinary, the linker or a shell would take apart: in
// macros of both compilers, folders, sources, objects, the build tree and the rpath of a library.
func TestCommas(t *testing.T) {
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		p := matrix(t, tk)
		const value = `"a,b [c] $d ` + "`e`" + ` \\ \" 'f' {g;h}"`
		p.Write("kernels.hcl", `prebuilt "twelve" {
  shared = "l,ib/libtwelve.so"
}
executable "app" {
  sources  = ["k,1.cu", "m,2.cpp"]
  code     = ["sm_90"]
  mode     = "lto"
  includes = ["in,c[1]"]
  deps     = [prebuilt.twelve]
  defines  = { TEXT = "`+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "${", "$${").Replace(value)+`" }
  flags    = { host = ["-Dtwice(a,b)=a + b"] }
}
module "mod" {
  sources = ["m,3.cu"]
  code    = ["lto_90"]
  emit    = ["fatbin", "ltoir"]
}
`)
		p.Run("mkdir", "in,c[1]", "l,ib")
		p.Write("in,c[1]/text.h", "#define LENGTH (twice(1, 1) / 2 * sizeof(TEXT))\n")
		p.Write("k,1.cu", `#include <text.h>
__global__ void k(int *p) { *p = LENGTH; }
const char *text() { k<<<1, 1>>>(nullptr); return TEXT; }
`)
		p.Write("m,2.cpp", `#include <cstdio>
extern "C" int twelve();
const char *text();
int main() { printf("%s%s%d", TEXT, text(), twelve()); }
`)
		p.Write("m,3.cu", "__global__ void k(int *p) { *p = 3; }\n")
		p.Write("twelve.c", "int twelve() { return 12; }\n")
		p.Run("gcc", "-shared", "-fPIC", "-o", "l,ib/libtwelve.so", "twelve.c")
		p.Kbuild("--require-split", "--build-dir", "out,1")
		want := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(strings.Trim(value, `"`))
		if got, _ := p.Run("out,1/bin/app"); got != want+want+"12" {
			t.Errorf("it says %s, want %s twice and 12", got, want)
		}
	})
}
