package clangcuda_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// linkedProject unpacks testdata/linked.txtar, for the newest clang++ whose relocatable code kbuild
// links, 19 or newer, and that compiles an empty source with the toolkit of nvcc.
func linkedProject(t *testing.T) *example {
	t.Helper()
	e := realProject(t, "linked")
	tooltest.Need(t, "nvcc", "ptxas", "nvlink")
	for n := 30; n >= 19; n-- {
		e.clang = fmt.Sprint("clang++-", n)
		if _, err := exec.LookPath(e.clang); err == nil && tooltest.ClangFault(fmt.Sprint("-", n)) == "" {
			break
		}
		if n == 19 {
			t.Skip("cannot be here: no clang++-19 or newer that compiles CUDA")
		}
	}
	e.Edit("kernels.hcl", "clang++-19", e.clang)
	return e
}

// relocatable compiles a source as a user of clang does.
func (e *example) relocatable(mode, source, output string, more ...string) {
	e.T.Helper()
	path := "/usr/lib/cuda"
	if _, err := os.Stat(path); err != nil {
		path = "/usr/local/cuda"
	}
	if home := os.Getenv("CUDA_HOME"); home != "" {
		path = home
	}
	argv := []string{e.clang, "-Wno-unknown-cuda-version", "--cuda-path=" + path, "-O2", "-x", "cuda", "--offload-new-driver", "-fgpu-rdc",
		"--offload-arch=sm_80", "--offload-arch=sm_86"}
	if mode == "lto" {
		argv = append(argv, "-foffload-lto")
	}
	e.Run(slices.Concat(argv, more, []string{"-c", source, "-o", output})...)
}

// Taken apart or not, in another folder or not, the objects are clang's, and the programs are those
// that clang's wrapper links.
func TestClangCUDALinked(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"rdc", "lto"} {
		t.Run(mode, func(t *testing.T) {
			e := linkedProject(t)
			e.Share()
			set := []string{"--var", "mode=" + mode}
			e.Kbuild(set...)
			_, printed := e.Run(append([]string{"kbuild"}, set...)...)
			if whole := mode == "lto" && e.clang == "clang++-19"; strings.Contains(printed, "clang runs as one command for 2 links") != whole {
				t.Errorf("a link as one command is said, or not: %s", printed)
			}
			e.Kbuild(append(set, "--no-split", "--build-dir", "one")...)
			for _, file := range []string{"obj/executable.app/a.cu.o", "obj/library.scale/scale.cu.o", "obj/library.shared/shared.cu.o", "lib/libshared.so", "bin/app"} {
				if !bytes.Equal(e.Read("build/"+file), e.Read("one/"+file)) {
					t.Errorf("%s is another as one command", file)
				}
			}
			e.relocatable(mode, "a.cu", "plain.o", "-Xclang", "-cuid="+e.cuid("a.cu"))
			if !bytes.Equal(e.Read("plain.o"), e.Read("build/obj/executable.app/a.cu.o")) {
				t.Error("the object of a.cu is not clang's")
			}
			e.Run("rm", "plain.o")
			if got := e.ELFs("build/bin/app"); got != "sm_80 sm_86" {
				t.Errorf("the program has code of %s", got)
			}
			for _, kernel := range []string{"wave", "only_host_names"} {
				if functions := strings.Join(e.Functions("build/bin/app"), " "); !strings.Contains(functions, kernel) {
					t.Errorf("the program has no %s: %s", kernel, functions)
				}
			}
			e.Elsewhere(append(set, "a.cu"), "build/obj/executable.app/a.cu.o")
		})
	}
}

// cuid is the id by which clang was run for a source of the program.
func (e *example) cuid(source string) string {
	e.T.Helper()
	out, _ := e.Run("kbuild", "compdb")
	_, rest, ok := strings.Cut(out[strings.Index(out, source):], `"-cuid=`)
	id, _, _ := strings.Cut(rest, `"`)
	if !ok {
		e.T.Fatalf("no id: %s", out)
	}
	return id
}

func TestClangCUDALinkedEdits(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := linkedProject(t)
	e.Share()
	e.Kbuild()
	program := e.Read("build/bin/app")
	e.Edit("a.cu", "__global__", "// a line\n__global__")
	e.Ran("a line", "device-code 2, host-part 1")
	if !bytes.Equal(e.Read("build/bin/app"), program) {
		t.Error("a comment changes the program")
	}
	const more = `archs=["sm_75","sm_80","sm_86"]`
	e.Ran("an architecture more", "archive 1, bundle 4, device-code 4, join 4, link 1, nvlink 2, ptxas 4, shared-link 1", "--var", more)
	if got := e.ELFs("build/bin/app"); got != "sm_75 sm_80 sm_86" {
		t.Errorf("the program has code of %s", got)
	}
}

// An archive of clang's own objects is linked whole; one that lacks an architecture is refused
// before anything is compiled.
func TestClangCUDALinkedPrebuilt(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := linkedProject(t)
	e.Write("kernels.hcl", string(e.Read("kernels.hcl"))+`
executable "other" {
  sources = ["b.cu", "main.cpp"]
  deps    = [library.scale, prebuilt.foreign]
}

prebuilt "foreign" {
  archive = "libforeign.a"
}
`)
	for _, name := range []string{"foreign", "foreignkernel"} {
		e.relocatable("rdc", name+".cu", name+".o")
	}
	e.Run("ar", "qc", "libforeign.a", "foreign.o", "foreignkernel.o")
	e.Kbuild("executable.other")
	if functions := strings.Join(e.Functions("build/bin/other"), " "); !strings.Contains(functions, "of_foreign") || !strings.Contains(functions, "wave") {
		t.Errorf("the program has %s", functions)
	}
	_, printed, status := e.Fails("executable.other", "--arch", "sm_80,sm_75")
	if status != e2e.ExitUsage || !strings.Contains(printed, "needs sm_75, but libforeign.a:foreign.o has sm_80, sm_86 only") {
		t.Errorf("status %d: %s", status, printed)
	}
}
