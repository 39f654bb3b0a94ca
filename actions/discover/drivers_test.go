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
	return Tree{Root: root, Listing: cache.NewListing(root), Digest: func(file string) (cache.Digest, error) {
		return cache.DigestFile(cache.Absolute(root, file))
	}}
}

// A compiler is asked once where it searches, for all actions whose flags decide alike; and again
// when a folder came that was missing.
func TestSearchesAreAskedOnce(t *testing.T) {
	tree := project(t, "inc/a.h")
	var asked []string
	d := drivers{tree: tree, ask: func(_ context.Context, _ *graph.Action, argv []string, quiet bool) (string, bool) {
		asked = append(asked, strings.Join(argv, " "))
		missing := "ignoring nonexistent directory \"late\"\n"
		if tree.isFolder("late") {
			missing = ""
		}
		return missing + "#include \"...\" search starts here:\n#include <...> search starts here:\n " + tree.Root + "/inc\nEnd of search list.\n", quiet
	}}
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
	if ask("c.cpp", "-Iother"); len(asked) != 2 {
		t.Errorf("asked %q, want two questions", asked)
	}
	if err := os.Mkdir(filepath.Join(tree.Root, "late"), 0o777); err != nil {
		t.Fatal(err)
	}
	tree.Listing.Forget(tree.Root)
	if ask("a.cpp", "-Iinc"); len(asked) != 3 {
		t.Errorf("asked %d times, want once more after the folder came", len(asked))
	}
}
