// Package hostcode edits headers that plain C and C++ sources include, and holds what kbuild makes
// of them against clean builds. After an edit of comments alone nothing may run; whatever a
// compiler observes must be compiled, and printed.
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

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// options are the sets of options with which each edit is made. With some, every edit is compiled.
var options = []struct {
	name, compiler, flags string
	always                bool
}{
	{"plain", "gcc", "-O2", false},
	{"warnings", "gcc", "-O1 -Wall -Wextra -Wpedantic -Wundef", false},
	{"debug", "gcc", "-O1 -g", true},
	{"clang", "clang", "-O1 -Wall -Wextra", false},
}

// change is an edit: the header has before in place of @ when it is built first, and after when it
// is built again.
type change struct {
	name, before, after string
	source              string // more of the source
}

const header = `#ifndef GUARD
#define GUARD
/* A header. */
#define SIZE 16
#define BUILTIN(x) __builtin_##x
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
int main(void) { return f(1); }
`

// Sources, and functions of headers, that several edits have.
const (
	callsG  = "int k(int n) { return g(n); }"
	callsG0 = "int k(void) { return g(); }"

	falls   = "static inline int g(int n) {\n  switch (n) {\n  case 1:\n    n++;\n    /* %s */\n  case 2:\n    n++;\n  }\n  return n;\n}\n"
	between = "static inline int g(int n) {\n  if (n)\n    n++;\n%s    n++;\n  return n;\n}\n"
)

// Pragmas of warnings: one that ignores comments, and of clang's about comments.
const (
	ignored       = "#pragma GCC diagnostic warning \"-Wunused\"\n_Pragma(\"GCC diagnostic ignored \\\"-Wshadow\\\"\")\n"
	documentation = "#pragma clang diagnostic warning \"-Wdocumentation\"\n"
	composed      = "#define JOIN(a, b) a##b\n#define TEXT(x) PRAGMA(x)\n#define PRAGMA(x) _Pragma(#x)\n" +
		"TEXT(clang JOIN(diag, nostic) warning \"-Wdocumentation\")\n"
)

// pragma is a function with a documented parameter behind a pragma.
func pragma(text, parameter string) string {
	return text + "/// \\param " + parameter + " one\nstatic inline int g(int n) { return n; }\n"
}

// comments are edits after which nothing is compiled.
var comments = []change{
	{"a comment", "// one\n", "// two, longer\n", ""},
	{"a block comment", "/* one\n   two */\n", "/* three\n   four, five */\n", ""},
	{"a comment behind code", "int x(void); // one\n", "int x(void); /* two */\n", ""},
	{"a comment that goes", "int x(void); // one\n", "int x(void);\n", ""},
	{"a comment behind a directive", "#ifdef A // one\n#endif /* two */\n", "#ifdef A\n#endif // three\n", ""},
	{"a comment behind a pragma", ignored + "int x(void); // one\n", ignored + "int x(void);\n", ""},
	{"a comment before code", "/* one */ static inline int g(int n) { return 7 / n; }\n", "/* two */ static inline int g(int n) { return 7 / n; }\n", callsG},
	{"the line of an assertion", "#include <assert.h>\nstatic inline int g(int n) { assert(n); return n; } // one\n",
		"#include <assert.h>\nstatic inline int g(int n) { assert(n); return n; }\n", callsG},
	{"a comment near a file that may be there", "#if __has_include(\"b.h\") // one\nint b;\n#endif\n", "#if __has_include(\"b.h\")\nint b;\n#endif\n", ""},
}

// others are edits that are compiled: most of them a compiler observes.
var others = []change{
	{"blanks at the end of a line", "int x(void);\n", "int x(void); \t\n", ""},
	{"a comment of UTF-8", "// one\n", "// Größe → 2\n", ""},
	{"a comment of another length before code", "/* one */ static inline int g(int n) { return 7 / n; }\n", "/* three */ static inline int g(int n) { return 7 / n; }\n", callsG},
	{"a comment in a comment", "/* one */\n", "/* one /* */\n", ""},
	{"a comment that goes on", "// one\nint x(void);\n", "// one \\\nint x(void);\n", ""},
	{"a comment that goes on after a blank", "// one\nint x(void);\n", "// one \\ \nint x(void);\n", ""},
	{"a comment that turns text", "// one\n", "// \u202e one\n", ""},
	{"a comment for a fall through", fmt.Sprintf(falls, "fall through"), fmt.Sprintf(falls, "goes on below"), callsG},
	{"a trigraph", "// one\nint x(void);\n", "// one??/\nint x(void);\n", ""},
	{"code that becomes a comment", "int x(void);\n", "// int x(void);\n", ""},
	{"an operator that becomes a comment", "enum { EIGHT = 8\n/\n-2 };\n", "enum { EIGHT = 8\n// half\n-2 };\n", "int k(void) { return EIGHT; }"},
	{"code in a literal", "#define TEXT \"/* one */\"\n", "#define TEXT \"/* two */\"\n", "const char *text = TEXT;"},
	{"an inserted line", "", "// one\n", ""},
	{"a line, and the number of one behind", "static inline int g(void) { return __LINE__; }\n", "\nstatic inline int g(void) { return __LINE__; }\n", callsG0},
	{"a line, and a builtin by another name", "static inline int g(void) { return BUILTIN(LINE)(); }\n", "\nstatic inline int g(void) { return BUILTIN(LINE)(); }\n", callsG0},
	{"a line, and an assertion", "#include <assert.h>\nstatic inline int g(int n) { assert(n); return n; }\n", "#include <assert.h>\n\nstatic inline int g(int n) { assert(n); return n; }\n", callsG},
	{"an indentation that misleads", fmt.Sprintf(between, "// one\n"), fmt.Sprintf(between, ""), callsG},
	{"a comment that is indented", fmt.Sprintf(between, "// one\n"), fmt.Sprintf(between, "    // one\n"), callsG},
	{"code in another column", "static inline int g(int n) { return 8 / n; }\n", "static inline int g(int n) {  return 8 / n; }\n", callsG},
	{"a comment near a file for a time", "static inline const char *g(void) { return __TIMESTAMP__; } // one\n", "static inline const char *g(void) { return __TIMESTAMP__; }\n", "const char *k(void) { return g(); }"},
	{"a macro that changes", "#define LEVEL 1\n", "#define LEVEL 2\n", "int level = LEVEL;"},
	{"definitions that change places", "#define LEVEL 1\n#undef LEVEL\n#define LEVEL 2\n", "#define LEVEL 2\n#undef LEVEL\n#define LEVEL 1\n", "int level = LEVEL;"},
	{"code", "int x(void);\n", "int x(int);\n", ""},
	{"a pragma", "#pragma GCC diagnostic push\n#pragma GCC diagnostic pop\n", "#pragma GCC diagnostic push\n#pragma GCC diagnostic warning \"-Wunused\"\n#pragma GCC diagnostic pop\n", ""},
	{"a comment under a pragma", pragma(documentation, "n"), pragma(documentation, "m"), callsG},
	{"a comment under a pragma of macros", pragma(composed, "n"), pragma(composed, "m"), callsG},
	{"a comment under a warning", "#warning one\n// one\n", "#warning one\n// two\n", ""},
	{"a comment in a file for the assembler", "// one\n", "// two\n", "__asm__(\".section .note.x\\n.incbin \\\"inc/HEADER\\\"\\n.text\");"},
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
				if language == "c" || o.name == "clang" || o.name == "debug" {
					tooltest.Broad(t)
				}
				p := e2e.New(t)
				h := held{Project: &p, flags: strings.Fields(o.flags), language: language, always: o.always}
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
	language string
	flags    []string
	always   bool
	compiles []compile
}

// make makes the project.
func (h *held) make(compiler string) {
	ending := map[string]string{"c": ".c", "c++": ".cpp"}[h.language]
	flags, _ := json.Marshal(h.flags)
	h.Write("kernels.hcl", fmt.Sprintf("toolchain \"cuda\" {\n  host_compiler = %q\n}\n\nlibrary \"x\" {\n  sources  = glob(\"src/*%s\")\n  includes = [\"inc\"]\n  opt      = \"0\"\n  flags    = { host = %s }\n}\n",
		compiler, ending, flags))
	h.Run("mkdir", "src", "inc")
	for i, c := range slices.Concat(comments, others) {
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
	ran, printed := h.build()
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
		if compiled := slices.Contains(ran, k.source); compiled != (h.always || i >= len(comments)) {
			h.T.Errorf("%s: compiled is %v", k.name, compiled)
		}
		if printed[k.source] != says[k.source] {
			h.T.Errorf("%s: kbuild says\n%s\na clean build\n%s", k.name, printed[k.source], says[k.source])
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
func (h *held) build() (ran []string, printed map[string]string) {
	h.T.Helper()
	out, _ := h.Run("kbuild", "--json", "-j2")
	printed = map[string]string{}
	for line := range strings.Lines(out) {
		var e struct{ Event, Kind, Name, Status, Output string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "action_finished" && e.Kind == "host-compile" && e.Status == "ran" {
			ran = append(ran, e.Name)
			printed[e.Name] = e.Output
		}
	}
	return ran, printed
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
