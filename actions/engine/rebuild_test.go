package engine

import (
	"os"
	"slices"
	"testing"
	"time"
)

// rebuilt is a project with one of each thing that a build looks at. The manifest is also the input
// of an action.
func rebuilt(t *testing.T) *project {
	return newProject(t, map[string]string{
		"kernels.hcl": `
variable "def" {
  type = string
}

generate "g" {
  command = ["cp", "table", self.outputs[0]]
  inputs  = ["table", "kernels.hcl"]
  outputs = ["g.h"]
}

library "k" {
  includes = ["first", "missing", "inc"]
  sources  = glob("k/*.cpp")
}

executable "app" {
  sources = ["app.cpp"]
  defines = { N = var.def }
  deps    = [library.k]
}

executable "solo" {
  sources = ["solo.cpp"]
  deps    = [generate.g]
}
`,
		"table": "int table;\n", "app.cpp": "int main() { return N; }\n", "solo.cpp": "#include \"g.h\"\nint main() {}\n",
		"k/a.cpp": "#include \"a.h\"\n", "k/b.cpp": "#include \"b.h\"\n", "k/c.cpp": "int c;\n",
		"inc/a.h": "int a;\n", "inc/b.h": "int b;\n", "first/b.h": "int first;\n",
	})
}

// A build runs all; the next one looks at no action and makes no plan, also when files were
// touched.
func TestNothingToDo(t *testing.T) {
	p := rebuilt(t)
	first := p.build()
	if first.way != "plan" || first.err != nil || first.sum.Ran != first.sum.Actions || first.sum.Ran != len(first.looked) {
		t.Errorf("the first build: %s %+v", first, first.sum)
	}
	all := p.files()
	for _, what := range []string{"the second build", "after a touch"} {
		f := p.build()
		if p.expect(what, f, "view:"); f.settled != first.sum.Ran || f.finishes != 0 || f.sum.UpToDate != first.sum.Ran {
			t.Errorf("%s: %d actions of %d are up to date by the view, %+v", what, f.settled, first.sum.Ran, f.sum)
		}
		for _, name := range []string{"kernels.hcl", "k/a.cpp", "inc/a.h", "build/bin/app"} {
			if err := os.Chtimes(p.path(name), time.Time{}, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(p.files(), all) {
		t.Errorf("the tree holds %q, and held %q", p.files(), all)
	}
	p.expect("a target by its name", p.build("solo"), "plan:") // which is another command line
	p.expect("again", p.build("solo"), "view:")
}

// What is looked at after an edit. Each comes after those before it: a part looks again at what
// parts have run since the last plan.
func TestEdits(t *testing.T) {
	const whole = "bin/app lib/libk.a obj/library.k/k/"
	p := rebuilt(t)
	tests := []struct {
		name string
		edit func()
		want string
	}{
		{"a source", func() { p.write("k/a.cpp", "#include \"a.h\"\nint edited;\n") }, "part: ran " + whole + "a.cpp.o"},
		{"a header", func() { p.write("inc/a.h", "int edited;\n") }, "part: ran " + whole + "a.cpp.o"},
		{"a new source that the glob matches", func() { p.write("k/d.cpp", "int d;\n") }, "plan: ran " + whole + "d.cpp.o"},
		{"the input of a generator", func() { p.write("table", "int edited;\n") }, "part: ran bin/solo gen/g/g.h obj/executable.solo/solo.cpp.o"},
		{"a new file that it does not match", func() { p.write("k/notes", "") }, "plan:"},
		{"an output that was edited", func() { p.write("build/bin/app", "x") }, "part: cached bin/app"},
		{"an output that was removed", func() { p.remove("build/bin/app") }, "part: cached bin/app"},
		{"a source that the glob matched", func() { p.remove("k/c.cpp") }, "plan: ran bin/app lib/libk.a"},
		{"the manifest, which says the same", func() { p.replace("kernels.hcl", "var.def", "  var.def") }, "plan: ran gen/g/g.h"},
		{"a variable of the environment", func() { p.t.Setenv("KBUILD_VAR_def", "2") }, "plan: ran bin/app obj/executable.app/app.cpp.o"},
		{"the manifest", func() { p.replace("kernels.hcl", "[library.k]", "[library.k]\n  flags   = { host = [\"-O1\"] }") },
			"plan: ran bin/app gen/g/g.h obj/executable.app/app.cpp.o"},
		{"a header is gone, and another is found", func() { p.remove("first/b.h") }, "plan: ran " + whole + "b.cpp.o"},
		{"a header is found before another", func() { p.write("first/a.h", "int before;\n") }, "plan: ran " + whole + "a.cpp.o"},
		{"a folder that was missing, with a header", func() { p.write("missing/b.h", "int come;\n") }, // all search it
			"plan: ran bin/app lib/libk.a obj/executable.app/app.cpp.o obj/library.k/k/a.cpp.o obj/library.k/k/b.cpp.o obj/library.k/k/d.cpp.o"},
		{"a header that nobody looks for", func() { p.write("first/c.h", "") }, "view:"},
		{"a header is found beside its source", func() { p.write("k/a.h", "int beside;\n") }, "plan: ran " + whole + "a.cpp.o"},
		{"the archiver, which makes the same", func() { p.useTool("ar", "2") }, "plan: ran lib/libk.a"},
	}
	p.build()
	p.expect("in the beginning", p.build(), "view:")
	for _, test := range tests {
		test.edit()
		p.expect(test.name, p.build(), test.want)
		p.expect(test.name+", again", p.build(), "view:")
	}
}
