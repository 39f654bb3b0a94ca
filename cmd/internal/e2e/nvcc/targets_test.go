package nvcc_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// eachToolkit runs a test with the toolkit in PATH and with each of those that KBUILD_TEST_CUDA names.
func eachToolkit(t *testing.T, test func(t *testing.T)) {
	t.Run("PATH", test)
	for _, tk := range filepath.SplitList(os.Getenv("KBUILD_TEST_CUDA")) {
		t.Run(tk, func(t *testing.T) {
			t.Setenv("CUDA_HOME", tk)
			t.Setenv("PATH", filepath.Join(tk, "bin")+":"+os.Getenv("PATH"))
			test(t)
		})
	}
}

var imageRE = regexp.MustCompile(`--image3?=kind=(elf|ptx),sm=(\d+[af]?),`)

// TestAllIsThatOfNVCC holds what code = ["all"] and ["all-major"] stand for against the images that nvcc would make.
func TestAllIsThatOfNVCC(t *testing.T) {
	eachToolkit(t, func(t *testing.T) {
		e := example{e2e.New(t)}
		e.Write("a.cu", "__global__ void k() {}\n")
		for _, set := range []string{"all", "all-major"} {
			e.Write("kernels.hcl", `library "a" {
  sources = ["a.cu"]
  mode    = "whole"
  code    = ["`+set+`"]
}
`)
			var want []string
			_, steps := e.Run("nvcc", "--dryrun", "-c", "-arch="+set, "a.cu", "-o", "a.o")
			for _, m := range imageRE.FindAllStringSubmatch(steps, -1) {
				want = append(want, map[string]string{"elf": "sm_", "ptx": "compute_"}[m[1]]+m[2])
			}
			out, _ := e.Run("kbuild", "plan", "--no-split", "--json")
			got := archsOf(t, out)
			slices.Sort(want)
			if len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s:\nkbuild %q\nnvcc   %q", set, got, want)
			}
		}
	})
}

// archsOf are the architectures of all compiles of a plan, sorted.
func archsOf(t *testing.T, plan string) (archs []string) {
	t.Helper()
	var p struct {
		Actions []struct {
			Kind  string
			Archs []string
		}
	}
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		t.Fatalf("%v: %s", err, plan)
	}
	for _, a := range p.Actions {
		if a.Kind == "compile" {
			archs = append(archs, a.Archs...)
		}
	}
	slices.Sort(archs)
	return slices.Compact(archs)
}

// TestSuffixedTargets builds programs and modules for one chip alone and for a family, in every mode, taken apart and in one piece.
func TestSuffixedTargets(t *testing.T) {
	eachToolkit(t, func(t *testing.T) {
		e := realProject(t, "suffixes")
		if help, _ := e.Run("nvcc", "--help"); !strings.Contains(help, "'sm_100f'") {
			t.Skip("this toolkit has no code for families")
		}
		e.Kbuild()
		e.Kbuild("--no-split", "--build-dir", "plain")
		e.Run("sh", "-c", "kbuild precompile --verify build/modules/*.json")
		for _, file := range []string{"bin/whole", "bin/rdc", "bin/lto", "modules/linked.fatbin"} {
			said, _ := e.Run("kbuild", "inspect", "build/"+file)
			for _, code := range []string{"sm_90a ", "sm_100f "} {
				if !strings.Contains(said, " "+code) {
					t.Errorf("%s holds no %s:\n%s", file, code, said)
				}
			}
			if e.DeviceCode("build/"+file) != e.DeviceCode("plain/"+file) {
				t.Errorf("the code of %s differs from nvcc's", file)
			}
		}
	})
}
