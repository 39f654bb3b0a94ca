package plan_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// manyTargets are manifests of about n targets, one for each way in which they can stand to each
// other.
var manyTargets = map[string]func(n int) string{
	"libraries":   each(`library "l%[1]d" { sources = ["a.cu"] }`),
	"executables": each(`executable "l%[1]d" { sources = ["a.cu"] }`),
	"host only":   each(`executable "l%[1]d" { sources = ["a.cpp"] }`),
	"modules":     each(`module "l%[1]d" { sources = ["a.cu"] }`),
	"generators": each(`generate "l%[1]d" {
  command = ["true"]
  outputs = ["x.h"]
}`),
	"pairs": each(`library "l%[1]d" { sources = ["a.cu"] }
executable "e%[1]d" {
  sources = ["a.cpp"]
  deps    = [library.l%[1]d]
}`),
	"a chain":                  chain(""),
	"a chain with folders":     chain(`includes = ["inc"]`),
	"a chain with a generator": chain("", "generate.g"),
	"many in one": func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("library.l%d", i))
		}
		return each(`library "l%[1]d" {
  sources = ["a.cu"]
  libs    = ["x%[1]d"]
}`)(n) + fmt.Sprintf("\nexecutable \"e\" {\n sources = [\"a.cpp\"]\n deps = [%s]\n}\n", strings.Join(names, ", "))
	},
	"a matrix": func(n int) string {
		return fmt.Sprintf("module \"m\" {\n sources = [\"a.cu\"]\n matrix = { a = range(%d), b = range(10) }\n embed { symbol = \"m\" }\n}\n", n/10)
	},
}

func each(block string) func(int) string {
	return func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, block+"\n", i)
		}
		return b.String()
	}
}

// chain is of libraries, each of which needs the one before it and deps.
func chain(attrs string, deps ...string) func(int) string {
	return func(n int) string {
		b := strings.Builder{}
		b.WriteString("generate \"g\" {\n command = [\"true\"]\n outputs = [\"g.h\"]\n}\n")
		for i := range n {
			all := deps
			if i > 0 {
				all = append([]string{fmt.Sprintf("library.l%d", i-1)}, deps...)
			}
			fmt.Fprintf(&b, "library \"l%d\" {\n sources = [\"a.cpp\"]\n deps = [%s]\n %s\n}\n", i, strings.Join(all, ", "), attrs)
		}
		return b.String()
	}
}

// Four times the targets take four times the memory, in all that it takes to plan them: what is
// quadratic takes sixteen times as much.
func TestPlanningIsLinear(t *testing.T) {
	const n, most = 150, 5.5
	for name, text := range manyTargets {
		t.Run(name, func(t *testing.T) {
			small, large := planned(t, text(n)), planned(t, text(4*n))
			for i, what := range []string{"allocations of Load", "bytes of Load", "allocations of New", "bytes of New"} {
				if ratio := float64(large[i]) / float64(small[i]); ratio > most {
					t.Errorf("%s: %d and %d, %.1f times as many", what, small[i], large[i], ratio)
				}
			}
		})
	}
}

// planned loads and plans a manifest, and counts what either allocates.
func planned(t *testing.T, text string) [4]uint64 {
	if strings.Contains(text, "a.cu") {
		text = "defaults { code = [\"sm_80\", \"compute_80\"] }\n" + text
	}
	files := fstest.MapFS{"a.cu": {}, "a.cpp": {}, "kernels.hcl": {Data: []byte(text)}}
	var p *manifest.Project
	loads, loaded := allocated(func() {
		var diags manifest.Diagnostics
		if p, diags = manifest.Load(manifest.Options{Dir: t.TempDir(), FS: files}); diags.HasErrors() {
			t.Fatal(diags[0])
		}
	})
	plans, bytes := allocated(func() {
		if made := plan.New(p, usualFacts(), plan.Options{}); made.Graph == nil {
			t.Fatal(made.Diagnostics[0])
		}
	})
	return [4]uint64{loads, loaded, plans, bytes}
}

func allocated(f func()) (count, bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}
