package verify

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// A command whose second output differs is found, and the build tree keeps the first output, of a
// command that writes it in place as well.
func TestRebuild(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		root := t.TempDir()
		state := filepath.Join(root, ".kbuild")
		if err := os.Mkdir(state, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "a.c"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		db, err := tree.Open(filepath.Join(state, "tree.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		defer run.RemoveTemp(filepath.Join(state, "tmp"), "")
		g := &graph.Graph{}
		a := g.Add(&graph.Action{Kind: graph.HostCompile, Name: "a.c", Inputs: []string{"a.c"},
			Outputs: []string{"a.o"}, Depfile: "a.d", Tools: []string{"cc"}, InPlace: inPlace,
			Argv: []string{"sh", "-c", `echo >>count; cat a.c count >"$0"; echo "a.o: a.c" >"$1"`, "a.o", "a.d"}})
		if err := g.Seal(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * cache.FileTick) // or else the first command would run twice
		v := NewRebuild(execute.New(execute.Config{Graph: g, Root: root, State: state, Files: cache.NewFiles(root, nil),
			Listing: cache.NewListing(root), Records: db, Env: os.Environ(), Begun: time.Now().Add(-time.Second)}), t.TempDir())
		if _, done := v.Check(t.Context(), a); done {
			t.Error("an action does not run again")
		}
		if res := v.Execute(t.Context(), a, nil); res.Status == sched.Failed {
			t.Fatal(res.Err)
		}
		n, differ := v.Differences()
		if n != 1 || len(differ) != 1 || !slices.Equal(differ[0].Outputs, []string{"a.o"}) {
			t.Fatalf("checked %d, different: %+v", n, differ)
		}
		for file, want := range map[string]int64{filepath.Join(root, "a.o"): 1, differ[0].Kept[0]: 2} {
			if info, err := os.Stat(file); err != nil || info.Size() != want {
				t.Errorf("%s: %v, %v; want %d bytes", file, info, err, want)
			}
		}
	}
}
