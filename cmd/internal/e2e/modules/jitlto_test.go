package modules_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// Without nvJitLink and without a GPU the program says so, and that nothing is wrong.
func TestExampleJITLTO(t *testing.T) {
	t.Parallel()
	e := realExample(t, "jit-lto")
	e.Share()
	e.Kbuild()
	for _, c := range []struct {
		args   string
		status int
		say    string
	}{
		{"--arch sm_80 swish", 2, "there is no callback op=swish; there are op=square op=relu op=gelu"},
		{"--frob", 2, "usage: transform [--arch sm_80] [--fatbin] [OP]"},
	} {
		printed, status := e.Status(nil, append([]string{"build/bin/transform"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(printed, c.say) {
			t.Errorf("%s: status %d:\n%s", c.args, status, printed)
		}
	}
	// An unreadable library is found before any other of the name.
	e.Run("sh", "-c", "mkdir none; echo no library >none/libcuda.so.1; for n in 12 13; do cp none/libcuda.so.1 none/libnvJitLink.so.$n; done")
	printed, status := e.Status([]string{"LD_LIBRARY_PATH=none"}, "build/bin/transform", "--arch", "sm_80")
	if status != 77 || !strings.Contains(printed, "no GPU: ") || !regexp.MustCompile(`transform: none/libnvJitLink\.so\.1[23]: `).MatchString(printed) {
		t.Errorf("without libraries: status %d:\n%s", status, printed)
	}
	e.Settled("build/bin/transform")
}

// Where there is a driver and no nvJitLink, the driver links; the kernel runs, and its results are
// looked at.
func TestExampleJITLTODriver(t *testing.T) {
	t.Parallel()
	e := realExample(t, "jit-lto")
	e.Share()
	e.Kbuild()
	source, err := filepath.Abs("testdata/driver/libcuda.c")
	if err != nil {
		t.Fatal(err)
	}
	e.Run("sh", "-c", "mkdir fake; echo no library >fake/libnvJitLink.so.12; cat src/callbacks/square.cu src/transform.cu >both.cu")
	e.Run("g++", "-x", "c", "-shared", "-fPIC", "-w", "-o", "fake/libcuda.so.1", source)
	e.Run("nvcc", "-cubin", "-arch=sm_80", "-rdc=true", "-Isrc", "-o", "linked.cubin", "both.cu")
	env := []string{"LD_LIBRARY_PATH=fake", "FAKE_CUBIN=linked.cubin"}
	for _, kind := range []string{"lto_75.ltoir", "fatbin"} {
		args := []string{"build/bin/transform", "square"}
		if kind == "fatbin" {
			args = append(args, "--fatbin")
		}
		printed, status := e.Status(env, args...)
		for _, want := range []string{"fake driver: transform." + kind, "fake driver: callbacks.square." + kind, "linked by the driver",
			"1000 elements on Fake GPU 7: as on the CPU"} {
			if status != 0 || !strings.Contains(printed, want) {
				t.Errorf("%q: status %d, and not %q:\n%s", args, status, want, printed)
			}
		}
	}
	if printed, status := e.Status(env, "build/bin/transform", "relu"); status != 1 || !strings.Contains(printed, "relu(-5) is 0, the GPU says 25") {
		t.Errorf("a wrong result: status %d:\n%s", status, printed)
	}
	env[1] = "FAKE_CUBIN=nowhere"
	if printed, status := e.Status(env, "build/bin/transform"); status != 1 || !strings.Contains(printed, "cuLinkComplete: the fake driver refuses\nfake log") {
		t.Errorf("a link that fails: status %d:\n%s", status, printed)
	}
}

// toolkit12 is the folder of a CUDA toolkit that has nvJitLink 12, "" if there is none.
func toolkit12() string {
	for _, pattern := range []string{"/usr/local/cuda-12*", "/usr/local/cuda", "/opt/cuda-12*", "/opt/cuda"} {
		found, _ := filepath.Glob(pattern + "/lib64/libnvJitLink.so.12")
		for _, lib := range found {
			if root := filepath.Dir(filepath.Dir(lib)); e2e.IsExecutable(filepath.Join(root, "bin/nvcc")) {
				return root
			}
		}
	}
	return ""
}

// nvJitLink links what was built, for GPUs that are not there, and inlines the callback.
func TestExampleJITLTONvJitLink(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	root := toolkit12()
	if root == "" {
		t.Skip("needs a CUDA 12 toolkit with nvJitLink")
	}
	e := realExample(t, "jit-lto")
	env := []string{"LD_LIBRARY_PATH=" + filepath.Join(root, "lib64")}
	link := func(arch, op string, more ...string) (string, int) {
		t.Helper()
		return e.Status(env, append([]string{"build/bin/transform", "--arch", arch, op}, more...)...)
	}
	e.Kbuild()
	if version, _ := e.Run("nvcc", "--version"); strings.Contains(version, "release 11.") {
		if printed, status := link("sm_80", "gelu"); status != 1 || !strings.Contains(printed, "incompatible with current version") {
			t.Errorf("LTO-IR of CUDA 11: status %d:\n%s", status, printed)
		}
	}
	e.Write("kernels.hcl", string(e.Read("kernels.hcl"))+"toolchain \"cuda\" {\n  compiler = \""+root+"/bin/nvcc\"\n}\n")
	e.Kbuild()
	linked := func(printed string, status int) bool {
		return (status == 77 || status == 0) && strings.Contains(printed, "linked by nvJitLink 12.")
	}
	for _, op := range []string{"square", "relu", "gelu"} {
		for _, more := range [][]string{nil, {"--fatbin"}} {
			if printed, status := link("sm_80", op, more...); !linked(printed, status) || !strings.Contains(printed, "the callback is inlined") {
				t.Errorf("%s %s: status %d:\n%s", op, more, status, printed)
			}
		}
	}
	if printed, status := link("sm_70", "gelu"); status != 1 || !strings.Contains(printed, "LTOIR arch newer than target arch") {
		t.Errorf("for a GPU older than the LTO-IR: status %d:\n%s", status, printed)
	}
	e.Edit("src/callbacks/gelu.cu", "__device__ float", "__device__ __noinline__ float")
	e.Kbuild()
	if printed, status := link("sm_90", "gelu"); !linked(printed, status) || !strings.Contains(printed, "the kernel still calls $transform$callback") {
		t.Errorf("not to be inlined: status %d:\n%s", status, printed)
	}
}

// What the program brings when it links is declared, and a check takes it for defined; without that
// it is named, with what to do.
func TestRealLateBound(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realExample(t, "jit-lto")
	e.Kbuild("--check-link", "sm_80,sm_90")
	e.Edit("kernels.hcl", `"callback"]`, `"other"]`)
	if _, printed, status := e.Fails("module.transform", "--check-link", "sm_80"); status == 0 || !strings.Contains(printed, "nothing defines callback; add the module that does to its deps (kernels.hcl:13), or name it in late_bound") {
		t.Errorf("a name that is not declared: %d %s", status, printed)
	}
}
