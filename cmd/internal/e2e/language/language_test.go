// Package language_test builds what the manifest language can say, with every CUDA toolkit that is there: the sources check how they are compiled.
package language_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// eachToolkit runs f with a project of testdata, for every toolkit.
func eachToolkit(t *testing.T, name string, f func(p *e2e.Project)) {
	t.Parallel()
	for _, tk := range tooltest.Toolkits(t) {
		t.Run(tk.Release, func(t *testing.T) {
			t.Parallel()
			p := e2e.Unpack(t, name)
			p.Use(tk)
			f(&p)
		})
	}
}

func TestPartitions(t *testing.T) {
	eachToolkit(t, "partitions", func(p *e2e.Project) {
		p.Kbuild("--require-split")
		p.Run("build/bin/bench")
		p.Settled("build/lib/libops.a", "build/bin/bench")
		holds := func(dir, a, hopper string) {
			p.T.Helper()
			for object, want := range map[string]string{"a.cu.o": a, "hopper.cu.o": hopper} {
				if got := p.ELFs(dir + "/obj/library.ops/src/" + object); got != want {
					p.T.Errorf("%s of %s holds %s, want %s", object, dir, got, want)
				}
			}
		}
		holds("build", "sm_80 sm_90", "sm_90")
		p.Kbuild("--arch", "sm_80", "--build-dir", "ampere")
		holds("ampere", "sm_80", "sm_90")
		p.Edit("include/hopper/which.h", "90", "91")
		if _, said, status := p.Fails(); status != 1 || !strings.Contains(said, "src/hopper.cu") || strings.Contains(said, "FAILED src/a.cu") {
			p.T.Errorf("status %d: %s", status, said)
		}
	})
}

func TestForEach(t *testing.T) {
	eachToolkit(t, "each", func(p *e2e.Project) {
		p.Kbuild("perf:copy")
		if _, err := os.Stat(filepath.Join(p.Dir, "build/bin/scale_perf")); err == nil {
			p.T.Error("perf:copy builds perf:scale")
		}
		p.Kbuild("perf")
		p.Settled("build/bin/copy_perf", "build/bin/scale_perf")
		for name, kernel := range map[string]string{"copy": "_Z4copyPiPKi", "scale": "_Z5scalePiPKi"} {
			if got := p.Functions("build/bin/" + name + "_perf"); !slices.Equal(got, []string{kernel}) {
				p.T.Errorf("%s has the kernels %q", name, got)
			}
		}
		if _, _, status := p.Fails("run", "perf:scale"); status != 3 {
			p.T.Errorf("perf:scale ends with status %d", status)
		}
		if _, said, status := p.Fails("test"); status != 1 || !strings.Contains(said, "FAILED test scale: exit status 3") || !strings.Contains(said, "1 passed, 1 failed") {
			p.T.Errorf("status %d: %s", status, said)
		}
		p.Edit("scale.cu", "2 *", "4 *")
		if c := p.Kbuild("perf:copy"); c.Ran > 0 {
			p.T.Errorf("an edit of scale.cu runs %s for copy", c.Kinds)
		}
	})
}
