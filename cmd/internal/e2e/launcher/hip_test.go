package launcher_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// hipProject is a project that hipcc compiles. Names below it are the same wherever it lies.
func hipProject(t *testing.T) *project {
	t.Helper()
	p := &project{e2e.Bare(t).Unpack("hip")}
	p.Need("hipcc")
	p.Env = append(p.Env, "HIP_PLATFORM=amd", "TMPDIR="+t.TempDir(), "KBUILD_BASE_DIR="+p.Dir)
	return p
}

// sameHIP holds all that a command made against what it makes plainly, byte by byte.
func (p *project) sameHIP(plain, mine run) {
	p.T.Helper()
	p.sameWords(plain, mine)
	for name, text := range plain.files {
		if !bytes.Equal(mine.files[name], text) {
			p.T.Errorf("%s is other than plainly: %d bytes and %d", name, len(mine.files[name]), len(text))
		}
	}
}

// named is what the sources of all commands are called: clang's own name is a hash of the absolute
// path, and kbuild's of that in the project.
const named = "-cuid=abc"

// With the new driver clang 15 gives a static variable another name on the device than in host
// code.
var hipCommands = map[string][]string{
	"whole":        {"-Iinc", "--offload-arch=gfx906", "--offload-arch=gfx90a", "-MD", "-MF", "out/h.d", "-c", "h.hip", "-o", "out/h.o"},
	"rdc":          {"-Iinc", "--offload-arch=gfx906", "--offload-arch=gfx90a", "-fgpu-rdc", "-DCALLS", "-MD", "-c", "h.hip", "-o", "out/h.o"},
	"lto":          {"-Iinc", "--offload-arch=gfx90a:xnack-", "-fgpu-rdc", "-foffload-lto", "-DCALLS", "-MMD", "-MP", "-MT", "a b", "-MF", "out/h.d", "-c", "h.hip", "-o", "out/h h.o"},
	"CMake":        {"-DWHERE", "-I@/inc", "-O3", "-DNDEBUG", "-std=gnu++17", "--offload-arch=gfx906", "-MD", "-MT", "x/h.o", "-MF", "out/h.o.d", "-o", "out/h.o", "-x", "hip", "-c", "@/h.hip"},
	"torch":        {"-Iinc", "-fPIC", "-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", "-O3", "-std=c++17", "--offload-arch=gfx906", "--offload-arch=gfx90a", "-fno-gpu-rdc", "-c", "h.hip", "-o", "out/h.o"},
	"C++":          {"-Iinc", "--offload-arch=gfx906", "-c", "h.cpp", "-o", "out/h.o"},
	"CUDA":         {"-Iinc", "--offload-arch=gfx906", "-c", "h.cu", "-oout/h.o"},
	"phony rules":  {"-Iinc", "--offload-arch=gfx906,gfx90a", "-MD", "-MP", "-MQ", "$a b", "-MF", "out/h.d", "-c", "./h.hip", "-o", "out/h.o"},
	"own":          {"-isystem", "inc", "--offload-arch=gfx906", "-MMD", "-MF", "out/h.d", "-c", "h.hip", "-o", "./out/h.o"},
	"warnings":     {"-Iinc", "--offload-arch=gfx90a", "--offload-arch=gfx906", "-DWARN", "-Wall", "-Wextra", "-c", "h.hip", "-o", "out/h.o"},
	"debug":        {"-Iinc", "-g", "--offload-arch=gfx906", "-c", "h.hip", "-o", "out/h.o"},
	"new driver":   {"-Iinc", "-DOPEN", "--offload-new-driver", "--offload-arch=gfx906", "--offload-arch=gfx90a", "-fgpu-rdc", "-DCALLS", "-c", "h.hip", "-o", "out/h.o"},
	"for one side": {"-Iinc", "-Xarch_device", "-ffp-contract=off", "-Xarch_host", "-g", "--offload-arch=gfx906", "-c", "h.hip", "-o", "out/h.o"},
}

// TestHIPCommands has compiles by hipcc do the same as plainly, and once more from the cache.
func TestHIPCommands(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	p := hipProject(t)
	for _, name := range []string{"h.cpp", "h.cu"} { // which hipcc takes for HIP
		p.Write(name, string(p.Read("h.hip")))
	}
	for _, name := range tooltest.Sample(hipCommands, "whole", "lto", "warnings") {
		argv := []string{"hipcc", named}
		for _, a := range hipCommands[name] {
			argv = append(argv, strings.ReplaceAll(a, "@", p.Dir))
		}
		plain := p.command(argv...)
		p.sameHIP(plain, p.command(append([]string{"kbuild", "cc", "--"}, argv...)...))
		e := p.last()
		if e.Result == "left" && strings.Contains(plain.stderr, named) { // clang 17 does not know the option with the new driver
			continue
		}
		if e.Result != "miss" || plain.status != 0 {
			t.Errorf("%s: %+v", name, e)
		}
		p.sameHIP(plain, p.command(append([]string{"kbuild-cc"}, argv...)...))
		if e := p.last(); e.Result != "hit" || e.Ran > 0 {
			t.Errorf("%s, again: %+v", name, e)
		}
		if t.Failed() {
			t.Fatalf("%s: %q", name, argv)
		}
	}
}

// hipEdits are edits as those of TestEdits, the passes that run for them, -1 for any, and those of
// them that link code of an architecture: in mode whole that is a pass of its own with clang 23.
var hipEdits = []struct {
	edit
	ran, linked int
}{
	{edit{name: "host code alone", files: map[string]string{"onlyhost.h": "#define HOSTVALUE 64\n"}}, 2, 0}, // the host's code, join
	{edit{name: "a header of the second architecture alone", files: map[string]string{"only90a.h": "#undef VALUE\n#define VALUE 99\n"}}, 3, 1},
	{edit{name: "a shared header", files: map[string]string{"inc/h.h": "#pragma once\n#define VALUE 8\n"}}, 5, 2},
	{edit{name: "a comment in a shared header", files: map[string]string{"inc/h.h": "// here\n#pragma once\n#define VALUE 7\n"}, same: true}, 3, 0},
	{edit{name: "a folder of the environment", env: []string{"CPATH=other"}, files: map[string]string{"other/optional.h": "#define SCALE 11\n"}}, -1, 0},
	{edit{name: "a header that comes before another", files: map[string]string{"inc/inc/maybe there.h": "#define SCALE 8\n"}, same: true}, -1, 0},
	{edit{name: "a header that was looked for", files: map[string]string{"optional.h": "#define SCALE 12\n"}}, 5, 2},
	{edit{name: "a macro", args: []string{"-DSCALE=13"}}, -1, 0},
	{edit{name: "an architecture more", args: []string{"--offload-arch=gfx1030"}}, 3, 1}, // its code, bundle, join
	{edit{name: "appended flags", env: []string{"HIPCC_COMPILE_FLAGS_APPEND=-DSCALE=5"}}, -1, 0},
	{edit{name: "a header that goes", gone: []string{"onlyhost.h"}}, -1, 0},
	{edit{name: "a fault", files: map[string]string{"h.hip": "__global__ void other(int *x) { *x = y; }\n"}}, -1, 0},
}

// TestHIPEdits makes one edit after another, as TestEdits.
func TestHIPEdits(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	p := hipProject(t)
	argv := []string{"hipcc", named, "-Iinc", "--offload-arch=gfx906", "--offload-arch=gfx90a", "-MD", "-MF", "out/h.d", "-c", "h.hip", "-o", "out/h.o"}
	first := p.command(argv...)
	p.sameHIP(first, p.command(append([]string{"kbuild", "cc"}, argv...)...))
	for _, e := range hipEdits {
		undo := p.make(e.edit)
		call := slices.Concat(argv, e.args)
		plain := p.command(call...)
		p.sameHIP(plain, p.command(append([]string{"kbuild-cc"}, call...)...))
		if last := p.last(); last.Result == "hit" && !e.same || e.ran >= 0 && last.Ran != e.ran && last.Ran != e.ran+e.linked {
			t.Errorf("%s: %+v", e.name, last)
		}
		undo()
		p.sameHIP(first, p.command(append([]string{"kbuild-cc"}, argv...)...))
		if last := p.last(); last.Result != "hit" {
			t.Errorf("%s, taken back: %+v", e.name, last)
		}
		if t.Failed() {
			t.Fatalf("after %s", e.name)
		}
	}
}

// What hipcc does not do as kbuild would is left to it.
func TestHIPLeft(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	p := hipProject(t)
	for argv, why := range map[string]string{
		"hipcc -Iinc -c h.hip -o out/h.o":                                          "names no architecture",
		"hipcc -Iinc --offload-arch=native -c h.hip -o out/h.o":                    "native",
		"hipcc -Iinc --offload-arch=gfx906 -save-temps=obj -c h.hip -o out/h.o":    "beside the object",
		"hipcc -Iinc --offload-arch=gfx906 -fuse-cuid=random -c h.hip -o out/h.o":  "names the source",
		"hipcc -Iinc --offload-arch=gfx906 --cuda-device-only -c h.hip -o out/h.o": "not known",
		"hipcc -Iinc --offload-arch=gfx906 -foffload-lto -c h.hip -o out/h.o":      "without -fgpu-rdc",
		"hipcc -Iinc --offload-arch=gfx906 -Xarch_gfx906 -g -c h.hip -o out/h.o":   "not taken apart",
		"hipcc -Iinc --offload-arch=gfx906 -Wl,-z,now -c h.hip -o out/h.o":         "has something to say",
		"hipcc -Iinc --offload-arch=gfx906 --rocm-path=none -c h.hip -o out/h.o":   "is relative",
	} {
		call := strings.Fields(argv)
		plain := p.command(call...)
		mine := p.command(append([]string{"kbuild-cc"}, call...)...)
		p.sameWords(plain, mine)
		if e := p.last(); e.Result != "left" || !strings.Contains(e.Why, why) {
			t.Errorf("%s: %+v", argv, e)
		}
	}
	// Without HIP_PLATFORM hipcc may compile for NVIDIA.
	bin := t.TempDir()
	p.Run("mkdir", filepath.Join(bin, "bin"))
	p.Run("ln", "-s", "/bin/true", filepath.Join(bin, "bin", "nvcc"))
	p.Env = append(slices.DeleteFunc(p.Env, func(v string) bool { return v == "HIP_PLATFORM=amd" }), "CUDA_PATH="+bin)
	p.command(strings.Fields("kbuild-cc hipcc -Iinc --offload-arch=gfx906 -c h.hip -o out/h.o")...)
	if e := p.last(); e.Result != "left" || !strings.Contains(e.Why, "set HIP_PLATFORM=amd") {
		t.Errorf("with an nvcc: %+v", e)
	}
}
