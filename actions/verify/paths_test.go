package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPaths(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"real/sub", "other"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"real/a.h", "real/sub/b.h", "other/c.h"} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "real", "away": root + "/other", "loop": "loop", "real/up": "../other"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	known := newPathSet()
	for _, name := range []string{"link/a.h", "real/gone", "other/c.h", "other/missing.h", "real/sub/b.h"} {
		known.add(root + "/" + name)
	}
	for _, c := range []struct {
		name string
		want bool
	}{
		{"link/a.h", true},
		{"real/a.h", true},
		{"real/sub/../a.h", true},
		{"real/sub/b.h", true},
		{"./real//sub/b.h", true},
		{"link/up/c.h", false}, // the link "up" may lead elsewhere one day
		{"link/up/../real/a.h", false},
		{"away/c.h", false},
		{"real/gone", true},
		{"real/gone/x.h", true},
		{"real/gone/.//deep/x.h", true},
		{"link/gone/x.h", true},
		{"real/gone.h", false},
		{"real/sub/gone", false},
		{"other/missing.h", true},
		{"other/other.h", false},
		{"other/c.h/x.h", true}, // no folder: it has to become another file first
		{"real/a.h/../x", true},
		{"real/sub/gone/../b.h", false},
		{"loop/x", false},
		{"real", false},
		{"", false},
		{"../elsewhere", false},
	} {
		if got := known.has(known.walk(root + "/" + c.name)); got != c.want {
			t.Errorf("%q: known is %v", c.name, got)
		}
	}
	for name, want := range map[string]bool{"link": true, "away": false, "real/up": false, "link/up": false} {
		if got := known.hasLink(root + "/" + name); got != want {
			t.Errorf("the link %q: known is %v", name, got)
		}
	}
}

// A missing folder is known if all files that were found below another folder of its name are known
// to be missing below it.
func TestPathsBelow(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"there/bits/types", "first"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"there/bits/a.h", "there/bits/types/b.h"} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		known, folder string
		want          bool
	}{
		{"", "first/bits", false},
		{"there/bits/a.h", "first/bits", false},
		{"there/bits/a.h first/bits/a.h", "first/bits", true},
		{"there/bits/a.h first/bits/a.h", "first/types", false},
		{"there/bits/a.h first/bits/a.h there/bits/types/b.h", "first/bits", false},
		{"there/bits/a.h first/bits/a.h there/bits/types/b.h first/bits/types", "first/bits", true},
		{"there/bits first/bits/x.h", "first/bits", false},
	} {
		known := newPathSet()
		for _, name := range strings.Fields(c.known) {
			known.add(root + "/" + name)
		}
		if got := known.hasBelow(known.walk(root + "/" + c.folder)); got != c.want {
			t.Errorf("%s is known of %q: %v", c.folder, c.known, got)
		}
	}
}
