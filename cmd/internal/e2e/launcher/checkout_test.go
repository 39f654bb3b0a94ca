package launcher_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// checkouts are two copies of a project, at places of another depth, that share a cache. Commands
// run below them, in build.
func checkouts(t *testing.T, tk tooltest.Toolkit) (a, b *project) {
	p := newProject(t, tk)
	at := func(dir string) *project {
		root := filepath.Join(t.TempDir(), dir)
		if err := os.MkdirAll(root, 0o777); err != nil {
			t.Fatal(err)
		}
		e2e.CopyTree(t, p.Dir, root)
		for _, dir := range []string{".git", "build"} {
			if err := os.Mkdir(filepath.Join(root, dir), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, ".git", "config"), []byte("[remote \"origin\"]\n\turl = one\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		q := p.In("build")
		q.Dir = filepath.Join(root, "build")
		for _, dir := range []string{"plain", "mine"} {
			if err := os.Mkdir(filepath.Join(q.Dir, dir), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		return &project{*q}
	}
	return at("a/proj"), at("deeper/down/b/proj")
}

// written has @ for the checkout's folder.
func (p *project) written(argv []string) (out []string) {
	for _, arg := range argv {
		out = append(out, strings.ReplaceAll(arg, "@", filepath.Dir(p.Dir)))
	}
	return out
}

// anywhere is a command that is run in two checkouts.
type anywhere struct {
	name   string
	argv   []string
	placed bool // there is something of the place in what it makes: the other checkout makes it anew
}

// What one checkout has compiled another takes, with its own names.
var shared = []anywhere{
	{"CMake", []string{"nvcc", "-forward-unknown-to-host-compiler", "-DUSE=1", "-DROOT=\"@\"", "-I@/inc", "-O3", "-DNDEBUG", "--generate-code=arch=compute_80,code=[sm_80]", "--generate-code=arch=compute_90,code=[compute_90,sm_90]",
		"-Xcompiler=-fPIC", "-MD", "-MT", "x/k.cu.o", "-MF", "out/k.cu.o.d", "-x", "cu", "-rdc=true", "-c", "@/k.cu", "-o", "out/k.cu.o"}, false},
	{"LTO", []string{"nvcc", "-I@/inc", "--generate-code=arch=compute_80,code=[lto_80]", "-rdc=true", "-c", "@/k.cu", "-o", "out/k.o"}, false},
	{"warnings", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-DWARN", "-Xcompiler=-Wall,-Wextra", "-MD", "-c", "@/k.cu", "-o", "@/build/out/k.o"}, false},
	{"all headers", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-MD", "-MF", "out/k.d", "-c", "@/k.cu", "-o", "out/k.o"}, false},
	{"the user's headers", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-MMD", "-MF", "out/k.d", "-c", "@/k.cu", "-o", "out/k.o"}, false},
	{"PTX", []string{"nvcc", "-I@/inc", "-arch=compute_80", "-ptx", "@/k.cu", "-o", "out/k.ptx"}, false},
	{"relative names", []string{"nvcc", "-I../inc", "-arch=sm_80", "-c", "../k.cu", "-o", "out/k.o"}, false},
	{"file of options", []string{"nvcc", "--options-file", "out.rsp", "-DOTHER", "-arch=sm_80", "-c", "@/k.cu", "-o", "out/k.o"}, false},
	{"__FILE__", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-DWHERE", "-MD", "-c", "@/k.cu", "-o", "out/k.o"}, true},
	{"__FILE__ and warnings", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-DWHERE", "-DWARN", "-Xcompiler=-Wall,-Wextra", "-c", "@/k.cu", "-o", "out/k.o"}, true},
	{"__FILE__ of device code", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-DHERE", "-MD", "-c", "@/k.cu", "-o", "out/k.o"}, true},
	{"__FILE__, mapped", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-DWHERE", "-Xcompiler=-fmacro-prefix-map=@=.", "-c", "@/k.cu", "-o", "out/k.o"}, false},
	{"__builtin_FILE", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-DBUILTIN", "-c", "@/k.cu", "-o", "out/k.o"}, true},
	{"a macro", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-DROOT=\"@\"", "-DSHOW", "-c", "@/k.cu", "-o", "out/k.o"}, true},
	{"lines", []string{"nvcc", "-I@/inc", "-arch=sm_80", "-lineinfo", "-c", "@/k.cu", "-o", "out/k.o"}, true},
}

var sharedHost = []anywhere{
	{"C++", []string{"g++", "-I@/inc", "-O2", "-DNDEBUG", "-DWARN", "-Wall", "-MD", "-MT", "x.o", "-MF", "out/h.d", "-c", "@/h.cpp", "-o", "out/h.o"}, false},
	{"C++, assertions", []string{"g++", "-I@/inc", "-c", "@/h.cpp", "-o", "out/h.o"}, true},
	{"C++, debug", []string{"g++", "-I@/inc", "-g", "-DNDEBUG", "-c", "@/h.cpp", "-o", "out/h.o"}, true},
	{"C++, LTO", []string{"g++", "-I@/inc", "-flto", "-DNDEBUG", "-c", "@/h.cpp", "-o", "out/h.o"}, true},
	{"C++, a macro", []string{"g++", "-I@/inc", "-DROOT=\"@\"", "-DNDEBUG", "-c", "@/h.cpp", "-o", "out/h.o"}, false},
	{"C++, a macro that shows", []string{"g++", "-I@/inc", "-DROOT=\"@\"", "-DSHOW", "-DNDEBUG", "-c", "@/h.cpp", "-o", "out/h.o"}, true},
}

func TestSecondCheckout(t *testing.T) {
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		commands := shared
		if list := tooltest.Toolkits(t); len(list) > 1 && tk == list[0] {
			commands = shared[:2] // what toolkits do in their own ways: how passes are told the name of the source
		}
		takes(t, tk, commands)
	})
}

func TestSecondCheckoutOfHostCode(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	takes(t, tooltest.Toolkit{}, append(slices.Clone(sharedHost), byClang()...))
}

// byClang is the first command by clang, and others whose objects have the name of the source in a
// form that is not text.
func byClang() (commands []anywhere) {
	for _, clang := range []string{"clang++-15", "clang++-17", "clang++-18", "clang++-19"} {
		if _, err := exec.LookPath(clang); err != nil {
			continue
		}
		of := func(name string, placed bool, options ...string) {
			argv := append([]string{clang, "-I@/inc", "-O2", "-DNDEBUG", "-MD", "-MT", "x.o", "-MF", "out/h.d", "-c", "@/h.cpp", "-o"}, options...)
			commands = append(commands, anywhere{name, argv, placed})
		}
		of("clang", false, "out/h.o")
		of("clang, names of the place", true, "out/h.o", "-funique-internal-linkage-names")
		of("clang, LTO", true, "out/h.bc", "-flto")
		break
	}
	return commands
}

// takes has two checkouts run commands, in turn, and each twice.
func takes(t *testing.T, tk tooltest.Toolkit, commands []anywhere) {
	t.Helper()
	a, b := checkouts(t, tk)
	for _, c := range commands {
		for _, p := range []*project{a, b} {
			if slices.Contains(c.argv, "out.rsp") {
				p.Write("out.rsp", `-I"`+filepath.Dir(p.Dir)+"/inc\"\n")
			}
			argv := p.written(c.argv)
			result := p.sameAsPlain(argv...)
			if want := map[bool]string{true: "hit", false: "miss"}[p == b && !c.placed]; result != want {
				t.Errorf("%s in %s: %s, not %s: %+v", c.name, p.Dir, result, want, p.last())
			}
			p.command(append([]string{"kbuild-cc"}, argv...)...)
			if last := p.last(); last.Result != "hit" {
				t.Errorf("%s, again in %s: %+v", c.name, p.Dir, last)
			}
		}
		if t.Failed() {
			return
		}
		if c.name == "CMake" { // what a checkout takes is what it would make
			argv := append([]string{"kbuild-cc"}, b.written(c.argv)...)
			taken := b.command(argv...)
			alone := *b
			alone.Env = append(slices.Clone(b.Env), "KBUILD_CACHE_DIR="+t.TempDir())
			if made := alone.command(argv...); !maps.EqualFunc(taken.files, made.files, bytes.Equal) {
				t.Errorf("%s: what is taken is not what is made", c.name)
			}
		}
	}
}

// Two projects may have files of the same names, which are linked into one program.
func TestTwoProjects(t *testing.T) {
	t.Parallel()
	a, b := checkouts(t, tooltest.Toolkit{})
	b.Write("../.git/config", "[remote \"origin\"]\n\turl = two\n")
	for _, p := range []*project{a, b} {
		p.Write("../static.cu", "static __device__ int n;\nstatic __global__ void k() { n++; }\nstatic void go() { k<<<1, 1>>>(); }\nstatic void (*volatile at)() = go;\n")
		p.Run("kbuild-cc", "nvcc", "-arch=sm_80", "-rdc=true", "-c", filepath.Join(filepath.Dir(p.Dir), "static.cu"), "-o", "static.o")
	}
	a.Run("nvcc", "-arch=sm_80", "-dlink", "static.o", filepath.Join(b.Dir, "static.o"), "-o", "linked.o")
}

// A file that is found elsewhere from another place is another one: a name that climbs out of the
// checkout, an edit there, a header that comes before another.
func TestCheckoutsDiffer(t *testing.T) {
	t.Parallel()
	a, b := checkouts(t, tooltest.Toolkit{})
	outside := func(p *project, text string) {
		p.Write("../../outside.h", text)
		if err := os.MkdirAll(filepath.Join(p.Dir, "../../common"), 0o777); err != nil {
			t.Fatal(err)
		}
		p.Write("../../common/common.h", text)
		p.Write("../climbs.cpp", "#include \"../outside.h\"\nint g() { return OUTSIDE; }\n")
	}
	outside(a, "#define OUTSIDE 1\n")
	outside(b, "#define OUTSIDE 2\n")
	for _, argv := range [][]string{{"g++", "-c", "@/climbs.cpp", "-o", "out/g.o"}, {"g++", "-c", "../climbs.cpp", "-o", "out/g.o"}} {
		for _, p := range []*project{a, b} {
			if r := p.sameAsPlain(p.written(argv)...); r != "miss" {
				t.Errorf("a header outside: %s", r)
			}
		}
	}
	for _, argv := range [][]string{
		{"g++", "-I@/../common", "-c", "@/found.cpp", "-o", "out/f.o"},
		{"g++", "-I@/../common", "-I" + filepath.Join(filepath.Dir(a.Dir), "../common"), "-c", "@/found.cpp", "-o", "out/f.o"},
		{"nvcc", "-arch=sm_80", "-I@/../common", "-c", "@/found.cu", "-o", "out/f.o"},
	} {
		for _, p := range []*project{a, b} {
			for _, source := range []string{"../found.cpp", "../found.cu"} {
				p.Write(source, "#include <common.h>\nint g() { return OUTSIDE; }\n")
			}
			if r := p.sameAsPlain(p.written(argv)...); r != "miss" {
				t.Errorf("%q: %s", argv, r)
			}
		}
	}
	argv := []string{"g++", "-DNDEBUG", "-I@/inc", "-c", "@/h.cpp", "-o", "out/h.o"}
	a.sameAsPlain(a.written(argv)...)
	for _, edit := range []struct {
		name string
		do   func()
	}{
		{"nothing", func() {}},
		{"a header inside", func() { b.Write("../inc/k.h", "#define VALUE 8\n") }},
		{"a header that comes before", func() { b.Write("../k.h", "#define VALUE 9\n") }},
	} {
		edit.do()
		if r := b.sameAsPlain(b.written(argv)...); (r == "hit") != (edit.name == "nothing") {
			t.Errorf("%s: %s", edit.name, r)
		}
		if r := a.sameAsPlain(a.written(argv)...); r != "hit" {
			t.Errorf("%s: %s in the other checkout", edit.name, r)
		}
	}
}

// A copy of a checkout may have the name of the first one in a text: then it reads the first one's
// file, and what it makes depends on that. The command names its own checkout, too, but for where
// it is relative.
func TestTextNamesCheckout(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	a, b := checkouts(t, tooltest.Toolkit{})
	first := filepath.Dir(a.Dir)
	gcc := []string{"g++", "-I@/inc", "-DHERE=@", "-MD", "-c", "@/text.cpp", "-o", "out/t.o"}
	relative := []string{"g++", "-MD", "-c", "../text.cpp", "-o", "out/t.o"}
	clang := append([]string{"clang++-15"}, gcc[1:]...)
	nvcc := []string{"nvcc", "-I@/inc", "-DHERE=@", "-arch=sm_80", "-MD", "-c", "@/text.cu", "-o", "out/t.o"}
	const use = "int f() { return VALUE; }\n"
	const pieces = "#define S2(x) #x\n#define S(x) S2(x)\n#define INC inc\n"
	for _, c := range []struct {
		name, text string
		commands   [][]string
		env        string
	}{
		{"an include", "#include \"FIRST/inc/k.h\"\n" + use, [][]string{gcc, relative, clang, nvcc}, ""},
		{"spliced", "#include \"FIR\\\nST/inc/k.h\"\n" + use, [][]string{gcc, nvcc}, ""},
		{"made by macros", pieces + "#include S(FIRPARENT/proj/INC/k.h)\n" + use, [][]string{gcc, clang, nvcc}, ""},
		{"__has_include", "#if __has_include(\"FIRST/inc/maybe.h\")\nint g;\n#endif\n", [][]string{gcc, relative, nvcc}, ""},
		{"the assembler", "asm(\".data\\n.incbin \\\"FIRST/inc/maybe.h\\\"\\n.text\");\n", [][]string{gcc, relative}, ""},
		{"the environment", "#include <k.h>\n" + use, [][]string{relative}, "CPATH=" + first + "/inc"},
		{"a file of options", "#include <k.h>\n" + use, [][]string{append(slices.Clone(relative), "@options.rsp", "-DHERE=@")}, ""},
	} {
		text := strings.NewReplacer("FIRST", first, "FIRPARENT", filepath.Dir(first), "FIR\\\nST", first[:4]+"\\\n"+first[4:]).Replace(c.text)
		for _, p := range []*project{a, b} {
			p.Write("../text.cpp", text)
			p.Write("../text.cu", "__global__ void k() {}\n"+text)
			p.Write("../inc/maybe.h", "1")
			p.Write("options.rsp", "@more.rsp\n")
			p.Write("more.rsp", "-I"+first+"/inc\n")
		}
		for _, argv := range c.commands {
			run := func(p *project, when string) {
				q := *p
				if q.Env = slices.Clone(p.Env); c.env != "" {
					q.Env = append(q.Env, c.env)
				}
				q.sameAsPlain(q.written(argv)...)
				if t.Failed() {
					t.Fatalf("%s, %q, %s", c.name, argv, when)
				}
			}
			a.Write("../inc/k.h", "#define VALUE 7\n")
			a.Write("../inc/maybe.h", "1")
			run(a, "first")
			run(b, "in the copy")
			a.Write("../inc/k.h", "#define VALUE 8\n")
			if err := os.Remove(filepath.Join(first, "inc/maybe.h")); err != nil {
				t.Fatal(err)
			}
			if c.name == "the assembler" {
				a.Write("../inc/maybe.h", "2")
			}
			run(b, "after an edit of the first")
		}
	}
}

// The object may depend on the path of the source without having it: its length, its letters.
// However __FILE__ is spelled, another checkout compiles anew.
func TestHiddenFileName(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	const paste = "#define C2(a, b) a##b\n#define C(a, b) C2(a, b)\n"
	a, b := checkouts(t, tooltest.Toolkit{})
	for _, text := range []string{
		paste + "int f() { return sizeof(C(__FI, LE__)); }\n",
		paste + "int f() { return C(__BASE_, FILE__)[5]; }\n",
		"#define B(x) __builtin_##x\nint f() { return __builtin_strlen(B(FILE)()); }\n",
		"int f() { return sizeof(__FI\\\nLE__); }\n",
		"constexpr int n(const char *s) { return *s ? *s + 31 * n(s + 1) : 0; }\nint f() { return n(__FILE__) & 0xff; }\n",
		"#define S2(x) #x\n#define S(x) S2(x)\nint f() { return sizeof(S(HERE)); }\n",
		"#define __has_f(x) sizeof(x)\nint f() { return __has_f(__FILE__); }\n",
	} {
		for _, compiler := range []string{"g++", "clang++-15"} {
			for _, p := range []*project{a, b} {
				p.Write("../text.cpp", text)
				if r := p.sameAsPlain(p.written([]string{compiler, "-O1", "-DHERE=@", "-c", "@/text.cpp", "-o", "out/t.o"})...); r != "miss" {
					t.Errorf("%s, %q: %s", compiler, text, r)
				}
			}
		}
	}
}
