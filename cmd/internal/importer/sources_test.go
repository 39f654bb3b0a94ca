package importer

import (
	"os"
	"path/filepath"
	"slices"
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

func TestConditions(t *testing.T) {
	u := &unit{macros: map[string]macro{"ONE": {yes, "1"}, "EMPTY": {yes, ""}, "TWICE": {yes, "(ONE + 1)"}, "F": {yes, "(x)"}, "PERHAPS": {maybe, "1"}}, own: map[string]bool{"_OURS": true}}
	for _, c := range []struct {
		text string
		want tri
	}{
		{"1", yes}, {"0", no}, {"ONE", yes}, {"NOBODYS", no}, {"_LIBRARYS", maybe}, {"_OURS", no}, {"defined(ONE) && !defined NOBODYS", yes},
		{"defined(_LIBRARYS) || ONE", yes}, {"defined(_LIBRARYS) && NOBODYS", no}, {"TWICE == 2", maybe}, {"ONE + 1 == 2", yes}, {"2 * 3 - 1 >= 5 && 7 / 2 == 3 && 7 % 2", yes}, {"1 / 0", maybe},
		{"CUDA_VERSION >= 11000", maybe}, {"F(3) == 3", maybe}, {"EMPTY", maybe}, {"PERHAPS", maybe}, {"__has_include(<x.h>)", maybe}, {"0x10UL == 16", yes}, {"-ONE < 0", yes}, {"defined(_WIN32)", no},
		{"(ONE || NOBODYS) && (", maybe}, {"", maybe},
	} {
		if got := u.evaluate(nil, "", c.text, 0).truth(); got != c.want {
			t.Errorf("%q is %d, not %d", c.text, got, c.want)
		}
	}
}

// What stands in code is told apart: what is declared, what is defined for others, what is used.
func TestEvents(t *testing.T) {
	text := "#include \"a.h\" // x\n" + `
extern "C" { int c_function(int a, char b = '"'); }
namespace outer { namespace inner { void within(); } }
template <typename T, int N = (3 > 2)> struct Many { T t; static int count; virtual void run() const; Many() : t(0) { used_in_class(); } };
template struct Many<float>;
static int hidden(int x) { return uses(x); }
int Many<int>::count = 3;
__global__ void __launch_bounds__(256, 2) kernel(float *p) { p[threadIdx.x] = 0; }
void outer::inner::within() { extern int far_away; kernel<<<1, 1>>>(0); if (far_away) { R"(no } brace)"; } }
int array[] = { first, second };
MACRO_CALL(float)
MACRO_CALL(double)
#if A
void branch(int a) {
#else
void branch() {
#endif
  /* } */ body();
}
enum class Color { red };
typedef enum { green } shade;
typedef struct { int x; } point;
struct Color *pointer(void);
auto trailing() -> int { return 1'000; }
`
	var defs, decls, calls []string
	for _, e := range events(text, nil) {
		if e.code == nil {
			continue
		}
		for _, s := range e.code.defs {
			if !s.local {
				defs = append(defs, s.key())
			}
		}
		for _, s := range e.code.decls {
			decls = append(decls, s.key())
		}
		calls = append(calls, e.code.calls...)
	}
	slices.Sort(calls)
	calls = slices.Compact(calls)
	for _, c := range []struct{ what, got, want string }{
		{"defs", strings.Join(defs, " "), "Many Many::count kernel inner::within array branch branch trailing"},
		{"decls", strings.Join(decls, " "), "c_function inner::within Many::count Many::run far_away pointer"},
		{"calls", strings.Join(calls, " "), "MACRO_CALL Many"},
	} {
		if c.got != c.want {
			t.Errorf("%s are %s\nnot  %s", c.what, c.got, c.want)
		}
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
