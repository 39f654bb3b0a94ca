package discover

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// The files in testdata/depfile were written by the compilers that they are named after.
func TestRealDepfiles(t *testing.T) {
	headers := []string{"inc dir/sp ace.h", "p$q/d$l.h", "h#sh/x#y.h", "ünï/ß.h", "co:lon.h"}
	tests := []struct {
		file          string
		targets, deps []string
	}{
		{"nvcc-11.8.d", []string{"o ut.o"}, append([]string{"a b.cu"}, headers...)},
		{"nvcc-11.8-target.d", []string{"x y.o z$"}, append([]string{"ab.cu"}, headers...)},
		{"nvcc-11.8-dollars.d", []string{"dol.o"}, []string{"dol.cu", "dd/a$$b.h", "dd/t\tb.h"}},
		// nvcc turns the backslashes of names into slashes; nothing can bring them back.
		{"nvcc-11.8-backslash.d", []string{"bs.o"}, slices.Concat([]string{"bs.cu"}, headers, []string{"b/s.h", "b/ t.h"})},
		{"gcc-11-phony.d", append([]string{"o u$t#.o"}, headers...), append([]string{"a b.cc"}, headers...)},
		{"gcc-12-backslash.d", []string{"o.o"}, slices.Concat([]string{"bs.cc"}, headers, []string{`b\s.h`, `b\ t.h`})},
		{"gcc-12-dollars.d", []string{"dol.o"}, []string{"dol.cc", "dd/a$$b.h", "dd/t\tb.h", `dd/end\ `}},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", "depfile", test.file))
			if err != nil {
				t.Fatal(err)
			}
			for _, ends := range []string{"\n", "\r\n"} {
				targets, deps, err := parseDepfile([]byte(strings.ReplaceAll(string(b), "\n", ends)))
				if err != nil {
					t.Fatalf("with %q: %v", ends, err)
				}
				if diff := cmp.Diff([][]string{test.targets, test.deps}, [][]string{targets, deps}); diff != "" {
					t.Errorf("with %q, targets and deps (-want +got):\n%s", ends, diff)
				}
			}
		})
	}
}

func TestPhonyRulesOfNVCC(t *testing.T) {
	b, err := os.ReadFile("testdata/depfile/nvcc-11.8-phony.d")
	if err != nil {
		t.Fatal(err)
	}
	targets, deps, err := parseDepfile(b)
	if err != nil || targets[0] != "o$.o" || len(targets) != 6 || len(deps) != 6 {
		t.Errorf("%q: %q, %v", targets, deps, err)
	}
}

func TestSystemHeaders(t *testing.T) {
	b, err := os.ReadFile("testdata/depfile/nvcc-11.8-system.d")
	if err != nil {
		t.Fatal(err)
	}
	_, deps, err := parseDepfile(b)
	if err != nil || len(deps) != 185 || deps[0] != "s.cu" {
		t.Fatalf("%d dependencies, %v; want s.cu and 184 headers", len(deps), err)
	}
	for _, d := range deps[1:] {
		if !strings.HasPrefix(d, "/usr/") || !strings.Contains(filepath.Base(d), ".") && strings.ContainsAny(d, `\: `) {
			t.Errorf("%q is no system header", d)
		}
	}
}

func TestHandmadeDepfiles(t *testing.T) {
	tests := []struct {
		name, text string
		deps       []string
	}{
		{"several rules", "a.o: a.c a.h\nb.o: b.c\\\n b.h\n", []string{"a.c", "a.h", "b.c", "b.h"}},
		{"no end of line", "a.o: a.c", []string{"a.c"}},
		{"comment", "# made by hand\n\na.o: a.c\n", []string{"a.c"}},
		{"nothing needed", "a.o:\n", nil},
		{"backslashes at the end of a name", `a.o: a\\ b` + "\n", []string{`a\`, "b"}},
		{"backslashes inside", `a.o: a\\b \c` + "\n", []string{`a\\b`, `\c`}},
		{"escaped colon", `a.o: a\:b` + "\n", []string{"a:b"}},
		{"lone dollar", "a.o: a$b\n", []string{"a$b"}},
		{"colon in a target", "C:a.o: a.c\n", []string{"a.c"}},
		{"tabs", "a.o:\ta.c\tb.c\n", []string{"a.c", "b.c"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, deps, err := parseDepfile([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.deps, deps); diff != "" {
				t.Errorf("dependencies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBrokenDepfiles(t *testing.T) {
	tests := []struct{ name, text, err string }{
		{"empty", "", "it holds no rule"},
		{"blank", " \n\n", "it holds no rule"},
		{"cut off", "a.o: a.c \\\n  b.h \\", "line 2 is cut off: the file ends in the middle of a rule"},
		{"no colon", "a.o: a.c\n\nb.h c.h\n", `line 3 is no rule (it has no colon): "b.h c.h"`},
		{"after continuation", "a.o: \\\n a.c\nrest\n", `line 3 is no rule (it has no colon): "rest"`},
		{"object", "\x7fELF\x02\x01\x01\x00", "line 1 holds a zero byte"},
		{"no target", ": a.c\n", `line 1 is a rule without a target: ": a.c"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := parseDepfile([]byte(test.text))
			if err == nil || err.Error() != test.err {
				t.Errorf("error %v, want %s", err, test.err)
			}
		})
	}
}

// gccName escapes a name as gcc's mkdeps does.
func gccName(name string) string {
	var b strings.Builder
	run := 0
	for _, c := range []byte(name) {
		switch c {
		case ' ', '\t':
			b.WriteString(strings.Repeat(`\`, run+1))
		case '$':
			b.WriteByte('$')
		case '#':
			b.WriteByte('\\')
		}
		if run++; c != '\\' {
			run = 0
		}
		b.WriteByte(c)
	}
	return b.String()
}

func FuzzDepfile(f *testing.F) {
	files, err := filepath.Glob("testdata/depfile/*.d")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		targets, deps, err := parseDepfile(b)
		if err != nil {
			return
		}
		if len(targets) == 0 {
			t.Error("no target and no error")
		}
		var text strings.Builder
		text.WriteString("t:")
		for _, d := range deps {
			if d == "" || strings.ContainsAny(d, "\n\x00") {
				t.Fatalf("dependency %q", d)
			}
			if strings.HasSuffix(d, `\`) || strings.Contains(d, `\#`) || strings.Contains(d, `\:`) || strings.HasSuffix(d, "\r") {
				return // gcc writes these names ambiguously
			}
			text.WriteString(" \\\n " + gccName(d))
		}
		_, again, err := parseDepfile([]byte(text.String() + "\n"))
		if err != nil || !slices.Equal(again, deps) {
			t.Errorf("written as gcc does and read again: %q, %v; want %q", again, err, deps)
		}
	})
}

func TestDepfileOfThisNVCC(t *testing.T) {
	tooltest.Need(t, "nvcc")
	dir := t.TempDir()
	names := []string{"s p.h", "d$.h", "d$$.h", "h#.h", "ü.h"}
	var src strings.Builder
	for _, n := range names {
		writeFile(t, filepath.Join(dir, n), "#pragma once\n// "+n+"\n")
		src.WriteString("#include \"" + n + "\"\n")
	}
	writeFile(t, filepath.Join(dir, "a b.cu"), src.String())
	cmd := exec.Command("nvcc", "-MM", "-MF", "out.d", "-MT", "o u$t.o", "a b.cu")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "out.d"))
	if err != nil {
		t.Fatal(err)
	}
	targets, deps, err := parseDepfile(b)
	if err != nil || targets[0] != "o u$t.o" {
		t.Errorf("targets %q, %v", targets, err)
	}
	for _, want := range append(names, "a b.cu") {
		if !slices.Contains(deps, want) {
			t.Errorf("%q is missing in %q", want, deps)
		}
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
