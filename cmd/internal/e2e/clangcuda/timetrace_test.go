package clangcuda_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// The traces of all passes are outputs beside the object.
func TestTimeTrace(t *testing.T) {
	tooltest.Broad(t)
	e := clangProject(t)
	e.Write("kernels.hcl", `toolchain "cuda" {
  compiler      = "`+e.clang+`"
  host_compiler = "`+e.clang+`"
}
library "k" {
  sources = ["k.cu", "u.cpp"]
  code    = ["sm_80", "sm_86"]
  flags   = { clang = ["-ftime-trace"], host = ["-ftime-trace", "-DU"] }
}
`)
	e.Write("k.cu", "__global__ void k(int *p) { *p = 1; }\n")
	e.Write("u.cpp", "int u;\n")
	e.Kbuild()
	traces, _ := filepath.Glob(filepath.Join(e.Dir, "build/obj/library.k/*.json"))
	if len(traces) != 4 {
		t.Fatalf("traces %v", traces)
	}
	for _, name := range traces {
		name, _ = filepath.Rel(e.Dir, name)
		if !bytes.Contains(e.Read(name), []byte("ExecuteCompiler")) {
			t.Errorf("%s is no trace", name)
		}
	}
	if stray, _ := filepath.Glob(filepath.Join(e.Dir, "*.json")); stray != nil {
		t.Errorf("in the project's folder are %v", stray)
	}
	e.Run("kbuild", "cache", "verify", "--rebuild")
}
