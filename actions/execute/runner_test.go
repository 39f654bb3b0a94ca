package execute

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/graph"
)

// passes returns a project whose header gets into an object through a transient text and an
// intermediate file.
func passes(t *testing.T) *lab {
	l := newLab(t, "")
	l.graph = &graph.Graph{BuildDir: "build"}
	sh := func(a graph.Action, script string, args ...string) {
		a.Tools, a.Argv, a.Name = []string{"cc"}, append([]string{"sh", "-c", script}, args...), a.Outputs[0]
		l.graph.Add(&a)
	}
	sh(graph.Action{Kind: graph.Preprocess, Intermediate: true, Transient: true, Inputs: []string{"a.cu"}, Outputs: []string{"build/p/a.ii"}, Depfile: "build/p/a.d"},
		`cat a.cu a.h >"$0"; echo "x: a.cu a.h" >"$1"; echo >>ran`, "build/p/a.ii", "build/p/a.d")
	sh(graph.Action{Kind: graph.CICC, Intermediate: true, Inputs: []string{"build/p/a.ii"}, Outputs: []string{"build/p/a.ptx"}},
		`grep -v ^// "$1" >"$0"; echo a warning; echo >>ran`, "build/p/a.ptx", "build/p/a.ii")
	sh(graph.Action{Kind: graph.PTXAS, Inputs: []string{"build/p/a.ptx"}, Outputs: []string{"build/a.cubin"}},
		`cp "$1" "$0"; echo >>ran`, "build/a.cubin", "build/p/a.ptx")
	if err := l.graph.Seal(); err != nil {
		t.Fatal(err)
	}
	l.write("a.cu", "// a comment\ncode\n")
	l.write("a.h", "header\n")
	return l
}

// all runs all actions in order, and returns their states and how many commands ran.
func (l *lab) all(r sched.Runner) (states string, ran int) {
	l.t.Helper()
	os.Remove(filepath.Join(l.root, "ran"))
	var all []string
	for _, a := range l.graph.Actions {
		res, settled := r.Check(l.t.Context(), a)
		if !settled {
			res = r.Execute(l.t.Context(), a, nil)
		}
		if res.Status == sched.Failed {
			l.t.Fatal(res.Err)
		}
		all = append(all, string(res.Status))
	}
	text, _ := os.ReadFile(filepath.Join(l.root, "ran"))
	return strings.Join(all, " "), len(text)
}

type noBundles struct{}

func (noBundles) Record(string) *cache.Record { return nil }

func TestRunner(t *testing.T) {
	l := passes(t)
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cached := func() *Runner {
		r := l.lateRunner()
		c := r.Config
		c.Store, c.IntermediateStore = store, store
		late := New(c)
		late.Begun = r.Begun
		return late
	}
	step := func(what string, r sched.Runner, want string, wantRan int) {
		t.Helper()
		if states, ran := l.all(r); states != want || ran != wantRan {
			t.Errorf("%s: %s, %d commands; want %s, %d", what, states, ran, want, wantRan)
		}
	}
	step("a dry run", NewDryRun(cached()), "ran ran ran", 0)
	first := cached()
	step("the first build", first, "ran ran ran", 3)
	if names, _ := filepath.Glob(filepath.Join(l.root, "build/p/*")); names != nil {
		t.Errorf("what nobody reads any more is there: %q", names)
	}
	step("nothing to do", cached(), "up_to_date up_to_date up_to_date", 0)

	os.Remove(filepath.Join(l.root, "build/a.cubin"))
	step("a dry run without the output", NewDryRun(cached()), "up_to_date up_to_date cached", 0)
	again := cached()
	step("the output is gone", again, "up_to_date up_to_date cached", 0)
	if c := again.Counters(); c.Direct+c.Stage != 1 {
		t.Errorf("counted %+v", c)
	}
	l.write("a.cu", "// another comment\ncode\n")
	step("a comment", cached(), "ran ran up_to_date", 2)
	l.write("a.cu", "// another comment\nother code\n")
	why := NewDryRun(cached()).Explain([]graph.ActionID{0, 1}, noBundles{})
	if !slices.Equal(why[0].Why, []string{"a.cu changed"}) || !slices.Equal(why[1].Why, []string{"build/p/a.ii would be built first"}) {
		t.Errorf("explained: %+v", why)
	}
	if held := NewDryRun(cached()).Entries(t.Context(), []graph.ActionID{0}); held[0].Record != nil {
		t.Error("the cache has what was not built")
	}
	step("code", cached(), "ran ran ran", 3)

	// A file between passes that no cache has is built again on demand.
	r := l.lateRunner()
	l.all(r)
	if err := r.CopyIntermediate(t.Context(), "build/p/a.ii", filepath.Join(l.root, "copy")); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(filepath.Join(l.root, "copy")); !strings.Contains(string(text), "other code") {
		t.Errorf("copied %q", text)
	}
}
