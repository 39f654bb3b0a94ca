package manifest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFunctions evaluates an expression with each function; what is not listed here has no test.
func TestFunctions(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{`concat(["a"], ["b"])`, "a b"}, {`flatten([["a"], [["b"]]])`, "a b"}, {`distinct(["a", "a"])`, "a"},
		{`sort(["b", "a"])`, "a b"}, {`reverse(["b", "a"])`, "a b"}, {`compact(["", "a"])`, "a"},
		{`[length(["a", "b"]), length("über")]`, "2 4"}, {`[contains(["a"], "a")]`, "true"},
		{`[element(["a", "b"], 3)]`, "b"}, {`range(3)`, "0 1 2"}, {`flatten(setproduct(["a"], ["b", "c"]))`, "a b a c"},
		{`keys({ b = 1, a = 2 })`, "a b"}, {`values({ b = 1, a = 2 })`, "2 1"}, {`keys(merge({ b = 1 }, { a = 2 }))`, "a b"},
		{`[lookup({ a = "x" }, "b", "y")]`, "y"}, {`[join("-", ["a", "b"])]`, "a-b"}, {`split("-", "a-b")`, "a b"},
		{`[replace("a.cu", ".cu", ".o")]`, "a.o"}, {`[format("%s_%02d", "sm", 7)]`, "sm_07"}, {`[lower("A"), upper("a")]`, "a A"},
		{`[trimspace(" a "), trimprefix("sm_80", "sm_"), trimsuffix("a.cu", ".cu")]`, "a 80 a"},
		{`[startswith("sm_80", "sm"), endswith("sm_80", "sm")]`, "true false"},
		{`[regex("[0-9]+", "sm_80")]`, "80"}, {`regexall("[0-9]", "a1b2")`, "1 2"},
		{`[tostring(1), tonumber("2")]`, "1 2"}, {`tolist(["a"])`, "a"}, {`toset(["b", "a", "b"])`, "a b"},
		{`[coalesce(null, "a"), min(2, 1), max(2, 1)]`, "a 1 2"}, {`[can(tonumber("x")), try(tonumber("x"), "y")]`, "false y"},
		{`[basename("a/b.cu"), dirname("a/b.cu")]`, "b.cu a"}, {`glob("src/[ab].cu")`, "src/a.cu src/b.cu"},
	} {
		p := load(t, "library \"a\" {\n  sources = [\"src/a.cu\"]\n  libs = [for x in "+c.expr+" : tostring(x)]\n}\n", Options{})
		expect(t, c.expr, strings.Join(p.Targets[0].Libs, " "), c.want)
	}
}

func TestConstraint(t *testing.T) {
	for _, c := range []struct {
		constraint, version string
		want                bool
	}{
		{">= 11.2", "11.8.89", true}, {">= 11.2", "11.1", false}, {">= 11.2, < 13", "13.0", false}, {"12", "12.0.0", true},
		{"= 12", "12.1", false}, {"!= 12.0", "12", false}, {"~> 11.2", "11.9", true}, {"~> 11.2", "12.0", false},
		{"~> 11", "11.8", true}, {"> 1, <= 2", "2.0.0", true}, {">= 0.1", "0.1.0-dev", true}, {">= 0.1", "v0.2", true},
	} {
		got, err := ParseConstraint(c.constraint)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.constraint+" "+c.version, got.Allows(c.version), c.want)
	}
	for _, s := range []string{"", ">=", "a", "1..2", "1 2", ">= 1 <2"} {
		if _, err := ParseConstraint(s); err == nil {
			t.Errorf("%q parses", s)
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "4096": 4096, "4GiB": 4 << 30, "1.5 g": 3 << 29, "2MB": 2e6, "512M": 512 << 20} {
		got, err := ParseSize(s)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "GiB", "-1", "1e9", "4 gigs", "99999999TiB"} {
		if n, err := ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %d", s, n)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"slover", []string{"bench", "solver"}, "solver"}, {"Solver", []string{"solver"}, "solver"}, {"a", []string{"b"}, ""},
		{"include_dirs", []string{"includes"}, "includes"}, {"xyz", []string{"solver"}, ""}, {"soler", []string{"solver", "soller"}, "soller"},
	} {
		expect(t, c.name, Nearest(c.name, c.known), c.want)
	}
}

func TestRender(t *testing.T) {
	ds := Diagnostics{
		{Summary: "only a summary"},
		{Severity: Warning, Summary: "w", Detail: "one\ntwo", Pos: Pos{"k.hcl", 120, 3}, End: 5, Source: "a bcd"},
		{Summary: "no source", Pos: Pos{"k.hcl", 1, 1}, Also: Place{Pos: Pos{"k.hcl", 2, 1}, Say: "other"}},
	}
	expect(t, "plain", rendered(ds), `error: only a summary

warning: w
   --> k.hcl:120:3
    |
120 | a bcd
    |   ^^
    = help: one
            two

error: no source
  --> k.hcl:1:1
  ::: k.hcl:2:1
   = other
`)
	var b bytes.Buffer
	ds.Write(&b, true)
	if !strings.Contains(b.String(), "\x1b[1;31merror\x1b[0m") || !strings.Contains(b.String(), "\x1b[1;33m^^\x1b[0m") {
		t.Errorf("colours: %q", b.String())
	}
}

// TestOneMistakeOneDiagnostic: what depends on a faulty value is passed over in silence.
func TestOneMistakeOneDiagnostic(t *testing.T) {
	_, diags := try(`
locals {
  bad = "x" + 1
}
library "a" {
  sources = concat(glob(["src/*.cu", local.bad]), [local.bad, "${local.bad}.cu"])
  deps    = [local.bad]
  defines = { X = local.bad }
  flags   = { nvcc = [local.bad] }
  mode    = local.bad

  partition "p" {
    match = [local.bad]
  }
}
module "m" {
  sources = [length(local.bad) > 0 ? "src/a.cu" : local.bad]
  matrix  = { x = [local.bad] }
}
generate "g" {
  command = [local.bad, self.outputs[0]]
  outputs = [local.bad]
}
library "b" {
  sources = generate.g.outputs
}
`, Options{})
	if len(diags) != 1 {
		t.Errorf("%d diagnostics:\n%s", len(diags), rendered(diags))
	}
}

func BenchmarkLoad(b *testing.B) {
	src, err := os.ReadFile("testdata/worked/kernels.hcl")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		try(string(src), Options{})
	}
}

// FuzzLoad feeds arbitrary manifests: diagnostics are fine, a panic is not.
func FuzzLoad(f *testing.F) {
	f.Add(threeVariables)
	seeds, err := filepath.Glob("testdata/*/*.hcl")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range seeds {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, diags := try(text, Options{Arch: []string{"sm_90"}, Profile: "dev", Vars: map[string]string{"archs": "a"}})
		if p == nil {
			t.Fatal("no project")
		}
		diags.Write(&bytes.Buffer{}, true)
		for _, d := range diags {
			if strings.Contains(d.Summary+d.Detail, "\x00") && !strings.Contains(text, "\x00") {
				t.Errorf("an inner address shows: %q", d.Summary)
			}
		}
		Format([]byte(text), "k.hcl")
	})
}
