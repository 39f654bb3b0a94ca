package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A folder that two paths lead to is one to the kernel: who watches by either is told.
func TestFolderOfTwoPaths(t *testing.T) {
	dir := t.TempDir()
	events, err := watchFolders()
	if err != nil {
		t.Fatal(err)
	}
	defer events.close()
	other := dir + "/." // as behind a bind mount
	told := func(file string, want ...string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		paths, err := events.next()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !slices.Contains(paths, w) {
				t.Errorf("%s: told of %q, want %s", file, paths, w)
			}
		}
	}
	set := func(dirs map[string]bool) {
		t.Helper()
		if _, err := events.set(dirs); err != nil {
			t.Fatal(err)
		}
	}
	set(map[string]bool{dir: true, other: false})
	if len(events.dirs) != 1 {
		t.Fatalf("watched are %v", events.dirs)
	}
	for _, paths := range events.dirs {
		if !slices.Equal(paths, []string{dir, other}) {
			t.Errorf("paths are %q", paths)
		}
	}
	told("a", dir+"/a")
	set(map[string]bool{other: true})
	told("b", filepath.Join(other, "b"))
	set(map[string]bool{dir: true})
	told("c", dir+"/c")
}
