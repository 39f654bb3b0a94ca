package engine

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is watched are real paths: of each link on the way, and of what is behind all of them.
func TestWatchedLinks(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"p/src", "other/deep", "p/build"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"p/src/a.cu": "../../other/a.cu", "p/inc": base + "/other/deep", "p/loop": "loop", "p/again": "inc"} {
		if err := os.Symlink(to, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "other/a.cu"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	watched := func(files ...string) Watched {
		x := newWatched()
		x.own = []string{base + "/p/build", base + "/p/t.json"}
		for _, f := range files {
			x.add(x.files, base+"/"+f)
		}
		return x
	}
	for _, c := range []struct{ path, want string }{
		{"p/src/a.cu", "other/a.cu p/src/a.cu"},
		{"p/src/../src/b.cu", "p/src/b.cu"},
		{"p/inc/../a.cu", "other/a.cu p/inc"}, // the folder above where the link leads
		{"p/again/x.h", "other/deep/x.h p/again p/inc"},
		{"p/../other/none/x.h", "other/none/x.h"},
		{"p/build/gen/x.h", ""},
	} {
		x := watched(c.path)
		var got []string
		for f := range x.files {
			got = append(got, strings.TrimPrefix(f, base+"/"))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", c.path, got, c.want)
		}
	}
	x := watched("p/loop", "p/inc/x.h")
	folders := slices.Sorted(maps.Keys(x.Folders()))
	folders = slices.DeleteFunc(folders, func(dir string) bool { return !strings.HasPrefix(dir, base) })
	if diff := cmp.Diff([]string{base, base + "/other", base + "/other/deep", base + "/p"}, folders); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
	concern := func(paths map[string]bool) {
		t.Helper()
		for p, want := range paths {
			if x.Concerns(base+p) != want {
				t.Errorf("%s: it concerns is %v", p, !want)
			}
		}
	}
	concern(map[string]bool{"": true, "/other": true, "/p/inc": true, "/other/deep/x.h": true, "/other/deep/y.h": false, "/q": false})
	x.whole(base + "/p")
	concern(map[string]bool{"/p/new.cu": true, "/p/t.json": false, "/p/.kbuild-0123abcd": false, "/p/build/x": false, "/p/src/.kbuild-notes": true})
}
