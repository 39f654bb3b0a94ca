package discover

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// project is a folder with files that hold their own names.
func project(t *testing.T, files ...string) Tree {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		name := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		writeFile(t, name, f)
	}
	return Tree{Build: &testBuild{root: root}, Root: root, Listing: cache.NewListing(root)}
}

// testBuild is a build whose queries print answer.
type testBuild struct {
	root         string
	output       string // is written by an action
	intermediate string // the same, for another action
	answer       string
	queries      []string
}

func (b *testBuild) IsOutput(file string) bool       { return file == b.output }
func (b *testBuild) IsIntermediate(file string) bool { return file == b.intermediate }

func (b *testBuild) Digest(file string) (cache.Digest, error) {
	return cache.DigestFile(cache.Absolute(b.root, file))
}

func (b *testBuild) Query(_ context.Context, _ *graph.Action, argv []string, quiet bool) (string, bool) {
	b.queries = append(b.queries, strings.Join(argv, " "))
	return b.answer, quiet
}

// A compiler is asked once where it searches, for all actions whose flags decide alike; and again
// when a folder came that was missing.
func TestSearchesAreAskedOnce(t *testing.T) {
	tree := project(t, "inc/a.h")
	b := tree.Build.(*testBuild)
	list := "#include \"...\" search starts here:\n#include <...> search starts here:\n " + tree.Root + "/inc\nEnd of search list.\n"
	b.answer = "ignoring nonexistent directory \"late\"\n" + list
	d := drivers{Config: Config{Tree: tree}}
	ask := func(name, flag string) []string {
		t.Helper()
		a := &graph.Action{Kind: graph.HostCompile, Tools: []string{"cxx"}, Inputs: []string{name}, Outputs: []string{name + ".o"}, Argv: []string{"g++", flag, "-o", name + ".o", name}}
		lists, ok := d.searches(t.Context(), a)
		if !ok || len(lists) != 1 {
			t.Fatalf("no answer: %v", lists)
		}
		return lists[0].Dirs
	}
	for _, dirs := range [][]string{ask("a.cpp", "-Iinc"), ask("b.cpp", "-Iinc")} {
		if !slices.Equal(dirs, []string{"inc"}) {
			t.Errorf("it searches %q", dirs)
		}
	}
	if ask("c.cpp", "-Iother"); len(b.queries) != 2 {
		t.Errorf("asked %q, want two questions", b.queries)
	}
	if err := os.Mkdir(filepath.Join(tree.Root, "late"), 0o777); err != nil {
		t.Fatal(err)
	}
	tree.Listing.Forget(tree.Root)
	b.answer = list
	if ask("a.cpp", "-Iinc"); len(b.queries) != 3 {
		t.Errorf("asked %d times, want once more after the folder came", len(b.queries))
	}
}
