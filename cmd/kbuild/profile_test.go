package main

import (
	"strings"
	"testing"
)

// TestProfile compiles by a profile with a name that gcc derives: the compiles run each time.
func TestProfile(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"-fprofile-use", "-fprofile-use=profiles", "-fbranch-probabilities"} {
		e := fakeSplit(t, map[string]string{
			"kernels.hcl": "library \"l\" {\n  sources = [\"a.cpp\", \"k.cu\"]\n  code = [\"sm_80\"]\n  flags = { host = [\"" + flags + "\"] }\n}\n",
			"a.cpp":       "int f(int x) { return x > 3 ? x * 2 : x; }\n",
			"k.cu":        "__global__ void k() {}\nint g(int x) { return x > 3 ? x * 2 : x; }\n",
		})
		e.Kbuild()
		if out, _ := e.Run("kbuild", "why", "a.cpp"); !strings.Contains(out, "it runs each time: the compiler chooses the name of the profile of "+flags) {
			t.Errorf("%s: kbuild why a.cpp: %s", flags, out)
		}
		_, printed := e.Run("kbuild", "--progress", "plain")
		for _, source := range []string{"a.cpp", "k.cu"} {
			if !strings.Contains(printed, source) {
				t.Errorf("%s: %s is not compiled again:\n%s", flags, source, printed)
			}
		}
	}
}
