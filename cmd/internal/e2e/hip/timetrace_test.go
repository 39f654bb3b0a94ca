package hip_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// The traces of all passes are outputs, which the cache restores and a second run need not repeat.
func TestTimeTrace(t *testing.T) {
	tooltest.Broad(t)
	e := hipProject(t)
	for _, mode := range []string{"whole", "rdc"} {
		e.Write("kernels.hcl", `library "k" {
  sources = ["k.hip"]
  code    = ["gfx908", "gfx90a:xnack+"]
  mode    = "`+mode+`"
  flags   = { hip = ["-ftime-trace"] }
}
`)
		e.Write("k.hip", "#include <hip/hip_runtime.h>\n__global__ void k(int *p) { *p = 1; }\n")
		e.Kbuild()
		traces, _ := filepath.Glob(filepath.Join(e.Dir, "build/obj/library.k/*.json"))
		if len(traces) != 3 {
			t.Fatalf("%s: traces %v", mode, traces)
		}
		for _, name := range traces {
			if text, err := os.ReadFile(name); err != nil || !bytes.Contains(text, []byte("ExecuteCompiler")) {
				t.Errorf("%s: %s is no trace (%d bytes, %v)", mode, name, len(text), err)
			}
		}
		e.Run("kbuild", "cache", "verify", "--rebuild")
		if err := os.RemoveAll(filepath.Join(e.Dir, "build")); err != nil {
			t.Fatal(err)
		}
		e.Kbuild()
		if again, _ := filepath.Glob(filepath.Join(e.Dir, "build/obj/library.k/*.json")); len(again) != 3 {
			t.Errorf("%s: restored %v", mode, again)
		}
	}
}
