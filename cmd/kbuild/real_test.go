package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// realProject unpacks testdata/real/NAME.txtar and builds it with the real compiler.
func realProject(t *testing.T, name string) *example {
	t.Helper()
	e := realExample(t, "hello")
	ar, err := txtar.ParseFile(filepath.Join("testdata/real", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	e.run("sh", "-c", "rm -rf ./*")
	for _, f := range ar.Files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(e.dir, f.Name)), 0o777); err != nil {
			t.Fatal(err)
		}
		e.write(f.Name, string(f.Data))
	}
	return e
}

func TestRealTraps(t *testing.T) {
	t.Parallel()
	e := realProject(t, "traps")
	_, said := e.run("kbuild", "--progress", "plain")
	if strings.Contains(said, "not built for LTO") {
		t.Errorf("an rdc partition is expected, and nvlink is heard:\n%s", said)
	}
	sass, _ := e.run("cuobjdump", "--dump-sass", "build/bin/t")
	if !strings.Contains(sass, "table_only") {
		t.Errorf("the kernel that only C++ names is gone:\n%s", sass)
	}
	if got := e.calls("build/bin/t", "table_only"); got != "_Z2fbi" {
		t.Errorf("table_only calls %q; want fa (LTO) inlined and fb (rdc) called", got)
	}
	if n := len(regexp.MustCompile(`Function : \S*same`).FindAllString(sass, -1)); n != 2 {
		t.Errorf("of two equal sources the program holds %d kernels", n)
	}
	e.run("build/bin/t")
	members, _ := e.run("ar", "t", "build/lib/libl.a")
	if members != "x.cu.o\nx.cu.o\n" {
		t.Errorf("members %q", members)
	}
	e.settled("build/bin/t")
}

// Many long names: nvcc gets its device link's inputs in an options file, ar and g++ theirs in response files.
func TestRealLongCommandLines(t *testing.T) {
	t.Parallel()
	e := realExample(t, "hello")
	e.run("sh", "-c", "rm -rf ./*")
	long := strings.Repeat("a_long_name_", 18)
	for i := range 12 {
		dir := filepath.Join(long, strings.Repeat("b", i+1), strings.Repeat(long+"/", 8))
		if err := os.MkdirAll(filepath.Join(e.dir, dir), 0o777); err != nil {
			t.Fatal(err)
		}
		for k := range 6 {
			name := strings.Repeat("c", k+1)
			e.write(filepath.Join(dir, name+".c"), "int "+strings.Repeat("f", i+1)+"_"+name+"(void) { return 0; }\n")
		}
	}
	e.write("main.c", "int main(void) { return 0; }\n")
	e.write("k.cu", "__device__ int f(int);\n__global__ void k(int *p) { *p = f(*p); }\n")
	e.write("f.cu", "__device__ int f(int x) { return x + 1; }\n")
	e.write("kernels.hcl", `executable "app" {
  sources = concat(["main.c", "k.cu", "f.cu"], glob("**/c*.c"))
  code    = ["sm_80"]
  mode    = "lto"
}

library "all" {
  sources = glob("**/c*.c")
}
`)
	if c := e.kbuild(); c.Failed != 0 || c.Ran != c.Actions {
		t.Errorf("%+v", c)
	}
	if got := e.calls("build/bin/app", "k"); got != "" {
		t.Errorf("the kernel calls %q", got)
	}
	if c := e.kbuild(); c.Up_to_date != c.Actions {
		t.Errorf("again: %+v", c)
	}
}
