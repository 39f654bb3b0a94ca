package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
)

// What --keep has put into its folder goes, and nothing else, also where a folder has become a
// link.
func TestRemoveKept(t *testing.T) {
	dir := t.TempDir()
	mine := []string{"build/keep/executable.app/a.sass", "build/keep/library.k/k.ptx"}
	others := []string{"build/keep/notes", "build/keep/library.k/notes", "build/bin/app", "elsewhere/b.ptx"}
	for _, f := range append(mine, others...) {
		write(t, filepath.Join(dir, f), f)
	}
	if err := os.Symlink("../../elsewhere", filepath.Join(dir, "build/keep/link")); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "build/.kbuild")
	kept := func(names ...string) {
		list := outputList{Outputs: map[string]string{}}
		for _, name := range names {
			list.Outputs["build/keep/"+name] = name
		}
		write(t, filepath.Join(state, keptList), string(list.encode()))
	}
	kept("executable.app/a.sass", "library.k/k.ptx", "library.k/gone.ptx")
	if err := removeKept(state); err != nil {
		t.Fatal(err)
	}
	kept("link/b.ptx")
	if err := removeKept(state); err == nil {
		t.Error("a link was followed out of the build tree")
	}
	for _, f := range append(mine, "build/keep/executable.app") {
		if cache.Exists(filepath.Join(dir, f)) {
			t.Errorf("%s is there", f)
		}
	}
	for _, f := range others {
		if !cache.Exists(filepath.Join(dir, f)) {
			t.Errorf("%s is gone", f)
		}
	}
}
