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
		root := t.TempDir()
		deps := func(dir, target string) string {
			t.Helper()
			dir = filepath.Join(root, dir)
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"a b.h": "", "k.cpp": "#include \"a b.h\"\n#include <vector>\n#include \"other.h\"\n", "other.h": ""} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			text, err := exec.Command(compiler, "-M", "-MP", "-MT", "first.o", "-MT", target, dir+"/k.cpp").Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		for _, target := range []string{"k.o", strings.Repeat("long/", 14) + "k.o"} {
			a := deps("a", target)
			rule := ruleOf(a)
			if rule == "" {
				t.Errorf("%s: the rule is not known:\n%s", compiler, a)
				continue
			}
			for _, to := range []string{"b", "much/longer/than/that", "x/yy"} {
				spelled, ok := Base{Dir: filepath.Join(root, "a"), Cwd: "."}.Spell(a)
				if !ok {
					t.Fatal("not spelled")
				}
				got, _ := wrap(Base{Dir: filepath.Join(root, to), Cwd: "."}.Write(spelled), rule)
				if want := deps(to, target); got != want {
					t.Errorf("%s in %s:\n%s\nwant\n%s", compiler, to, got, want)
				}
			}
		}
	}
}
