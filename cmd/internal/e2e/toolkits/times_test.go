package toolkits_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// TestTimes has nvcc write how long its steps took: the files are outputs, which the cache restores
// and a second run need not repeat.
func TestTimes(t *testing.T) {
	tooltest.Broad(t)
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		p := matrix(t, tk)
		flags, files := `"--time", "t.csv"`, []string{"t.csv"}
		if tk.Root != "" {
			flags += `, "-fdevice-time-trace", "times/x.json"`
			files = append(files, "times/x.json")
		}
		p.Write("a.cu", "__global__ void k(int *p) { *p = 1; }\n")
		p.Write("b.cu", "__global__ void k(int *p) { *p = 2; }\n")
		manifest := func(sources, flags string) {
			p.Write("kernels.hcl", `library "k" {
  sources = [`+sources+`]
  code    = ["sm_80", "sm_90"]
  flags   = { nvcc = [`+flags+`] }
}
`)
		}
		manifest(`"a.cu"`, flags)
		p.Kbuild()
		p.Run("kbuild", "cache", "verify", "--rebuild")
		for _, f := range files {
			first := p.Read(f)
			if err := os.Remove(filepath.Join(p.Dir, f)); err != nil {
				t.Fatal(err)
			}
			p.Kbuild()
			if again := p.Read(f); len(first) == 0 || string(again) != string(first) {
				t.Errorf("%s: %d bytes, restored %d", f, len(first), len(again))
			}
		}
		manifest(`"a.cu", "b.cu"`, `"--time=out/t.csv"`)
		p.Kbuild()
		p.Read("build/obj/library.k/a.cu.o.t.csv")
		p.Read("build/obj/library.k/b.cu.o.t.csv")
	})
}
