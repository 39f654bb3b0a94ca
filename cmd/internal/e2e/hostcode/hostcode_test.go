// Package hostcode edits headers that plain C and C++ sources include, and holds what kbuild makes of them against clean builds. An edit that the compiler does
// not see may run nothing; whatever it sees must be compiled, and said.
package hostcode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// options are the sets of options with which each edit is made.
var options = []struct {
	name     string // one letter
	compiler string
	flags    string
}{
	{"P", "gcc", "-O2"},
	{"W", "gcc", "-O1 -Wall -Wextra -Wpedantic -Wundef"},
	{"G", "gcc", "-O1 -g"},
	{"M", "gcc", "-g3"},
	{"S", "gcc", "-fsanitize=undefined"},
	{"V", "gcc", "--coverage"},
	{"C", "clang", "-O1 -Wall -Wextra"},
	{"D", "clang", "-g"},
}

// change is an edit: the header has before in place of @ when it is built first, and after when it is built again. unseen are the option sets with which nothing
// runs then.
type change struct {
	name, before, after string
	unseen              string
	source              string // more of the source
}

const header = `#ifndef GUARD
#define GUARD
/* A header. */
#define SIZE 16
#define JOIN(a, b) a##b
#define CALL(x) JOIN(SI, ZE) + (x)
#define WHERE __LINE__
#define DEEP(x) ((x) + WHERE)
@
static inline int add(int a, int b) {
  if (a > b)
    return a;
  return a + b;
}
#endif
`

const source = `#include "%s"
int f(int n) { return add(n, SIZE); }
int main(void) { return f(1) + CALL(0); }
`

// Sources, and functions of headers, that several edits have.
const (
	spelled = "#define SPELL(x) #x\n#define SPELLED(x) SPELL(x)\nconst char *level = SPELLED(JOIN(LEV, _EL));" // spells out what is made of two words
	callsG  = "int k(int n) { return g(n); }"
	callsG0 = "int k(void) { return g(); }"

	falls   = "static inline int g(int n) {\n  switch (n) {\n  case 1:\n    n++;\n    /* %s */\n  case 2:\n    n++;\n  }\n  return n;\n}\n"
	between = "static inline int g(int n) {\n  if (n)\n    n++;\n%s    n++;\n  return n;\n}\n"
	body    = "static inline int g(int n) {\n  if (n)\n%s    n++;\n  return n;\n}\n"
	twice   = "#ifndef GUARD_TWO\n%s#define GUARD_TWO\nint x(void);\n#endif\n"
)

// Sets of options.
const (
	places = "PWGMSC" // with which comments count for nothing, and lines may count
	lines  = "PWC"    // with which lines count for nothing as well
	none   = ""
)

// comments are edits that keep lines and columns, or seem to.
var comments = []change{
	{"a comment", "// one\n", "// two, longer\n", places, ""},
	{"a block comment", "/* one\n   two */\n", "/* three\n   four, five */\n", places, ""},
	{"a comment behind code", "int x(void); // one\n", "int x(void); /* two */\n", places, ""},
	{"a comment that goes", "int x(void); // one\n", "int x(void);\n", places, ""},
	{"a comment behind a directive", "#ifdef A // one\n#endif /* two */\n", "#ifdef A\n#endif // three\n", places, ""},
	{"a comment of UTF-8", "// one\n", "// Größe → 2\n", places, ""},
	{"blanks at the end of a line", "int x(void);\n", "int x(void); \t\n", places, ""},
	{"a comment before code", "/* one */ static inline int g(int n) { return 7 / n; }\n", "/* three */ static inline int g(int n) { return 7 / n; }\n", none, callsG},
	{"a comment in a comment", "/* one */\n", "/* one /* */\n", none, ""},
	{"a comment that goes on", "// one\nint x(void);\n", "// one \\\nint x(void);\n", none, ""},
	{"a comment that goes on after a blank", "// one\nint x(void);\n", "// one \\ \nint x(void);\n", none, ""},
	{"a comment that turns text", "// one\n", "// \u202e one\n", none, ""},
	{"a comment for a fall through", fmt.Sprintf(falls, "fall through"), fmt.Sprintf(falls, "goes on below"), none, callsG},
	{"a trigraph", "// one\nint x(void);\n", "// one??/\nint x(void);\n", none, ""},
	{"code that becomes a comment", "int x(void);\n", "// int x(void);\n", none, ""},
	{"code in a literal", "#define TEXT \"/* one */\"\n", "#define TEXT \"/* two */\"\n", none, "const char *text = TEXT;"},
	{"the name of a file with slashes", "#define NAME <a//b>\n", "#define NAME <a//c>\n", places, ""},
}

// moves are edits by which lines move.
var moves = []change{
	{"a line of a comment", "", "// one\n", lines, ""},
	{"an empty line", "int x(void);\n", "\n\nint x(void);\n", lines, ""},
	{"many lines", "int x(void);\n", strings.Repeat("// one\n", 40) + "int x(void);\n", lines, ""},
	{"a line that goes", "// one\n\n", "", lines, ""},
	{"a line in a function", "static inline int g(int n) {\n  n++;\n  return n;\n}\n", "static inline int g(int n) {\n  n++;\n\n  // one\n  return n;\n}\n", lines, callsG},
	{"a line, and the number of one behind", "static inline int g(void) { return __LINE__; }\n", "\nstatic inline int g(void) { return __LINE__; }\n", none, callsG0},
	{"a line, and the number of one in a macro", "static inline int g(void) { return DEEP(1); }\n", "\nstatic inline int g(void) { return DEEP(1); }\n", none, callsG0},
	{"a line, and a condition on its number", "#if __LINE__ > 9\n#define FAR 1\n#else\n#define FAR 0\n#endif\n", "\n#if __LINE__ > 9\n#define FAR 1\n#else\n#define FAR 0\n#endif\n", none, "int far = FAR;"},
	{"a line, and its number in the source", "", "// one\n", lines, "int line = DEEP(2);"},
	{"a line, and its number by the source's macro", "", "// one\n", lines, "#define HERE __LINE__\nint line = HERE;"},
	{"a line, and its number in a word that is made", "static inline int g(void) { return JOIN(__LI, NE__); }\n", "\nstatic inline int g(void) { return JOIN(__LI, NE__); }\n", none, callsG0},
	{"a line, and a builtin", "static inline int g(int n) { return n + __builtin_LINE(); }\n", "\nstatic inline int g(int n) { return n + __builtin_LINE(); }\n", none, callsG},
	{"a line, and a condition on a builtin", "#if defined __has_builtin && __has_builtin(__builtin_LINE)\nint x(void);\n#endif\n", "#if defined __has_builtin && __has_builtin(__builtin_LINE)\n\nint x(void);\n#endif\n", lines, ""},
	{"a line, and a builtin behind a comment that ends", "/*\n#if */ static inline int g(int n) { return n + __builtin_LINE(); }\n", "\n/*\n#if */ static inline int g(int n) { return n + __builtin_LINE(); }\n", none, callsG},
	{"a line, and an assertion", "#include <assert.h>\nstatic inline int g(int n) { assert(n); return n; }\n", "#include <assert.h>\n\nstatic inline int g(int n) { assert(n); return n; }\n", none, callsG},
	{"a line between if and what follows", fmt.Sprintf(body, ""), fmt.Sprintf(body, "    // one\n"), lines, callsG},
	{"an indentation that misleads", fmt.Sprintf(between, "// one\n"), fmt.Sprintf(between, ""), none, callsG},
	{"a comment that is indented", fmt.Sprintf(between, "// one\n"), fmt.Sprintf(between, "    // one\n"), none, callsG},
	{"code in another column", "static inline int g(int n) { return 8 / n; }\n", "static inline int g(int n) {  return 8 / n; }\n", none, callsG},
	{"two lines of code from one", "int x(void); int y(void);\n", "int x(void);\nint y(void);\n", none, ""},
	{"a line before a number of its own", "#line 7\nstatic inline int g(void) { return __LINE__; }\n", "\n#line 7\nstatic inline int g(void) { return __LINE__; }\n", none, callsG0},
	{"a line before the time", "static inline const char *g(void) { return __TIMESTAMP__; }\n", "\nstatic inline const char *g(void) { return __TIMESTAMP__; }\n", none, "const char *k(void) { return g(); }"},
	{"a line for who asks whether a file is there", "#if __has_include(\"b.h\")\nint b;\n#endif\n", "// one\n#if __has_include(\"b.h\")\nint b;\n#endif\n", lines, ""},
	{"a counter", "static inline int g(void) { return __COUNTER__; }\n", "// one\nstatic inline int g(void) { return __COUNTER__; }\n", lines, "int k(void) { return g() + __COUNTER__; }"},
	{"the name of the file", "static inline const char *g(void) { return __FILE__; }\n", "// one\nstatic inline const char *g(void) { return __FILE__; }\n", lines, "const char *k(void) { return g(); }"},
}

// macros are edits of definitions.
var macros = []change{
	{"a macro that nobody uses", "", "#define UNUSED_ONE 1\n", lines, ""},
	{"a macro with parameters that nobody uses", "int x(void);\n", "int x(void);\n#define UNUSED_ONE(a, b) ((a) + (b))\n", lines, ""},
	{"an unused macro with another value", "#define UNUSED_ONE 1\n", "#define UNUSED_ONE 2\n", lines, ""},
	{"an unused macro that goes", "#define UNUSED_ONE 1\nint x(void);\n", "int x(void);\n", lines, ""},
	{"an unused macro that becomes another", "#define UNUSED_ONE 1\n", "#define UNUSED_TWO 1\n", lines, ""},
	{"a macro that is used", "#define LEVEL 1\n", "#define LEVEL 2\n", none, "int level = LEVEL;"},
	{"a macro that the source uses alone", "", "#define LEVEL 2\n", none, "#ifdef LEVEL\nint level = LEVEL;\n#endif"},
	{"a macro that is tested", "", "#define TESTED_ONE 2\n", none, "#if defined TESTED_ONE\nint tested;\n#endif"},
	{"a macro that is made of words", "#define LEV_EL 1\n", "#define LEV_EL 2\n", none, "int level = JOIN(LEV, _EL);"},
	{"a macro that is made of words, and comes", "", "#define LEV_EL 2\n", none, spelled},
	{"a macro that is made of words, and goes", "#define LEV_EL 2\n", "", none, spelled},
	{"a macro that is made of words, and is not", "#define LEV_EL 1\n", "#define LEV_EL 2\n", "PW", "enum { LEV = 3, _EL, LEVx_EL = 9 }; int level = JOIN(LE, V);"},
	{"a macro by a macro", "#define LEVEL 1\n#define OUTER LEVEL\n", "#define LEVEL 2\n#define OUTER LEVEL\n", none, "int level = OUTER;"},
	{"a macro that moves below its use", "#define LEVEL 1\nenum { ONE = 0\n#ifdef LEVEL\n+ 1\n#endif\n};\n", "enum { ONE = 0\n#ifdef LEVEL\n+ 1\n#endif\n};\n#define LEVEL 1\n", none, "int one = ONE;"},
	{"a macro twice", "#define LEVEL_X 1\n", "#define LEVEL_X 1\n#define LEVEL_X 2\n", none, ""},
	{"a macro of the compiler's", "", "#define __SIZEOF_INT__ 9\n", none, ""},
	{"a macro that is a keyword", "", "#define inline\n", none, ""},
	{"a macro without a blank", "", "#define LEVEL_X+1\n", none, ""},
	{"a macro of a literal with a suffix", "", "#define LEVEL_X \"a\"b\n", none, ""},
	{"a macro after an if", fmt.Sprintf(twice, ""), fmt.Sprintf(twice, "#define GUARD_TW0\n"), none, ""},
	{"a macro in the arguments of another", "static inline int g(int n) { return DEEP(n\n); }\n", "static inline int g(int n) { return DEEP(n\n#define UNUSED_ONE\n); }\n", none, callsG},
	{"a macro that misleads", fmt.Sprintf(between, "#define UNUSED_ONE 1\n"), fmt.Sprintf(between, ""), none, callsG},
	{"a macro that is pushed", "#define LEVEL 1\n", "#define LEVEL 2\n", none, "#pragma push_macro(\"LEVEL\")\n#pragma pop_macro(\"LEVEL\")\n"},
}

// others are edits of code, and of what is said.
var others = []change{
	{"code", "int x(void);\n", "int x(int);\n", none, ""},
	{"a pragma", "#pragma GCC diagnostic push\n#pragma GCC diagnostic pop\n", "#pragma GCC diagnostic push\n#pragma GCC diagnostic warning \"-Wunused\"\n#pragma GCC diagnostic pop\n", none, ""},
	{"an include", "#include <stddef.h>\n", "#include <stdint.h>\n", none, ""},
	{"a comment under a warning", "#warning one\n// one\n", "#warning one\n// two\n", none, ""},
	{"a comment above a warning", "// one\n#warning one\n", "// one\n// two\n#warning one\n", none, ""},
	{"a comment in a file for the assembler", "// one\n", "// two\n", none, "__asm__(\".section .note.x\\n.incbin \\\"inc/HEADER\\\"\\n.text\");"},
}

// compile is a source of the project.
type compile struct {
	change
	source, header, object string
}

func TestEdits(t *testing.T) {
	for _, o := range options {
		for _, language := range []string{"c++", "c"} {
			t.Run(o.name+" "+language, func(t *testing.T) {
				t.Parallel()
				p := e2e.New(t)
				h := held{Project: &p, flags: strings.Fields(o.flags), letter: o.name, language: language, clang: o.compiler == "clang"}
				h.make(hostCompiler(t, o.compiler))
				h.edit()
			})
		}
	}
}

// hostCompiler finds the C++ compiler of a family. clang is not installed everywhere.
func hostCompiler(t *testing.T, family string) string {
	for _, name := range map[string][]string{"gcc": {"g++"}, "clang": {"clang++", "clang++-15"}}[family] {
		if file, err := exec.LookPath(name); err == nil {
			return filepath.Base(file)
		}
	}
	t.Skipf("no %s", family)
	return ""
}

// held is a project with a source for each change, compiled with one set of options.
type held struct {
	*e2e.Project
	language, letter string
	clang            bool
	flags            []string
	compiles         []compile
}

// make makes the project.
func (h *held) make(compiler string) {
	ending := map[string]string{"c": ".c", "c++": ".cpp"}[h.language]
	flags, _ := json.Marshal(h.flags)
	h.Write("kernels.hcl", fmt.Sprintf("toolchain \"cuda\" {\n  host_compiler = %q\n}\n\nlibrary \"x\" {\n  sources  = glob(\"src/*%s\")\n  includes = [\"inc\"]\n  opt      = \"0\"\n  flags    = { host = %s }\n}\n",
		compiler, ending, flags))
	h.Run("mkdir", "src", "inc")
	for i, c := range slices.Concat(comments, moves, macros, others) {
		if strings.Contains(c.after, `"a"b`) && h.clang {
			continue // an error
		}
		name := fmt.Sprintf("h%02d", i)
		k := compile{c, "src/" + name + ending, "inc/" + name + ".h", "build/obj/library.x/src/" + name + ending + ".o"}
		h.compiles = append(h.compiles, k)
		h.Write(k.source, fmt.Sprintf(source, name+".h")+strings.ReplaceAll(c.source, "HEADER", name+".h")+"\n")
		h.Write(k.header, strings.Replace(header, "@\n", c.before, 1))
	}
}

// edit builds, makes all edits, builds again, and compares with a clean build in the same folder.
func (h *held) edit() {
	h.build()
	for _, k := range h.compiles {
		h.Write(k.header, strings.Replace(header, "@\n", k.after, 1))
	}
	ran, said := h.build()
	objects := h.objects()
	if ran, _ := h.build(); len(ran) > 0 {
		h.T.Errorf("at last %q ran", ran)
	}
	h.Run("rm", "-rf", "build")
	h.Env = append(h.Env, "KBUILD_CACHE_DIR="+h.T.TempDir())
	_, says := h.build()
	if strings.Join(slices.Collect(maps.Values(says)), "") == "" {
		h.T.Error("nothing is said")
	}
	for i, object := range h.objects() {
		k := h.compiles[i]
		if !bytes.Equal(object, objects[i]) {
			h.T.Errorf("%s: not the object of a clean build", k.name)
		}
		if unseen := !slices.Contains(ran, k.source); unseen != strings.Contains(k.unseen, h.letter) {
			h.T.Errorf("%s: not compiled is %v", k.name, unseen)
		}
		if said[k.source] != says[k.source] {
			h.T.Errorf("%s: kbuild says\n%s\na clean build\n%s", k.name, said[k.source], says[k.source])
		}
	}
}

// objects are what was made.
func (h *held) objects() (list [][]byte) {
	for _, k := range h.compiles {
		list = append(list, h.Read(k.object))
	}
	return list
}

// build gives the sources that were compiled, and what was said of each.
func (h *held) build() (ran []string, said map[string]string) {
	h.T.Helper()
	out, _ := h.Run("kbuild", "--json", "-j2")
	said = map[string]string{}
	for line := range strings.Lines(out) {
		var e struct{ Event, Kind, Name, Status, Output string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "action_finished" && e.Kind == "host-compile" && e.Status == "ran" {
			ran = append(ran, e.Name)
			said[e.Name] = e.Output
		}
	}
	return ran, said
}

// A comment in a header says nothing where another header has come in its place.
func TestHeaderInItsPlace(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]string{"ahead": "first/a.h", "beside": "src/a.h", "compiled": "first/a.h.gch"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.New(t)
			p.Run("mkdir", "src", "inc", "first")
			p.Write("kernels.hcl", "library \"x\" {\n  sources  = [\"src/a.cpp\"]\n  includes = [\"first\", \"inc\"]\n}\n")
			p.Write("src/a.cpp", "#include \"a.h\"\nint f() { return SIZE; }\n")
			p.Write("inc/a.h", "// one\n#define SIZE 1\n")
			p.Write("first/b.h", "\n")
			p.Kbuild()
			p.Write("inc/a.h", "// two\n#define SIZE 1\n")
			p.Ran("a comment", "")
			p.Write("inc/a.h", "// three\n#define SIZE 1\n")
			p.Write(place, "#define SIZE 2\n")
			p.Ran("a comment, and another header", map[bool]string{true: "host-compile 1", false: "archive 1, host-compile 1"}[name == "compiled"])
		})
	}
}
