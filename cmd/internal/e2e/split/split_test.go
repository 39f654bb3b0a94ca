package split_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// TestSplitEqualsNVCC builds a project of many kinds of code in both ways.
func TestSplitEqualsNVCC(t *testing.T) {
	t.Parallel()
	e := realProject(t, "split")
	e.Share()
	var targets []string
	if !tooltest.All() {
		targets = []string{"executable.lto", "executable.mixed", "executable.whole", "executable.debug", "module.linked"}
	}
	c := e.Kbuild(append(targets, "-k0")...)
	if c.Ran+c.Failed+c.Skipped > 0 {
		t.Fatalf("taken apart: %+v", c)
	}
	if w := e.Kbuild(append(targets, "-k0", "--no-split", "--build-dir", "plain")...); w.Ran != w.Actions || w.Actions >= c.Actions {
		t.Fatalf("in one piece: %+v", w)
	}
	var programs []string
	for _, dir := range []string{"bin", "modules"} {
		files, _ := filepath.Glob(filepath.Join(e.Dir, "build", dir, "*"))
		for _, f := range files {
			programs = append(programs, dir+"/"+filepath.Base(f))
		}
	}
	if len(programs) < map[bool]int{false: 6, true: 18}[tooltest.All()] {
		t.Errorf("only %q were built", programs)
	}
	for _, p := range programs {
		if strings.HasSuffix(p, ".ltoir") {
			continue // holds its module id, encrypted
		}
		if strings.HasSuffix(p, ".json") {
			if split, whole := e.Kernels("build/"+p), e.Kernels("plain/"+p); split != whole {
				t.Errorf("%s tells of other kernels than for nvcc's files:\n%s\nwant:\n%s", p, split, whole)
			}
			continue
		}
		if strings.HasSuffix(p, ".ptx") {
			ptx := func(dir string) string { return e2e.ModuleID.ReplaceAllString(string(e.Read(dir+"/"+p)), "<id>") }
			if ptx("build") != ptx("plain") {
				t.Errorf("%s differs from nvcc's", p)
			}
			continue
		}
		if split, whole := e.DeviceCode("build/"+p), e.DeviceCode("plain/"+p); split != whole {
			at := 0
			for at < min(len(split), len(whole)) && split[at] == whole[at] {
				at++
			}
			t.Errorf("the code of %s differs from nvcc's:\n%.300s\nwant:\n%.300s", p, split[max(0, at-100):], whole[max(0, at-100):])
		}
		if list := func(dir string) string {
			out, _ := e.Run("cuobjdump", "-lelf", "-lptx", dir+"/"+p)
			return out
		}; !strings.HasSuffix(p, "bin") && list("build") != list("plain") {
			t.Errorf("%s holds other images than nvcc's:\n%s\nwant:\n%s", p, list("build"), list("plain"))
		}
	}
	for _, p := range programs {
		if strings.HasPrefix(p, "bin/") {
			e.Run("build/" + p)
		}
	}
	left, _ := filepath.Glob(filepath.Join(e.Dir, "*"))
	var names []string
	for _, l := range left {
		names = append(names, filepath.Base(l))
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, ".int.") }) {
		t.Errorf("files were left in the project: %q", names)
	}
}

// TestSplitReproducible builds in two folders, at different widths, and takes nothing of the one
// for the other: every file is the same.
func TestSplitReproducible(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	a, b := realProject(t, "split"), realProject(t, "split")
	a.Share()
	moved := filepath.Join(filepath.Dir(b.Dir), "elsewhere", "and deeper")
	if err := os.MkdirAll(filepath.Dir(moved), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.Dir, moved); err != nil {
		t.Fatal(err)
	}
	b.Dir = moved
	a.Kbuild()
	// Each kind of pass with each kind of name in it: device code of all three modes, lines, a
	// source without names, what a module ships.
	b.Kbuild("-j1", "--no-cache", "executable.partial", "executable.lines", "executable.whole", "module.m")
	files := 0
	err := filepath.WalkDir(filepath.Join(b.Dir, "build"), func(p string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(b.Dir, p)
		if err != nil || d.Name() == ".kbuild" {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() && !bytes.Equal(a.Read(rel), b.Read(rel)) {
			t.Errorf("%s differs between two folders", rel)
		}
		files++
		return nil
	})
	if err != nil || files < 25 {
		t.Fatalf("%d files: %v", files, err)
	}
	if text := string(a.Read("build/bin/lines")); strings.Contains(text, filepath.Dir(a.Dir)) {
		t.Error("the program names the folder that it was built in")
	}
}

func TestSplitEdits(t *testing.T) {
	t.Parallel()
	e := realProject(t, "edits")
	e.Share()
	e.Kbuild()
	program := e.Read("build/bin/app")

	// b.cu says nothing, so a new line in it costs its preprocessor.
	e.Edit("b.cu", "static", "// a line\nstatic")
	e.Ran("a line", "preprocess 3")
	e.Edit("b.cu", "* 3", "* /* three */  3")
	e.Ran("a comment", "preprocess 3")

	// a.cu has warnings, and a new line moves them: they are said again, and nothing comes of it.
	e.Edit("shared.h", "#pragma once", "#pragma once\n\n// more\n")
	e.Ran("a line in a header", "cicc 2, host-part 1, preprocess 6")
	e.Edit("a.cu", "__global__", "\n\n__global__")
	e.Kbuild()
	if !bytes.Equal(e.Read("build/bin/app"), program) {
		t.Error("lines and comments change the program")
	}

	e.Edit("b.cu", "return quiet(x)", "return 1 + quiet(x)")
	e.Ran("host code", "cicc 2, cudafe++ 1, host-part 1, host-refs 1, join 1, link 1, preprocess 3, slice 2")
	e.Edit("a.cu", "p[1] = 80", "p[1] = 81")
	e.Ran("code of one architecture", "cicc 1, fatbinary 2, host-part 1, host-refs 1, join 1, link 1, nvlink 1, preprocess 3, slice 2")

	const more = `archs=["sm_75","sm_80","sm_86"]`
	e.Ran("an architecture more", "cicc 2, fatbinary 3, host-part 1, host-refs 1, join 2, link 1, nvlink 1, preprocess 2, slice 6", "--var", more)
	// The host code warns, and includes the stub of the last architecture, which is another one
	// now.
	e.Ran("a last architecture more", "cicc 2, fatbinary 3, host-part 1, host-refs 1, join 2, link 1, nvlink 1, preprocess 2, slice 8", "--var", `archs=["sm_75","sm_80","sm_86","sm_89"]`)
	e.Ran("an architecture less", "fatbinary 3, host-part 1, host-refs 1, join 2, link 1, slice 2", "--var", `archs=["sm_86"]`)
	e.Ran("back", "", "--var", more)
	if got := e.ELFs("build/bin/app"); got != "sm_75 sm_80 sm_86" {
		t.Errorf("machine code %q", got)
	}
}

// Messages have true positions after lines were inserted, whatever was taken from the cache.
func TestSplitMessages(t *testing.T) {
	t.Parallel()
	e := realProject(t, "edits")
	printed := func() string {
		_, errs := e.Run("kbuild", "--progress", "plain")
		return errs
	}
	expect := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("want %q in:\n%s", w, text)
			}
		}
	}
	first := printed()
	expect(first, "a.cu(3): warning", "never_used", "a.cu:11:", "Wsign-compare")
	if n := strings.Count(first, "a.cu(3): warning"); n != 1 {
		t.Errorf("two architectures warn %d times, want once:\n%s", n, first)
	}
	e.Run("rm", "-rf", "build")
	expect(printed(), "a.cu(3): warning")
	e.Edit("a.cu", "__global__", "// one\n// two\n__global__")
	expect(printed(), "a.cu(5): warning", "a.cu:13:")
	e.Edit("a.cu", "// two\n", "")
	expect(printed(), "a.cu(4): warning", "a.cu:12:")
	if codes, _ := e.Run("nvcc", "--list-gpu-code"); !strings.Contains(codes, "sm_35") {
		return // a toolkit that has nothing to warn of
	}
	_, old := e.Run("kbuild", "-n", "--var", `archs=["sm_35"]`)
	if n := strings.Count(old, "architectures are deprecated"); n != 1 {
		t.Errorf("nvcc's own warning comes %d times, want once:\n%s", n, old)
	}
}

// A source that spells the list of architectures is compiled again for another list, unless
// arch_list fixes it.
func TestSplitArchList(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "edits")
	e.Share()
	e.Edit("kernels.hcl", `"b.cu",`, `"b.cu", "list.cu",`)
	e.Kbuild()
	e.Edit("kernels.hcl", `["sm_75", "sm_86"]`, `["sm_75", "sm_80", "sm_86"]`)
	why, _ := e.Run("kbuild", "why", "-v", "app")
	if strings.Count(why, "preprocess list.cu") != 4 || strings.Count(why, "changed, and the text spells it") != 3 {
		t.Errorf("why:\n%s", why)
	}
	e.Kbuild()
	e.Edit("kernels.hcl", "executable", "gencode \"g\" {\n  code      = var.archs\n  arch_list = [\"sm_75\", \"sm_80\", \"sm_86\", \"sm_90\"]\n}\n\nexecutable")
	e.Edit("kernels.hcl", "= var.archs\n  mode", "= var.archs\n  mode")
	e.Edit("kernels.hcl", "  code    = var.archs\n", "  gencode = gencode.g\n")
	e.Kbuild()
	if c := e.Kbuild("--var", `archs=["sm_80"]`); strings.Contains(c.Kinds, "cicc") || strings.Contains(c.Kinds, "preprocess") {
		t.Errorf("with arch_list fewer architectures run %s", c.Kinds)
	}
	if text := string(e.Read("build/bin/app")); !strings.Contains(text, "(750,800,860,900)") {
		t.Error("the program does not spell arch_list")
	}
}

func TestKeep(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "edits")
	e.Share()
	e.Kbuild()
	e.Run("rm", "-rf", "build")
	e.Ran("--keep", "", "--keep", "ptx,ltoir,cubin,sass")
	for _, f := range []string{"a.cu.compute_75.ltoir", "b.cu.compute_86.ltoir", "dlink.sm_75.cubin", "dlink.sm_86.sass"} {
		if len(e.Read("build/keep/executable.app/"+f)) == 0 {
			t.Errorf("%s is empty", f)
		}
	}
	if text := string(e.Read("build/keep/executable.app/dlink.sm_86.sass")); !strings.Contains(text, "EXIT") {
		t.Errorf("no machine code:\n%.300s", text)
	}
	left, _ := filepath.Glob(filepath.Join(e.Dir, "build/.kbuild/parts/*"))
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// nvccSaying is a compiler whose dry runs of compiles are changed by a sed program; all else is the
// real nvcc.
func (e *example) nvccSaying(sed string) {
	e.T.Helper()
	e.Write("nvcc", "#!/bin/sh\ncase \"$*\" in\n*--dryrun*-dc*) '"+e.Which("nvcc")+"' \"$@\" 2>&1 | sed '"+sed+"' >&2 ;;\n*) exec '"+e.Which("nvcc")+"' \"$@\" ;;\nesac\n")
	e.Run("chmod", "+x", "nvcc")
	e.Write("kernels.hcl", "toolchain \"cuda\" {\n  compiler = \"./nvcc\"\n}\n\n"+string(e.Read("kernels.hcl")))
}

// What kbuild does not understand, nvcc does as one command: whatever that is, it is the same
// command, which runs for the first of these.
func TestSplitUnknown(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ name, sed, say string }{
		{"an unknown tool", `s/^#\$ cudafe++ /#$ cudafe2 /`, "a step that is not known: cudafe2"},
		{"an unknown file", `s/^#\$ \(cicc\|"$CICC_PATH\/cicc"\) .*/& --new-table kbuild_keep\/table.bin/`, `an argument that is not known: "kbuild_keep/table.bin"`},
		{"a shell", `s/^\(#\$ ptxas .*\|#\$ fatbinary .*\)/\1 | tee log/`, "the shell's '|'"},
		{"no answer", `s/.*/nothing/`, "shows no steps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := realProject(t, "edits")
			e.nvccSaying(c.sed)
			e.Edit("kernels.hcl", `["sm_75", "sm_86"]`, `["sm_86"]`) // in one piece each architecture is compiled again for each case
			if got := e.Kbuild("-n"); !strings.Contains(got.Kinds, "compile 2,") {
				t.Errorf("%+v", got)
			}
			why, _ := e.Run("kbuild", "why", "a.cu")
			if !strings.Contains(why, c.say) {
				t.Errorf("why does not say %q:\n%s", c.say, why)
			}
			if i > 0 {
				return
			}
			e.Ran("in one piece", "compile 2, fatbinary 1, host-compile 1, host-part 1, host-refs 1, link 1, nvlink 1, slice 2")
			e.Run("build/bin/app")
		})
	}
}

// A pass that fails where nvcc does not: kbuild has misparsed nvcc, and says so once.
func TestSplitMisparsed(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "edits")
	e.Edit("kernels.hcl", `["sm_75", "sm_86"]`, `["sm_86"]`)
	e.nvccSaying(`s/^#\$ \(cicc\|"$CICC_PATH\/cicc"\) /&--no-such-option /`)
	out, printed := e.Run("kbuild", "--progress", "plain")
	if !strings.Contains(printed, "misparsed the dry run of nvcc") {
		t.Errorf("it does not say so:\n%s%s", out, printed)
	}
	e.Run("build/bin/app")
	if c := e.Kbuild(); c.Up_to_date != c.Actions {
		t.Errorf("again: %+v", c)
	}
	// A fault of the source is none of nvcc's.
	e = realProject(t, "edits")
	e.Share()
	e.Edit("a.cu", "p[0]", "q[0]")
	cmd := e.Command("kbuild", "--progress", "plain")
	text, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(text), `a.cu(4): error: identifier "q" is undefined`) || strings.Contains(string(text), "misparsed") {
		t.Errorf("%v\n%s", err, text)
	}
}

// nvlink runs in an empty folder, and finds the libraries that nvcc would. A library is an input
// like any other.
func TestSplitDeviceLibraries(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	e.Need("nvcc")
	library := func(dir, factor string) {
		e.Write("lib.cu", "__device__ int times(int x) { return x * "+factor+"; }\n")
		e.Run("nvcc", "-rdc=true", "-arch=sm_80", "-lib", "-o", dir+"/libtimes.a", "lib.cu")
	}
	second := t.TempDir()
	if err := os.Mkdir(filepath.Join(e.Dir, "first"), 0o777); err != nil {
		t.Fatal(err)
	}
	library("first", "3")
	library(second, "5")
	e.Write("main.cu", "extern __device__ int times(int);\n__global__ void k(int *p) { *p = times(*p); }\nint main() { k<<<1, 1>>>(nullptr); }\n")
	e.Write("kernels.hcl", `executable "app" {
  sources = ["main.cu"]
  code    = ["sm_80"]
  mode    = "rdc"
  flags   = { nvlink = ["-Lfirst", "-L`+second+`", "-ltimes"], link = ["first/libtimes.a"] }
}
`)
	same := func(what string) {
		t.Helper()
		split := e.DeviceCode("build/bin/app")
		e.Kbuild("--no-split", "--build-dir", "build-whole")
		if split != e.DeviceCode("build-whole/bin/app") {
			t.Errorf("%s: not what nvcc links", what)
		}
	}
	e.Kbuild()
	same("a relative folder first")
	library("first", "7")
	e.Ran("another library", "fatbinary 1, host-part 1, link 1, nvlink 1")
	same("another library")
	if err := os.WriteFile(filepath.Join(second, "libtimes.so"), []byte("no library"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, printed, status := e.Fails(); status == 0 || !strings.Contains(printed, "libtimes.so") {
		t.Errorf("a shared library appears, which nvlink prefers: status %d\n%s", status, printed)
	}
}
