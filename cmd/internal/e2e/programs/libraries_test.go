package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// A program that is linked with the shared runtime of a toolkit outside of the system runs in a
// test as it does by kbuild run.
func TestToolkitLibraries(t *testing.T) {
	t.Parallel()
	all := tooltest.Toolkits(t)
	p := e2e.New(t)
	p.Use(all[len(all)-1])
	p.Write("kernels.hcl", `executable "check" {
  sources = ["check.cu"]
  code    = ["sm_90"]
  cudart  = "shared"
}

test "name" {
  executable = executable.check
}
`)
	p.Write("check.cu", `#include <cstdio>
int main() { printf("runtime: %s\n", cudaGetErrorName(cudaErrorInvalidValue)); }
`)
	out, _ := p.Run("kbuild", "run", "check")
	if p.Run("kbuild", "test"); !strings.HasPrefix(out, "runtime: cudaError") || string(p.Read("build/test/name.log")) != out {
		t.Errorf("kbuild run says %q, kbuild test %q", out, p.Read("build/test/name.log"))
	}
	if _, printed := p.Run("kbuild", "test"); !strings.Contains(printed, "1 passed (1 before)") {
		t.Errorf("again: %s", printed)
	}
}

// What a test loads from the folders of lib_dirs, also behind another library, is among what it
// depends on.
func TestLibrariesAreInputs(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	library := func(folder, name, text string, args ...string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(p.Dir, folder), 0o777); err != nil {
			t.Fatal(err)
		}
		p.Write(name+".c", text)
		p.Run(append([]string{"gcc", "-shared", "-fPIC", "-o", folder + "/lib" + name + ".so", name + ".c"}, args...)...)
	}
	library("third", "w", "int w() { return 1; }\n")
	library("third", "v", "int w(); int v() { return w(); }\n", "-Lthird", "-lw")
	p.Write("loads.c", "#include <stdio.h>\nint v();\nint main() { printf(\"%d\", v()); }\n")
	p.Edit("kernels.hcl", "library \"u\"", `executable "loads" {
  sources  = ["loads.c"]
  libs     = ["v"]
  lib_dirs = ["first", "third"]
}

test "loads" {
  executable = executable.loads
}

library "u"`)
	says := func(what, want string, argv ...string) {
		t.Helper()
		p.Run(append([]string{"kbuild"}, argv...)...)
		if got := string(p.Read("build/test/loads.log")); got != want {
			t.Errorf("%s: it says %s, want %s", what, got, want)
		}
	}
	says("first", "1", "test", "loads")
	library("third", "w", "int w() { return 2; }\n")
	says("another library behind it", "2", "test", "loads")
	says("as a target", "2", "test.loads")
	library("third", "w", "int w() { return 3; }\n")
	says("as a target, another library", "3", "test.loads")
	library("first", "w", "int w() { return 4; }\n")
	says("one that comes before it", "4", "test.loads")
	if got := p.Kbuild("test.loads"); got.Up_to_date != got.Actions {
		t.Errorf("again: %+v", got)
	}
}

// TestSharedNeedsShared links and runs programs whose shared libraries need others, which nothing
// in those libraries leads to. A test depends on all of them.
func TestSharedNeedsShared(t *testing.T) {
	t.Parallel()
	p := e2e.New(t)
	for _, dir := range []string{"ext", "far"} {
		if err := os.Mkdir(filepath.Join(p.Dir, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	shared := func(file, text string, args ...string) {
		t.Helper()
		p.Write("x.c", text)
		p.Run(append([]string{"gcc", "-shared", "-fPIC", "-o", file, "x.c"}, args...)...)
	}
	shared("far/libx1.so", "int x1() { return 1; }\n")
	shared("far/libx2.so", "int x1(); int x2() { return x1(); }\n", "-Lfar", "-lx1")
	shared("ext/libx3.so", "int x2(); int x3() { return x2(); }\n", "-Lfar", "-lx2")
	p.Write("x4.c", "int x3(); int x4() { return x3(); }\n")
	p.Write("x5.c", "int x4(); int x5() { return x4(); }\n")
	p.Write("main.c", "#include <stdio.h>\nint CALLS();\nint main() { printf(\"%d\", CALLS()); }\n")
	programs := []string{"prebuilt", "deps", "libs", "behind", "direct"}
	tests := ""
	for _, name := range programs {
		tests += fmt.Sprintf("test %q {\n  executable = executable.%[1]s\n}\n", name)
	}
	p.Write("kernels.hcl", `prebuilt "x2" {
  shared = "far/libx2.so"
}
prebuilt "x3" {
  shared = "ext/libx3.so"
  deps   = [prebuilt.x2]
}
library "deps" {
  sources = ["x4.c"]
  type    = "shared"
  deps    = [prebuilt.x3]
}
library "libs" {
  sources  = ["x4.c"]
  type     = "shared"
  libs     = ["x3"]
  lib_dirs = ["ext", "far"]
}
library "behind" {
  sources = ["x5.c"]
  type    = "shared"
  deps    = [library.libs]
}
executable "prebuilt" {
  sources = ["main.c"]
  defines = { CALLS = "x3" }
  deps    = [prebuilt.x3]
}
executable "deps" {
  sources = ["main.c"]
  defines = { CALLS = "x4" }
  deps    = [library.deps]
}
executable "libs" {
  sources = ["main.c"]
  defines = { CALLS = "x4" }
  deps    = [library.libs]
}
executable "behind" {
  sources = ["main.c"]
  defines = { CALLS = "x5" }
  deps    = [library.behind]
}
executable "direct" {
  sources  = ["main.c"]
  defines  = { CALLS = "x3" }
  libs     = ["x3"]
  lib_dirs = ["ext", "far"]
}
`+tests)
	for _, linker := range []string{"", "gold"} {
		if linker != "" {
			if _, err := exec.LookPath("ld." + linker); err != nil {
				continue
			}
			p.Edit("kernels.hcl", `prebuilt "x2" {`, "defaults {\n  flags = { link = [\"-fuse-ld="+linker+"\"] }\n}\nprebuilt \"x2\" {")
		}
		if _, printed := p.Run("kbuild", "test"); !strings.Contains(printed, "5 passed") {
			t.Errorf("linker %q: %s", linker, printed)
		}
	}
	for _, name := range programs {
		if out, _ := p.Run("kbuild", "run", name); out != "1" {
			t.Errorf("kbuild run %s prints %q", name, out)
		}
	}
	p.Edit("x4.c", "return x3();", "return x3() + 1;")
	if _, printed := p.Run("kbuild", "test"); !strings.Contains(printed, "5 passed (2 before)") {
		t.Errorf("after an edit of libraries: %s", printed)
	}
	if out, _ := p.Run("kbuild", "run", "behind"); out != "2" {
		t.Errorf("after an edit of libraries, kbuild run behind prints %q", out)
	}
}

// A test that needs a GPU is told which to use.
func TestChosenGPU(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.Edit("check.cpp", `"WHO"`, `"CUDA_VISIBLE_DEVICES"`)
	p.Edit("check.cpp", `getenv("WHO")`, `getenv("CUDA_VISIBLE_DEVICES")`)
	if _, status := p.Status([]string{"CUDA_VISIBLE_DEVICES=3"}, "kbuild", "test.gpu", "test.good"); status != 0 {
		t.Fatalf("status %d", status)
	}
	if gpu, good := string(p.Read("build/test/gpu.log")), string(p.Read("build/test/good.log")); !strings.Contains(gpu, "who 3") || !strings.Contains(good, "who -") {
		t.Errorf("it says %q, and the other %q", gpu, good)
	}
}
