package tooltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Toolkit is an installed CUDA toolkit.
type Toolkit struct {
	Release string // "13.5"
	Root    string // the folder with bin/nvcc; "" for the one in PATH
}

// Toolkits returns the toolkit in PATH and those of KBUILD_TEST_CUDA, folders separated by colons,
// the newest last. If all tools are required, KBUILD_TEST_CUDA must name at least one, and for make
// test-all two.
func Toolkits(t testing.TB) (list []Toolkit) {
	t.Helper()
	Need(t, "nvcc")
	named := filepath.SplitList(os.Getenv("KBUILD_TEST_CUDA"))
	want := 1
	if All() {
		want = 2
	}
	if len(named) < want && os.Getenv("KBUILD_REQUIRE_TOOLS") != "" {
		t.Fatalf("KBUILD_TEST_CUDA names %d toolkits, want %d", len(named), want)
	}
	for _, root := range append([]string{""}, named...) {
		nvcc := "nvcc"
		if root != "" {
			nvcc = filepath.Join(root, "bin", "nvcc")
		}
		out, err := exec.Command(nvcc, "--version").CombinedOutput()
		m := regexp.MustCompile(`release (\d+\.\d+),`).FindSubmatch(out)
		if m == nil {
			t.Fatalf("%s does not say its release: %v\n%s", nvcc, err, out)
		}
		list = append(list, Toolkit{string(m[1]), root})
	}
	return list
}

// More returns an architecture that the toolkit supports besides sm_80 and sm_90.
func (k Toolkit) More() string {
	if k.Release < "13" {
		return "sm_86"
	}
	return "sm_100"
}
