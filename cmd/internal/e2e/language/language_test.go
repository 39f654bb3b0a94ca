// Package language_test builds what the manifest language can say, with every CUDA toolkit that is
// there: the sources check how they are compiled.
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

// eachToolkit runs f with a project of testdata, for every toolkit in make test-all: the language
// is the same for all.
func eachToolkit(t *testing.T, name string, f func(p *e2e.Project)) {
	t.Parallel()
	for i, tk := range tooltest.Toolkits(t) {
		t.Run(tk.Release, func(t *testing.T) {
			if i > 0 {
				tooltest.Broad(t)
			}
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
		if _, printed, status := p.Fails(); status != 1 || !strings.Contains(printed, "src/hopper.cu") || strings.Contains(printed, "FAILED src/a.cu") {
			p.T.Errorf("status %d: %s", status, printed)
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
		p.Kbuild()
		p.Settled("build/bin/copy_perf", "build/bin/scale_perf", "build/bin/numbers", "build/lib/libtwo.a")
		p.Run("build/bin/numbers")
		for name, kernel := range map[string]string{"copy": "_Z4copyPiPKi", "scale": "_Z5scalePiPKi"} {
			if got := p.Functions("build/bin/" + name + "_perf"); !slices.Equal(got, []string{kernel}) {
				p.T.Errorf("%s has the kernels %q", name, got)
			}
		}
		if _, _, status := p.Fails("run", "perf:scale"); status != 3 {
			p.T.Errorf("perf:scale ends with status %d", status)
		}
		if _, printed, status := p.Fails("test"); status != 1 || !strings.Contains(printed, "FAILED test each:scale: exit status 3") || !strings.Contains(printed, "3 passed, 1 failed") {
			p.T.Errorf("status %d: %s", status, printed)
		}
		if _, printed, _ := p.Fails("test", "each"); !strings.Contains(printed, "1 passed (1 before), 1 failed") {
			p.T.Errorf("test each: %s", printed)
		}
		p.Edit("scale.cu", "2 *", "4 *")
		if c := p.Kbuild("perf:copy"); c.Ran > 0 {
			p.T.Errorf("an edit of scale.cu runs %s for copy", c.Kinds)
		}
	})
}

func TestImports(t *testing.T) {
	eachToolkit(t, "imports", func(p *e2e.Project) {
		p.Kbuild("math/vec")
		if _, err := os.Stat(filepath.Join(p.Dir, "build/lib/io")); err == nil {
			p.T.Error("math/vec builds io/vec")
		}
		p.Kbuild()
		p.Settled("build/bin/app", "build/bin/math/calc", "build/bin/io/one", "build/bin/io/two", "build/lib/math/libvec.a", "build/lib/io/libvec.so")
		p.Run("build/bin/app")
		p.Run("build/bin/io/one")
		if got := p.ELFs("build/modules/math@deep@gemm.sm_86.cubin"); got != "sm_86" {
			p.T.Errorf("the cubin holds %s", got)
		}
		p.Kbuild("test")

		// Its own folder alone: other settings, another build folder.
		p.Kbuild("-C", "math", "app")
		p.Run("math/build/bin/calc")
		p.Kbuild()

		// What an imported manifest says, and what its glob finds, is looked at again.
		p.Edit("math/kernels.hcl", "output_name = \"calc\"", "output_name = \"sum\"")
		p.Edit("math/src/vec.cpp", "int table();", "int table();\nint more();")
		p.Edit("math/src/vec.cpp", "SCALE + table()", "SCALE + table() + more()")
		if err := os.WriteFile(filepath.Join(p.Dir, "math/src/more.cpp"), []byte("int more() { return 0; }\n"), 0o666); err != nil {
			p.T.Fatal(err)
		}
		p.Kbuild()
		p.Run("build/bin/math/sum")
		if _, err := os.Stat(filepath.Join(p.Dir, "build/bin/math/calc")); err == nil {
			p.T.Error("bin/math/calc, which nothing makes any more, is still there")
		}
		p.Edit("math/kernels.hcl", "library.vec, generate.tables]", "library.vex, generate.tables]")
		if _, printed, status := p.Fails(); status != 2 || !strings.Contains(printed, "--> math/kernels.hcl:") {
			p.T.Errorf("status %d: %s", status, printed)
		}
	})
}
