package migrate

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the goldens anew")

// What testdata holds of build trees becomes the manifest that stands behind it.
func TestGoldens(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("there is no golden")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var want []byte
			kept := ar.Files[:0]
			for _, f := range ar.Files {
				if f.Name == "kernels.hcl" {
					want = f.Data
					continue
				}
				kept = append(kept, f)
				name := filepath.Join(dir, f.Name)
				if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, f.Data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			b, err := Find(dir, "", func(text string) { t.Error(text) })
			if err != nil {
				t.Fatal(err)
			}
			got := bytes.ReplaceAll([]byte(b.Manifest().Text()), []byte(dir), []byte("DIR"))
			if *update {
				ar.Files = append(kept, txtar.File{Name: "kernels.hcl", Data: got})
				if err := os.WriteFile(file, txtar.Format(ar), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a plan refuses is taken out, with what cannot be without it.
func TestDrop(t *testing.T) {
	lib, app := &block{kind: "library", name: "x"}, &block{kind: "executable", name: "app"}
	lib.list("sources", []string{"a.cu", "b.cu"})
	lib.list("libs", []string{"m"})
	app.list("sources", []string{"main.cpp"})
	app.items("deps", "[", []string{"library.x"})
	d := &Document{blocks: []*block{lib, app}}
	drop := func(text string) {
		t.Helper()
		for i, line := range strings.Split(d.Text(), "\n") {
			if strings.Contains(line, text) {
				if !d.Drop([]Fault{{Line: i + 1, Text: "no"}}) {
					t.Errorf("line %q is not dropped", line)
				}
				return
			}
		}
		t.Fatalf("%q is not in\n%s", text, d.Text())
	}
	drop("a.cu")
	drop("libs")
	if text := d.Text(); strings.Contains(text, `"a.cu",`) || !strings.Contains(text, `sources = ["b.cu"]`) || strings.Contains(text, "libs = ") {
		t.Errorf("the text is\n%s", text)
	}
	drop(`sources = ["b.cu"]`)
	if text := d.Text(); strings.Contains(text, "library \"x\"") || strings.Contains(text, "deps") {
		t.Errorf("the library is still in\n%s", text)
	}
	if len(d.Notes) != 3 || d.Notes[0].String() != `library.x: sources "a.cu": no` {
		t.Errorf("notes are %q", d.Notes)
	}
	if d.Drop([]Fault{{Line: 1000}}) || !d.HasTargets() {
		t.Error("a line that is not there was dropped")
	}
}

// A folder that is no build tree is refused with what was looked for.
func TestNoTree(t *testing.T) {
	dir := t.TempDir()
	if _, err := Find(dir, "", nil); err == nil || !strings.Contains(err.Error(), "CMakeCache.txt, .cmake/api and compile_commands.json were looked for") {
		t.Error(err)
	}
	if _, err := Find(filepath.Join(dir, "x"), "", nil); err == nil || !strings.Contains(err.Error(), "there is no such file or folder") {
		t.Error(err)
	}
}
