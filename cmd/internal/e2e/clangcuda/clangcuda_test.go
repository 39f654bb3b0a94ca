package clangcuda_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// clangProject unpacks testdata/clangcuda.txtar, to be built by an installed clang++ with the
// toolkit of nvcc.
func clangProject(t *testing.T) *example {
	t.Helper()
	e := realProject(t, "clangcuda")
	e.clang = tooltest.ClangCUDA(t)
	e.Edit("kernels.hcl", "clang++-15", e.clang)
	return e
}

// clangCUDA compiles a source as a user of clang does, for sm_80 and sm_86, whose PTX is included
// as well.
func (e *example) clangCUDA(source string, more ...string) []byte {
	e.T.Helper()
	path := "/usr/lib/cuda"
	if _, err := os.Stat(path); err != nil {
		path = "/usr/local/cuda"
	}
	argv := []string{e.clang, "-Wno-unknown-cuda-version", "--cuda-path=" + path, "-O2", "-x", "cuda",
		"--cuda-gpu-arch=sm_80", "--cuda-gpu-arch=sm_86", "--no-cuda-include-ptx=sm_80",
		"-Xarch_device", "-ffast-math", "-Xarch_device", "-fgpu-flush-denormals-to-zero"}
	e.Run(slices.Concat(argv, more, []string{"-c", source, "-o", "plain.o"})...)
	return e.Read("plain.o")
}

// equalsClang compares the objects of build trees with clang's own, byte for byte.
func (e *example) equalsClang(trees ...string) {
	e.T.Helper()
	for _, o := range []struct {
		source, object string
		flags          []string
	}{
		{"a.cu", "executable.app/a.cu.o", nil},
		{"nothing.cu", "executable.app/nothing.cu.o", nil},
		{"scale.cu", "library.scale/scale.cu.o", []string{"-fPIC"}},
	} {
		want := e.clangCUDA(o.source, o.flags...)
		for _, tree := range trees {
			if !bytes.Equal(e.Read(tree+"/obj/"+o.object), want) {
				e.T.Errorf("%s: the object of %s is not clang's", tree, o.source)
			}
		}
	}
	for _, tree := range trees {
		if printed, _ := e.Run(tree + "/bin/app"); !strings.Contains(printed, "no GPU") && printed != "" {
			e.T.Errorf("%s: the program says %q", tree, printed)
		}
	}
	e.Run("rm", "plain.o")
}

// The objects are clang's, and those of another folder. As one command clang makes the same
// objects, and names in its dependency file the headers of the host's pass alone.
func TestClangCUDAEqualsClang(t *testing.T) {
	t.Parallel()
	e := clangProject(t)
	e.Share()
	e.Kbuild()
	e.Kbuild("--no-split", "--build-dir", "one")
	e.equalsClang("build", "one")
	e.Settled("build/bin/app", "build/lib/libscale.so", "build/obj/executable.app/a.cu.o")
	if !tooltest.All() {
		return
	}
	e.Elsewhere([]string{"a.cu"}, "build/obj/executable.app/a.cu.o")

	e.Edit("only86.h", "86.0f", "86.5f")
	e.Ran("a header of sm_86 alone", "compile 2, link 1, shared-link 1", "--no-split", "--build-dir", "one")
	if !bytes.Equal(e.Read("one/obj/library.scale/scale.cu.o"), e.clangCUDA("scale.cu", "-fPIC")) {
		t.Error("the object is of the header as it was")
	}
}

func TestClangCUDAEdits(t *testing.T) {
	t.Parallel()
	e := clangProject(t)
	e.Share()
	e.Kbuild()
	program := e.Read("build/bin/app")

	e.Edit("a.cu", "__global__", "// a line\n__global__")
	e.Ran("a line", "device-code 2, host-part 1")
	e.Edit("only86.h", "86.0f;", "86.0f; /* only here */")
	e.Ran("a comment that sm_86 reads", "device-code 2")
	if !bytes.Equal(e.Read("build/bin/app"), program) {
		t.Error("comments change the program")
	}
	e.Edit("only86.h", "86.0f", "86.5f")
	e.Ran("code of sm_86", "device-code 2, fatbinary 1, join 1, link 1, ptxas 1, shared-link 1")
	e.Edit("a.cu", "return host();", "return host() + 1;")
	e.Ran("host code", "device-code 2, host-part 1, join 1, link 1")

	const more = `archs=["sm_70","sm_80","sm_86","compute_86"]`
	e.Ran("an architecture more", "device-code 3, fatbinary 3, join 3, link 1, ptxas 3, shared-link 1", "--var", more)
	if got := e.ELFs("build/bin/app"); got != "sm_70 sm_80 sm_86" {
		t.Errorf("the program has code of %s", got)
	}
	e.Ran("back", "")
}

// A device library enters every compile, unasked and in no dependency file.
func TestClangCUDADeviceLibrary(t *testing.T) {
	t.Parallel()
	e := clangProject(t)
	out, _ := e.Run("kbuild", "graph", "--format", "json")
	var g struct {
		Actions []struct {
			Kind   string
			Inputs []string
		}
	}
	if err := json.Unmarshal([]byte(out), &g); err != nil {
		t.Fatal(err)
	}
	for _, a := range g.Actions {
		isLib := func(in string) bool { return strings.Contains(in, "libdevice") }
		if a.Kind == "device-code" && !slices.ContainsFunc(a.Inputs, isLib) {
			t.Errorf("a compile of device code reads %q", a.Inputs)
		}
	}
}

// What clang does not do is said with its place in the manifest, before anything is compiled.
func TestClangCUDARefuses(t *testing.T) {
	t.Parallel()
	e := clangProject(t)
	version, _ := e.Run(e.clang, "-dumpversion")
	unknown, last := "sm_90", "sm_86"
	if tooltest.ClangMajor(t) > 15 {
		unknown, last = "sm_100", "sm_90"
	}
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown architecture", []string{"--arch", unknown},
			[]string{"--arch " + unknown + ": clang " + strings.TrimSpace(version) + " with CUDA", "does not know it", last}},
		{"rdc", []string{"--var", "mode=rdc"},
			[]string{"compiles CUDA in mode whole, not in mode rdc", "mode      = var.mode", `Set mode = "whole"`}},
		{"lto", []string{"--var", "mode=lto"}, []string{"compiles CUDA in mode whole, not in mode lto"}},
		{"PTX alone", []string{"--arch", "sm_80,compute_86"}, []string{"ships compute_86 without sm_86", "Add sm_86."}},
		{"architecture as a flag", []string{"--var", `flags=["--cuda-gpu-arch=sm_80"]`}, []string{"kbuild derives --cuda-gpu-arch=sm_80 itself"}},
		{"another toolkit as a flag", []string{"--var", `flags=["--cuda-path=/elsewhere"]`},
			[]string{"would compile with another toolkit", "set CUDA_HOME"}},
		{"a flag that clang does not know", []string{"--var", `flags=["-fno-such-flag"]`}, []string{"unknown argument: '-fno-such-flag'"}},
	} {
		_, printed, status := e.Fails(tt.args...)
		for _, want := range tt.want {
			if status != e2e.ExitUsage || !strings.Contains(printed, want) {
				t.Errorf("%s: status %d, without %q:\n%s", tt.name, status, want, printed)
			}
		}
	}
	e.Edit("kernels.hcl", "fast_math = true", "fast_math = true\n  prec_div  = true")
	if _, printed, _ := e.Fails(); !strings.Contains(printed, "clang has no option for prec_div") || !strings.Contains(printed, "prec_div  = true") {
		t.Error(printed)
	}
}

// Flags of nvcc reach nvcc alone, and that is said unless there are flags for clang as well.
func TestClangCUDAFlags(t *testing.T) {
	t.Parallel()
	e := clangProject(t)
	e.Edit("kernels.hcl", "clang = var.flags", `clang = var.flags, nvcc = ["--no-such-option"]`)
	if _, printed, status := e.Fails(); status != e2e.ExitUsage || !strings.Contains(printed, "does not get flags.nvcc (--no-such-option)") {
		t.Errorf("status %d\n%s", status, printed)
	}
	e.Kbuild("--var", `flags=["-DNAME=1"]`, "nothing.cu")
	out, _ := e.Run("kbuild", "compdb", "--var", `flags=["-DNAME=1"]`)
	if !strings.Contains(out, `"-DNAME=1"`) || strings.Contains(out, "no-such-option") || !strings.Contains(out, e.clang) {
		t.Error(out)
	}
}
