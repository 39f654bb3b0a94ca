package importer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What testdata holds of trees becomes the manifest that stands behind it. Files below sys and lib
// are not of the tree, but headers and libraries of the machine.
func TestSources(t *testing.T) {
	place := func(name string) string {
		if strings.HasPrefix(name, "sys/") || strings.HasPrefix(name, "lib/lib") {
			return name
		}
		return "tree/" + name
	}
	compareGoldens(t, "testdata/sources/*.txtar", place, func(t *testing.T, dir string) string {
		m := Machine{Includes: []string{filepath.Join(dir, "sys")}}
		if _, err := os.Stat(filepath.Join(dir, "lib")); err == nil {
			m.LibDirs = []string{filepath.Join(dir, "lib")}
		}
		b, err := ReadSources(filepath.Join(dir, "tree"), m)
		if err != nil {
			t.Fatal(err)
		}
		return b.Manifest().Text()
	})
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// What a plan refuses is taken out, with what cannot be without it, and said. Nothing is left to
// build where that was all.
func TestDropTargets(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "lib/a.cu"), "void a() {}\n")
	write(t, filepath.Join(dir, "lib/b.cu"), "void b() {}\n")
	write(t, filepath.Join(dir, "one.cu"), "void a(); int main() { a(); }\n")
	write(t, filepath.Join(dir, "two.cu"), "void a(); int main() { a(); }\n")
	b, err := ReadSources(dir, Machine{})
	if err != nil {
		t.Fatal(err)
	}
	d := b.Manifest()
	d.blocks[len(d.blocks)-1].list("libs", []string{"x", "y"})
	drop := func(text, why string) {
		t.Helper()
		for i, line := range strings.Split(d.Text(), "\n") {
			if strings.Contains(line, text) {
				if !d.Drop([]Fault{{Line: i + 1, Text: why}}) {
					t.Errorf("line %q is not dropped", line)
				}
				return
			}
		}
		t.Errorf("no line has %q:\n%s", text, d.Text())
	}
	without := func(text string) {
		t.Helper()
		if before, _, _ := strings.Cut(d.Text(), "# Left out"); strings.Contains(before, text) {
			t.Errorf("%q is still there:\n%s", text, before)
		}
	}
	drop("libs ", "no such library")
	without("libs ")
	drop(`library "`, "not here")
	without("library.")
	for _, want := range []string{"no such library", "not here"} {
		if !strings.Contains(d.Text(), want) {
			t.Errorf("%q is not said:\n%s", want, d.Text())
		}
	}
	if d.Count("executable") != 2 || d.Count("library") != 0 || !d.HasTargets() {
		t.Errorf("%d programs and %d libraries are left", d.Count("executable"), d.Count("library"))
	}
	drop(`executable "one"`, "no")
	drop(`executable "two"`, "no")
	if d.HasTargets() {
		t.Error("without a target there is something to build")
	}
	if d.Drop([]Fault{{Line: 1, Text: "a comment"}}) {
		t.Error("a comment was dropped")
	}
}

// Code for LTO is not asked of an archive that has none.
func TestDropPartialLTO(t *testing.T) {
	b := &block{kind: "prebuilt", name: "x"}
	b.set("archive", `"libx.a"`)
	d := &Document{blocks: []*block{b}}
	d.Text()
	if !d.Drop([]Fault{{Line: 3, Text: `x has sm_80 only Declare lto = "none" on prebuilt.x to accept it`}}) || !strings.Contains(d.Text(), `lto = "none"`) {
		t.Errorf("it is not accepted:\n%s", d.Text())
	}
}

// FuzzRead reads what is no source.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"#if (\n#elif\n#else\n#endif\n#endif\n", "void f() {\n}}}", "#define A(x) #x\\\n b\n#", "R\"x(", "template <a<b>>::c<", "/* \"", "operator~( = ["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		for _, name := range []string{"a.cu", "a.h"} {
			write(t, filepath.Join(dir, name), text)
		}
		b, err := ReadSources(dir, Machine{})
		if err != nil {
			t.Fatal(err)
		}
		b.Manifest().Text()
	})
}
