package cache

import (
	"os"
	"path/filepath"
	"testing"
)

func TestListing(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "inc", "a.h"), "")
	os.Symlink("a.h", filepath.Join(root, "inc", "good.h"))
	os.Symlink("nowhere", filepath.Join(root, "inc", "bad.h"))
	writeFile(t, filepath.Join(root, "inc", "deep", "c.h"), "")
	os.Symlink("inc/deep", filepath.Join(root, "deep"))
	l := NewListing(root)
	for path, want := range map[string]bool{
		"inc/a.h": true, "inc/../inc/a.h": true, filepath.Join(root, "inc/a.h"): true,
		"inc": true, "inc/": true, "/": true, ".": true,
		"inc/good.h": true, "inc/bad.h": false,
		"inc/b.h": false, "no/a.h": false, "inc/a.h/b.h": false,
		"deep/../a.h": true, "deep/../inc/a.h": false, "no/../inc/a.h": false,
	} {
		if got := l.Exists(path); got != want {
			t.Errorf("Exists(%q) = %v, want %v", path, got, want)
		}
	}
}

func TestListingClean(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a", "b", "c.h"), "")
	os.Symlink("a/b", filepath.Join(root, "link"))
	l := NewListing(root)
	for path, want := range map[string]string{
		"a/../x": "x", "a/b/../../x": "x", "./a//b/../x": "a/x", "a/./x": "a/x", root + "/a/../x": root + "/x",
		"../x": "../x", "../../x/y": "../../x/y", "/../x": "/x", "x..y/../z": "x..y/../z", "a/..": ".",
		"link/../x": "link/../x", "a/../link/../x": "a/../link/../x", "no/../x": "no/../x", "link/x": "link/x",
		"a/b/c.h/../x": "a/b/c.h/../x",
	} {
		if got := l.Clean(path); got != want {
			t.Errorf("Clean(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestListingIsReadOnce(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "inc", "a.h"), "")
	l := NewListing(root)
	l.Exists("inc/a.h")
	writeFile(t, filepath.Join(root, "inc", "b.h"), "")
	if l.Exists("inc/b.h") {
		t.Error("the folder was read again")
	}
	l.Forget("inc")
	if !l.Exists("inc/b.h") {
		t.Error("the folder was not read again after Forget")
	}
}

func TestForgetOfAFolderThatIsNew(t *testing.T) {
	root := t.TempDir()
	l := NewListing(root)
	for _, p := range []string{"gen", "gen/x", "gen/x/a.h"} {
		if l.Exists(p) {
			t.Fatal(p)
		}
	}
	writeFile(t, filepath.Join(root, "gen/x/a.h"), "")
	l.Forget("gen/x")
	for _, p := range []string{"gen", "gen/x", "gen/x/a.h"} {
		if !l.Exists(p) {
			t.Errorf("%s is not seen", p)
		}
	}
}

func TestAbsentPathsCostNoSystemCalls(t *testing.T) {
	root := t.TempDir()
	l := NewListing(root)
	path := filepath.Join(root, "absent.h")
	l.Exists(path)
	// A stat allocates; the map lookup does not.
	if n := testing.AllocsPerRun(100, func() { l.Exists(path) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkListingAbsent(b *testing.B) {
	l := NewListing("/usr/include")
	for b.Loop() {
		l.Exists("/usr/include/cuda_runtime_that_is_not_there.h")
	}
}
