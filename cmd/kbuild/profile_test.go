package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A compile that is guided by a profile reads a file of which nobody tells: where gcc says that it
// looked for one, one that comes or changes is an input.
func TestProfile(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles with the real g++")
	}
	t.Parallel()
	for name, flags := range map[string]string{
		"beside the object": `"-fprofile-use"`,
		"in a folder":       `"-fprofile-use=profiles"`,
		"another folder":    `"-fprofile-use", "-fprofile-dir=profiles"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fakeSplit(t, map[string]string{
				"kernels.hcl": "library \"l\" {\n  sources = [\"a.cpp\", \"k.cu\"]\n  code = [\"sm_80\"]\n  flags = { host = [" + flags + "] }\n}\n",
				"a.cpp":       "int f(int x) { return x > 3 ? x * 2 : x; }\n",
				"k.cu":        "__global__ void k() {}\nint g(int x) { return x > 3 ? x * 2 : x; }\n",
			})
			_, printed := e.Run("kbuild", "--progress", "plain")
			looked := regexp.MustCompile(`[‘'"]([^‘'" ]+\.gcda)[’'"] profile count data file not found`).FindAllStringSubmatch(printed, -1)
			if len(looked) != 2 {
				t.Fatalf("gcc does not say where it looked:\n%s", printed)
			}
			for _, m := range looked {
				quick := func(what string, ran bool) {
					t.Helper()
					if _, printed := e.Run("kbuild", "--progress", "plain"); strings.Contains(printed, "nothing to do") == ran {
						t.Errorf("%s %s:\n%s", m[1], what, printed)
					}
				}
				file := m[1]
				if !filepath.IsAbs(file) {
					file = filepath.Join(e.Dir, file)
				}
				quick("is not there", false)
				os.MkdirAll(filepath.Dir(file), 0o777)
				for _, text := range []string{"first", "second"} {
					if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
						t.Fatal(err)
					}
					quick(text, true)
					quick("is as it was", false)
				}
			}
		})
	}
}
