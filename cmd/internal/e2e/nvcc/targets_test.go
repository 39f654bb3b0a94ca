package nvcc_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// eachToolkit runs a test with every toolkit that is there.
func eachToolkit(t *testing.T, test func(t *testing.T)) {
	for _, tk := range tooltest.Toolkits(t) {
		t.Run(tk.Release, func(t *testing.T) {
			if tk.Root != "" {
				t.Setenv("CUDA_HOME", tk.Root)
				t.Setenv("PATH", filepath.Join(tk.Root, "bin")+":"+os.Getenv("PATH"))
			}
			test(t)
		})
	}
}

var imageRE = regexp.MustCompile(`--image3?=kind=(elf|ptx),sm=(\d+[af]?),`)

// TestAllIsThatOfNVCC holds what code = ["all"] and ["all-major"] stand for against the images that
// nvcc would make.
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

// TestSuffixedTargets builds programs and modules for one chip alone and for a family, in every
// mode, taken apart and in one piece.
func TestSuffixedTargets(t *testing.T) {
	tooltest.Broad(t)
	eachToolkit(t, func(t *testing.T) {
		e := realProject(t, "suffixes")
		if help, _ := e.Run("nvcc", "--help"); !strings.Contains(help, "'sm_100f'") {
			t.Skip("this toolkit has no code for families")
		}
		e.Kbuild()
		e.Kbuild("--no-split", "--build-dir", "plain")
		e.Run("sh", "-c", "kbuild precompile --verify build/modules/*.json")
		for _, file := range []string{"bin/whole", "bin/rdc", "bin/lto", "modules/linked.fatbin"} {
			printed, _ := e.Run("kbuild", "inspect", "build/"+file)
			for _, code := range []string{"sm_90a ", "sm_100f "} {
				if !strings.Contains(printed, " "+code) {
					t.Errorf("%s holds no %s:\n%s", file, code, printed)
				}
			}
			own := filepath.Join(os.Getenv("CUDA_HOME"), "bin", "cuobjdump") // that of 11.8 reads no code of 13
			if e2e.IsExecutable(own) && e.DeviceCode("build/"+file) != e.DeviceCode("plain/"+file) {
				t.Errorf("the code of %s differs from nvcc's", file)
			}
		}
	})
}

// TestNewerPrebuilt links what a newer toolkit has made: the last that KBUILD_TEST_CUDA names, with
// the one before it. Machine code, PTX and LTO-IR that tells its version are refused before
// anything is compiled; nvlink's word on LTO-IR that is scrambled gets the name of the archive.
func TestNewerPrebuilt(t *testing.T) {
	tooltest.Broad(t)
	toolkits := filepath.SplitList(os.Getenv("KBUILD_TEST_CUDA"))
	if len(toolkits) < 2 {
		t.Skip("KBUILD_TEST_CUDA names no two toolkits")
	}
	old, newer := toolkits[len(toolkits)-2], toolkits[len(toolkits)-1]
	t.Setenv("CUDA_HOME", old)
	e := example{e2e.New(t)}
	e.Write("f.cu", "__device__ int f(int x) { return 3 * x; }\n")
	e.Write("a.cu", "__device__ int f(int);\n__global__ void k(int *p) { *p = f(*p); }\nint main() { k<<<1, 1>>>(nullptr); }\n")
	for _, tt := range []struct{ code, mode, options, want string }{
		{"sm_80", "rdc", "", "vendor.a:f.o was made by a newer CUDA than "},
		{"compute_80", "rdc", "", "vendor.a:f.o was made by a newer CUDA than "},
		{"lto_80", "lto", "--compress-mode=none", "vendor.a:f.o was made by a newer CUDA than "},
		{"lto_80", "lto", "", "vendor.a:f.o "},
	} {
		e.Run("sh", "-c", newer+"/bin/nvcc "+tt.options+" -dc -gencode arch=compute_80,code="+tt.code+" f.cu -o f.o && rm -f vendor.a && ar qcsD vendor.a f.o")
		e.Write("kernels.hcl", `prebuilt "vendor" { archive = "vendor.a" }
executable "app" {
  sources = ["a.cu"]
  mode    = "`+tt.mode+`"
  code    = ["sm_80"]
  deps    = [prebuilt.vendor]
}
`)
		_, printed, status := e.Fails()
		if status == 0 || !strings.Contains(printed, tt.want) || strings.HasSuffix(tt.want, " than ") && status != e2e.ExitUsage {
			t.Errorf("%s %s: %d\n%s", tt.code, tt.options, status, printed)
		}
	}
}

// TestPackedCode packs device code in every way that the toolkit knows: kernels are listed, modules
// fit their manifests, and a prebuilt archive has the architectures that its users link for,
// without LTO and with it.
func TestPackedCode(t *testing.T) {
	tooltest.Broad(t)
	namedToolkit(t)
	e := realProject(t, "packed")
	help, _ := e.Run("nvcc", "--help")
	for _, packing := range []string{"-Xfatbin=-compress-all", "--compress-mode=none", "--compress-mode=size", "--compress-mode=speed", "--compress-mode=balance", "--concat"} {
		if option, _, _ := strings.Cut(packing, "="); !strings.Contains(help, option+" ") && strings.HasPrefix(packing, "--") {
			continue
		}
		for _, code := range []string{"sm", "lto"} {
			e.Run("sh", "-c", "nvcc "+packing+" -dc -gencode arch=compute_80,code="+code+"_80 -gencode arch=compute_90,code="+code+"_90 f.cu -o f.o && rm -f "+code+".a && ar qcsD "+code+".a f.o")
		}
		e.Edit("kernels.hcl", "PACKING", packing)
		e.Kbuild()
		e.Run("sh", "-c", "kbuild precompile --verify build/modules/*.json")
		printed, _ := e.Run("kbuild", "inspect", "build/modules/m.fatbin")
		for _, arch := range []string{"sm_80", "sm_90", "compute_90"} {
			if !regexp.MustCompile(`(?m)^  ` + arch + ` .* m\(int\*\)$`).MatchString(printed) {
				t.Errorf("%s: no kernel for %s is listed:\n%s", packing, arch, printed)
			}
		}
		e.Edit("kernels.hcl", packing, "PACKING")
	}
}
