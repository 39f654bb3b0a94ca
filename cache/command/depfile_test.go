package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The lines of a dependency file are those that the compiler writes at the place.
func TestWrap(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++", "clang++-15"} {
		if _, err := exec.LookPath(compiler); err != nil {
			continue
		}
		rule := "gcc"
		if strings.HasPrefix(compiler, "clang") {
			rule = "clang"
		}
		root := t.TempDir()
		deps := func(dir, target, source string) string {
			t.Helper()
			dir = filepath.Join(root, dir)
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"a b.h": "", "k.cpp": "#include \"a b.h\"\n#include <vector>\n#include \"other.h\"\n", "short.cpp": "#include \"other.h\"\n", "other.h": ""} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			text, err := exec.Command(compiler, "-M", "-MP", "-MT", "first.o", "-MT", target, dir+"/"+source).Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		for _, c := range []struct{ target, source string }{
			{"k.o", "k.cpp"}, {strings.Repeat("long/", 14) + "k.o", "k.cpp"},
			{"k.o", "short.cpp"}, // one line here, two there
		} {
			a := deps("a", c.target, c.source)
			for _, to := range []string{"a", "b", "much/longer/than/that", "x/yy"} {
				spelled, ok := Base{Dir: filepath.Join(root, "a"), Cwd: "."}.Spell(a)
				if !ok {
					t.Fatal("not spelled")
				}
				got, _ := wrap(Base{Dir: filepath.Join(root, to), Cwd: "."}.Write(spelled), rule)
				if want := deps(to, c.target, c.source); got != want {
					t.Errorf("%s in %s:\n%s\nwant\n%s", compiler, to, got, want)
				}
			}
		}
	}
}
