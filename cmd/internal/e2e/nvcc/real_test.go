package nvcc_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestRealTraps(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "traps")
	_, printed := e.Run("kbuild", "--progress", "plain")
	if strings.Contains(printed, "not built for LTO") {
		t.Errorf("an rdc partition is expected, and nvlink is heard:\n%s", printed)
	}
	functions := strings.Join(e.Functions("build/bin/t"), " ")
	if !strings.Contains(functions, "table_only") {
		t.Errorf("the kernel that only C++ names is gone:\n%s", functions)
	}
	if got := e.Calls("build/bin/t", "table_only"); got != "_Z2fbi" {
		t.Errorf("table_only calls %q; want fa (LTO) inlined and fb (rdc) called", got)
	}
	if n := len(regexp.MustCompile(`\S*same\S*`).FindAllString(functions, -1)); n != 2 {
		t.Errorf("of two equal sources the program holds %d kernels", n)
	}
	if ptx, _ := e.Run("cuobjdump", "--list-ptx", "build/bin/ptx"); !strings.Contains(ptx, "sm_80.ptx") || e.ELFs("build/bin/ptx") != "" {
		t.Errorf("a program of PTX alone holds %s %s", ptx, e.ELFs("build/bin/ptx"))
	}
	e.Run("build/bin/t")
	members, _ := e.Run("ar", "t", "build/lib/libl.a")
	if members != "x.cu.o\nx.cu.o\n" {
		t.Errorf("members %q", members)
	}
	e.Settled("build/bin/t", "build/bin/ptx")
}

// An edit of a header that one pass alone reads is noticed, whether nvcc is taken apart or not.
func TestRealHeadersOfOnePass(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "onepass")
	for _, args := range [][]string{nil, {"--no-split", "--build-dir", "whole"}} {
		e.Kbuild(args...)
		for _, name := range []string{"first.h", "second.h", "host.h", "rdc.h"} {
			text := string(e.Read(name))
			e.Write(name, text+"int more;\n")
			if c := e.Kbuild(append(args, "-n")...); c.Ran == 0 {
				t.Errorf("%q: an edit of %s is not noticed", args, name)
			}
			e.Write(name, text)
			if c := e.Kbuild(append(args, "-n")...); c.Ran != 0 {
				t.Errorf("%q: without an edit %d actions would run", args, c.Ran)
			}
		}
	}
}

// A file that would be found before the one that was read, or whose absence or presence was asked
// for, is noticed: a header with ".." in its name, what __has_include says of a name and of a
// macro, a library before another and beside one.
func TestRealSearched(t *testing.T) {
	t.Parallel()
	e := realProject(t, "searched")
	e.Run("sh", "-c", "mkdir lib1 lib2; g++ -fPIC -c one.cpp two.cpp; ar qc lib1/libfoo.a one.o")
	is := func(want string) {
		t.Helper()
		e.Kbuild()
		if got, _ := e.Run("sh", "-c", "LD_LIBRARY_PATH=lib1 build/bin/app; echo $?"); got != want+"\n" {
			t.Errorf("the program says %q, not %s", got, want)
		}
	}
	is("110")
	for _, step := range [][2]string{
		{"mkdir p/common; echo '#define CLIMBS 2' >p/common/climbs.h", "210"},
		{"rm there.h", "200"},
		{"touch later.h", "201"},
		{"ar qc lib2/libfoo.a two.o", "177"}, // 1201 of 256
		{"rm lib2/libfoo.a; g++ -shared -o lib1/libfoo.so two.o", "177"},
		{"rm lib1/libfoo.so; rm -r p/common", "101"},
	} {
		e.Run("sh", "-c", step[0])
		is(step[1])
	}
}

// What is looked for in folders that only flags name, through macros, and by the linker: each step
// changes one thing, and what a clean build makes is what the build makes.
func TestRealSearchedBy(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "searchedby")
	e.Run("sh", "-c", `for v in 1 2; do for n in f g h; do echo "extern \"C\" int $n() { return $v; }" | g++ -c -x c++ - -o $n$v.o; done; done
		mkdir objects; cp f1.o objects/f.o; ar qcT l2/libf.a objects/f.o; ar qc l2/libg.a g1.o`)
	is := func(want, program string) {
		t.Helper()
		if got, _ := e.Run(program); got != want+"\n" {
			t.Errorf("%s says %q, not %s", program, got, want)
		}
	}
	e.Kbuild()
	is("11111111", "build/bin/app")
	e.Ran("again", "")
	for _, step := range []struct{ what, edit, want string }{
		{"-iquote", "echo '#define QUOTED 2' >q1/quoted.h", "21111111"},
		{"-I, a precompiled header", "mkdir old; cp i2/angled.h old; echo '#define ANGLED 2' >angled.h; g++ -O2 -x c++-header angled.h -o i1/angled.h.gch; cp angled.h i1", "22111111"},
		{"a folder that becomes a file", "rm -r i1/cfg; echo '#define CFG 2' >i1/cfg", "22211111"},
		{"__has_include, spliced", "touch i1/other.h", "22221111"},
		{"__has_include, through macros", "rm i1/other.h; touch i2/later.h", "22221111"},
		{".incbin through a macro", "echo 2 >data.bin", "22222111"},
		{"a member of a thin archive", "cp f2.o objects/f.o", "22222211"},
		{"-L in a response file", "ar qc l3/libg.a g2.o", "22222221"},
		{"INCLUDE of a script", "echo 'INPUT(h2.o)' >l3/more.ld", "22222222"},
		{"-Wl,-l", "ar qc l3/libf.a f1.o", "22222122"},
		{"a linker in a folder of -B", `rm l3/libf.a; printf '#!/bin/sh\nexec /usr/bin/ld -L. "$@"\n' >programs/ld; chmod +x programs/ld; ar qc libf.a f1.o`, "22222122"},
	} {
		e.Run("sh", "-c", step.edit)
		if c := e.Kbuild(); c.Ran == 0 {
			t.Errorf("%s: nothing ran", step.what)
		}
		is(step.want, "build/bin/app")
	}
	e.Ran("at the end", "")
}

// Many long names: nvcc gets its device link's inputs in an options file, ar and g++ theirs in
// response files.
func TestRealLongCommandLines(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := &example{e2e.New(t)}
	long := strings.Repeat("a_long_name_", 18)
	for i := range 12 {
		dir := filepath.Join(long, strings.Repeat("b", i+1), strings.Repeat(long+"/", 8))
		if err := os.MkdirAll(filepath.Join(e.Dir, dir), 0o777); err != nil {
			t.Fatal(err)
		}
		for k := range 6 {
			name := strings.Repeat("c", k+1)
			e.Write(filepath.Join(dir, name+".c"), "int "+strings.Repeat("f", i+1)+"_"+name+"(void) { return 0; }\n")
		}
	}
	e.Write("main.c", "int main(void) { return 0; }\n")
	e.Write("k.cu", "__device__ int f(int);\n__global__ void k(int *p) { *p = f(*p); }\n")
	e.Write("f.cu", "__device__ int f(int x) { return x + 1; }\n")
	e.Write("kernels.hcl", `executable "app" {
  sources = concat(["main.c", "k.cu", "f.cu"], glob("**/c*.c"))
  code    = ["sm_80"]
  mode    = "lto"
}

library "all" {
  sources = glob("**/c*.c")
}
`)
	if c := e.Kbuild(); c.Failed != 0 || c.Ran != c.Actions {
		t.Errorf("%+v", c)
	}
	if got := e.Calls("build/bin/app", "k"); got != "" {
		t.Errorf("the kernel calls %q", got)
	}
	if c := e.Kbuild(); c.Up_to_date != c.Actions {
		t.Errorf("again: %+v", c)
	}
}

// TestRealLinkFromFolderWithBlank links a library that GNU ld writes into its dependency file with
// a blank, unescaped.
func TestRealLinkFromFolderWithBlank(t *testing.T) {
	t.Parallel()
	e := example{e2e.New(t)}
	e.Write("main.cpp", "int f();\nint main() { return f(); }\n")
	e.Write("f.cpp", "int f() { return 0; }\n")
	e.Write("kernels.hcl", "executable \"app\" {\n  sources  = [\"main.cpp\"]\n  libs     = [\"f\"]\n  lib_dirs = [\"libs of mine\"]\n}\n")
	e.Run("sh", "-c", "mkdir 'libs of mine' && g++ -c f.cpp && ar qcsD 'libs of mine/libf.a' f.o")
	e.Ran("cold", "host-compile 1, link 1")
	e.Ran("again", "")
	e.Edit("f.cpp", "0", "1 - 1")
	e.Run("sh", "-c", "g++ -O2 -g -c f.cpp && ar rcsD 'libs of mine/libf.a' f.o")
	e.Ran("another library", "link 1")
}
