package nvcc_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// hostCalls are the functions of the project that one of them calls in the host code of a program.
func (e *example) hostCalls(file, from string) string {
	e.T.Helper()
	e.Need("objdump")
	out, _ := e.Run("objdump", "-d", "--no-show-raw-insn", "--disassemble="+from, file)
	var found []string
	for _, m := range regexp.MustCompile(`(?:call|jmp) .*<(?:_Z\d+)?(scale|offset|plain|exported|inner|weight|window)\w*(?:@plt)?>`).FindAllStringSubmatch(out, -1) {
		found = append(found, m[1])
	}
	if !strings.Contains(out, "<"+from+">:") {
		e.T.Fatalf("no %s in %s", from, file)
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

func TestExampleHostLTO(t *testing.T) {
	t.Parallel()
	e := realExample(t, "host-lto")
	e.Kbuild()
	if got := e.hostCalls("build/bin/app", "main"); got != "" {
		t.Errorf("with LTO main calls %s", got)
	}
	if got := e.Calls("build/bin/app", "filter"); got != "" {
		t.Errorf("with LTO the kernel calls %s", got)
	}
	e.Kbuild("--profile", "dev")
	if got := e.hostCalls("build/dev/bin/app", "main"); got != "weight window" {
		t.Errorf("without LTO main calls %q", got)
	}
	e.Run("build/bin/app")
	e.Settled("build/bin/app")
	// What is not the argument of a compile is noticed at the link.
	e.Edit("src/window.c", "width - 1", "width - 2")
	e.Ran("a C source", "archive 1, host-compile 1, link 1, slice 2")
}

// hostLTO checks a project of both kinds of libraries.
func hostLTO(t *testing.T, e *example, args ...string) {
	t.Helper()
	_, printed := e.Run(slices.Concat([]string{"kbuild", "--progress", "plain"}, args)...)
	if strings.Contains(printed, "arning") {
		t.Errorf("the build says:\n%s", printed)
	}
	if got := e.hostCalls("build/bin/app", "_Z4worki"); got != "exported plain" {
		t.Errorf("%q: work calls %q; want those of the shared library and of the one without LTO", args, got)
	}
	if got := e.hostCalls("build/lib/libshared.so", "_Z8exportedi"); got != "" {
		t.Errorf("%q: in the shared library exported calls %s", args, got)
	}
	if got := e.Calls("build/bin/app", "kernel"); got != "_Z3devi" {
		t.Errorf("%q: the kernel calls %q", args, got)
	}
	if out, _ := e.Run("build/bin/app"); out != "1006\n" {
		t.Errorf("%q: it says %q", args, out)
	}
	if c := e.Kbuild(args...); c.Up_to_date != c.Actions {
		t.Errorf("%q, again: %+v", args, c)
	}
	e.Run("rm", "-rf", "build")
	if c := e.Kbuild(args...); c.Ran != 0 {
		t.Errorf("%q, restored: %+v", args, c)
	}
}

// remoteHostLTO builds what hostLTO did in another folder.
func remoteHostLTO(e *example, args ...string) {
	e.Elsewhere(args, "build/bin/app", "build/lib/libmixed.a", "build/lib/libshared.so", "build/obj/library.mixed/scale.cpp.o")
}

func TestRealHostLTO(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "hostlto")
	hostLTO(t, e)
	remoteHostLTO(e)
	e.Kbuild("--var", "kind=none")
	if got := e.hostCalls("build/bin/app", "_Z4worki"); got != "exported offset plain scale" {
		t.Errorf("without LTO work calls %q", got)
	}
	cmd := e.Command("kbuild", "--var", "kind=thin")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is gcc, which has no ThinLTO") || !strings.Contains(string(out), `18 |   host_lto = var.kind`) {
		t.Errorf("thin with gcc: %v\n%s", err, out)
	}
}

func TestRealHostLTOClang(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "hostlto")
	clang := "clang=" + tooltest.ClangHost(t)
	for _, kind := range []string{"full", "thin"} {
		hostLTO(t, e, "--var", clang, "--var", "kind="+kind)
	}
	remoteHostLTO(e, "--var", clang, "--var", "kind=thin") // whose symbols are the ones that may be named by their module
	e.Kbuild("--var", clang, "--no-split")
	if got := e.Calls("build/bin/app", "kernel"); got != "_Z3devi" {
		t.Errorf("nvcc as one command: the kernel calls %q", got)
	}
}
