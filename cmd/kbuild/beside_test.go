package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// builtFiles are the files of the build tree that kbuild does not keep for itself, with their
// content.
func builtFiles(e *e2e.Project) map[string]string {
	e.T.Helper()
	files := map[string]string{}
	filepath.WalkDir(filepath.Join(e.Dir, "build"), func(name string, d os.DirEntry, err error) error {
		switch rel, _ := filepath.Rel(e.Dir, name); {
		case err == nil && d.Name() == ".kbuild":
			return filepath.SkipDir
		case err == nil && d.Type().IsRegular():
			files[rel] = string(e.Read(rel))
		}
		return nil
	})
	return files
}

// What a compiler writes beside an object, and a linker beside a program, is an output: it is where
// a compile without kbuild puts it, it is kept and restored, and it makes nothing run again.
func TestBesideObject(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles with the real g++")
	}
	t.Parallel()
	e := fakeSplit(t, map[string]string{
		"kernels.hcl": `executable "app" {
  sources = ["main.cpp", "a.cu"]
  code    = ["sm_80"]
  cudart  = "none"
  flags = {
    host = ["-g", "-gsplit-dwarf", "--coverage", "-fstack-usage"]
    link = ["--coverage", "-Wl,-Map=build/app.map", "-Wl,--gc-sections"]
  }
  partition "told" {
    match = ["main.cpp"]
    flags = { host = ["-fopt-info-all=./build/opt.txt", "-Wa,-ahl=build/list.txt"] }
  }
}
`,
		"main.cpp": "int f(int x) { return x > 3 ? x * 2 : x; }\nint main(int n, char **) { return f(n) - 1; }\n",
		"a.cu":     "__global__ void k() {}\nint g() { return 1; }\n",
	})
	first := e.Kbuild()
	want := []string{"build/app.map", "build/bin/app", "build/list.txt", "build/opt.txt"}
	for _, s := range []string{"a.cu", "main.cpp"} {
		for _, ending := range []string{".dwo", ".gcno", ".o", ".su"} {
			want = append(want, "build/obj/executable.app/"+s+ending)
		}
	}
	files := builtFiles(e)
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Fatal(diff)
	}
	for _, s := range []string{"a.cu", "main.cpp"} {
		for _, name := range []string{e.Dir + "/build/obj/executable.app/" + s + ".gcda", "build/obj/executable.app/" + s + ".dwo"} {
			if o := "build/obj/executable.app/" + s; !strings.Contains(files[o+".o"]+files[o+".dwo"], name) {
				t.Errorf("the object of %s does not name %s", s, name)
			}
		}
	}
	if c := e.Kbuild(); c.Up_to_date != first.Actions {
		t.Errorf("again: %+v", c)
	}
	if _, printed := e.Run("kbuild"); !strings.Contains(printed, "nothing to do") {
		t.Error(printed)
	}
	for _, lost := range []string{"build/obj/executable.app/main.cpp.gcno", "build/app.map", "build"} {
		if err := os.RemoveAll(filepath.Join(e.Dir, lost)); err != nil {
			t.Fatal(err)
		}
		if c := e.Kbuild(); c.Ran != 0 || c.Cached == 0 {
			t.Errorf("without %s: %+v", lost, c)
		}
		if diff := cmp.Diff(files, builtFiles(e)); diff != "" {
			t.Errorf("without %s (-first +restored): %s", lost, diff)
		}
	}
	// The program finds its profile's place from any folder, as without kbuild.
	e.Run("sh", "-c", "cd / && "+e.Dir+"/build/bin/app")
	if _, err := os.Stat(filepath.Join(e.Dir, "build/obj/executable.app/main.cpp.gcda")); err != nil {
		t.Error(err)
	}
}
