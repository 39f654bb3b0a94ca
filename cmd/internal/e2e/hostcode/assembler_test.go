// Package hostcode compares builds of plain C, C++ and assembler sources with clean builds.
package hostcode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

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

// built builds a project and returns the sources that were compiled.
func built(p *e2e.Project) (compiled []string) {
	p.T.Helper()
	out, _ := p.Run("kbuild", "--json", "-j2")
	for line := range strings.Lines(out) {
		var e struct{ Event, Kind, Name, Status string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "action_finished" && e.Kind == "host-compile" && e.Status == "ran" {
			compiled = append(compiled, e.Name)
		}
	}
	return compiled
}

// assembled is a source for the assembler, and an edit of a file that the assembler or its
// preprocessor reads.
type assembled struct {
	source, text string
	edited       string // file
	always       bool   // the names of what is read cannot be seen, so that it is compiled each time
}

// assembly reads files in all ways that there are. In a text, .long begins what a source is about.
var assembly = []assembled{
	{source: "header.S", text: "#include \"edited\"\n.long VALUE\n", edited: "inc/header.h"},
	{source: "asked.S", text: "#if __has_include(\"edited\")\n.long 1\n#endif\n", edited: "inc/new.h"},
	{source: "defined.S", text: "#if GIVEN == 7\n.include \"edited\"\n#endif\n", edited: "inc/defined.inc"},
	{source: "include.s", text: ".include \"edited\"\n", edited: "inc/include.inc"},
	{source: "capital.s", text: "\t.INCLUDE \"edited\"\n", edited: "inc/capital.inc"},
	{source: "nested.s", text: ".include \"nest.inc\"\n", edited: "inc/nested.inc"},
	{source: "incbin.s", text: "x: .incbin \"edited\", 1\n", edited: "inc/incbin.bin"},
	{source: "preprocessed.S", text: ".incbin \"edited\"\n", edited: "inc/preprocessed.bin"},
	{source: "pasted.S", text: "#define READ(how) .inc##how \"edited\"\nREAD(bin)\n", edited: "inc/pasted.bin"},
	{source: "ahead.s", text: ".include \"ahead.inc\"\n", edited: "inc/ahead.inc"},
	{source: "assembler.s", text: ".include \"assembler.inc\"\n", edited: "own/assembler.inc"},
	{source: "comment.s", text: "# .include \"nowhere\"\n\t// .include \"nowhere\"\n/* one\n# two\n.include \"nowhere\" */ .include \"edited\"\n", edited: "inc/comment.inc"},
	{source: "macro.s", text: ".macro read name\n.incbin \"inc/\\name\"\n.endm\nread macro.bin\n", edited: "inc/macro.bin", always: true},
	{source: "pieces.s", text: ".macro read how\n.inc\\how \"edited\"\n.endm\nread bin\n", edited: "inc/pieces.bin", always: true},
	{source: "handed.s", text: ".macro do what, name\n\\what \"\\name\"\n.endm\ndo .incbin, edited\n", edited: "inc/handed.bin", always: true},
	{source: "split.s", text: ".include \"nest.inc\"\nread .inc\n", edited: "inc/split.bin", always: true},
	{source: "labels.s", text: ".macro count n\n.Llabel\\@: .long \\n\n.endm\ncount 3\n.include \"edited\"\n", edited: "inc/labels.inc"},
	{source: "other.asm", text: "#include \"edited\"\n.long VALUE\n", edited: "inc/other.h"},
	{source: "made.S", text: "#include \"made.h\"\n.incbin \"made.bin\"\n.long MADE\n", edited: "made.txt"},
}

// text is what the edited file of a source holds.
func (a assembled) content(edited bool) string {
	value := map[bool]string{false: "1", true: "2"}[edited]
	switch path.Ext(a.edited) {
	case ".h":
		return "#define VALUE " + value + "\n"
	case ".inc":
		return ".long " + value + "\n"
	}
	return "text " + value
}

const assemblyManifest = `toolchain "cuda" {
  host_compiler = %q
}

generate "made" {
  command = ["sh", "-c", "cp made.txt $0; echo \"#define MADE $(wc -c <made.txt)\" >$1", self.outputs[0], self.outputs[1]]
  inputs  = ["made.txt"]
  outputs = ["made.bin", "made.h"]
}

library "x" {
  sources  = glob("src/*")
  deps     = [generate.made]
  includes = ["first", "inc"]
  defines  = { GIVEN = 7 }
  std      = ["c++17", "c11"]
  debug    = %v
  flags    = { host = ["-Werror", "-Wa,-Iown", "-Wa,--noexecstack"] }

  partition "other" {
    match    = ["src/other.asm"]
    language = "asm"
  }
}
`

// An edit of whatever is read on the way compiles the source that reads it, and no other.
func TestAssembler(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	for _, family := range []string{"gcc", "clang"} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			p := e2e.New(t)
			p.Write("kernels.hcl", fmt.Sprintf(assemblyManifest, hostCompiler(t, family), family == "gcc"))
			p.Run("mkdir", "src", "inc", "first", "own")
			p.Write("inc/nest.inc", ".include \"nested.inc\"\n.macro read how\n\\how\\()bin \"split.bin\"\n.endm\n")
			for _, a := range assembly {
				p.Write("src/"+a.source, ".data\n"+strings.ReplaceAll(a.text, "edited", path.Base(a.edited)))
				if a.source != "asked.S" {
					p.Write(a.edited, a.content(false))
				}
			}
			built(&p)
			always := map[string]bool{}
			for _, source := range built(&p) {
				always[source] = true
			}
			for _, a := range assembly {
				if source := "src/" + a.source; always[source] != a.always {
					t.Errorf("%s runs again without an edit: %v", source, always[source])
				}
				if a.source == "ahead.s" { // another file comes to a folder that is searched before
					p.Write("first/ahead.inc", a.content(true))
				} else {
					p.Write(a.edited, a.content(true))
				}
				compiled := map[string]bool{}
				for _, source := range built(&p) {
					if compiled[source] = true; source != "src/"+a.source && !always[source] {
						t.Errorf("an edit of %s compiles %s", a.edited, source)
					}
				}
				if !compiled["src/"+a.source] {
					t.Errorf("an edit of %s does not compile %s", a.edited, a.source)
				}
			}
			made := map[string][]byte{}
			for _, a := range assembly {
				made[a.source] = p.Read("build/obj/library.x/src/" + a.source + ".o")
			}
			clean := p.In(filepath.Join(filepath.Dir(p.Dir), "clean"))
			e2e.CopyTree(t, p.Dir, clean.Dir)
			clean.Env = append(clean.Env, "KBUILD_CACHE_DIR="+t.TempDir())
			clean.Run("kbuild")
			for source, object := range made {
				if !bytes.Equal(object, clean.Read("build/obj/library.x/src/"+source+".o")) {
					t.Errorf("%s: not the object of a clean build", source)
				}
			}
		})
	}
}

const linkedManifest = `defaults {
  code     = ["sm_80"]
  mode     = MODE
  host_lto = LTO
}

library "scale" {
  sources = ["scale.cu", "factor.S", "shift.s"]
  type    = TYPE
}

executable "app" {
  sources = ["main.c", "start.S"]
  deps    = [library.scale]
}
`

// Functions in assembler are called from C and from the host code of CUDA, in libraries of both
// kinds and in all modes.
func TestAssemblerLinked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, lto, kind string }{{"whole", "none", "static"}, {"rdc", "none", "shared"}, {"lto", "full", "static"}} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			if c.mode == "rdc" {
				tooltest.Broad(t)
			}
			p := e2e.New(t)
			replace := strings.NewReplacer("MODE", `"`+c.mode+`"`, "LTO", `"`+c.lto+`"`, "TYPE", `"`+c.kind+`"`)
			p.Write("kernels.hcl", replace.Replace(linkedManifest))
			p.Write("scale.cu", "extern \"C\" int factor(void);\nextern \"C\" int shift(void);\n__global__ void k(int *p) { *p = 1; }\nextern \"C\" int scale(void) { return factor() + shift(); }\n")
			p.Write("value.h", "#define VALUE 40\n")
			p.Write("factor.S", function("#include \"value.h\"\n", "factor", "$VALUE"))
			p.Write("shift.s", function("", "shift", "$2"))
			p.Write("start.S", function("", "one", "$1"))
			p.Write("main.c", "int scale(void);\nint one(void);\nint main(void) { return scale() + one(); }\n")
			p.Run("kbuild")
			p.Run("sh", "-c", "build/bin/app; [ $? = 43 ]")
			p.Write("value.h", "#define VALUE 50\n")
			p.Run("kbuild")
			p.Run("sh", "-c", "build/bin/app; [ $? = 53 ]")
			plan, _ := p.Run("kbuild", "plan")
			for line := range strings.Lines(plan) {
				if strings.Contains(line, "assembler") && strings.Contains(line, "-flto") {
					t.Errorf("assembler is not optimised: %s", line)
				}
			}
			if db, _ := p.Run("kbuild", "compdb"); !strings.Contains(db, "factor.S") {
				t.Errorf("the compilation database lacks factor.S:\n%s", db)
			}
		})
	}
}

// function is assembler source of a function that returns a constant.
func function(before, name, value string) string {
	return before + "\t.text\n\t.globl " + name + "\n\t.type " + name + ", @function\n" + name + ":\n\tmovl " + value + ", %eax\n\tret\n\t.section .note.GNU-stack,\"\",@progbits\n"
}

// Before a compiler in another build, assembler is left to the compiler.
func TestAssemblerLaunched(t *testing.T) {
	t.Parallel()
	p := e2e.Bare(t)
	p.Write("a.S", "#include \"value.h\"\n.data\n.incbin \"data\"\n.long VALUE\n")
	p.Write("a.s", ".data\n.incbin \"data\"\n")
	for _, value := range []string{"1", "2"} {
		p.Write("value.h", "#define VALUE "+value+"\n")
		p.Write("data", value)
		for _, argv := range [][]string{{"a.S"}, {"a.s"}, {"-x", "assembler-with-cpp", "a.s"}} {
			plain := append([]string{"gcc", "-c", "-o", "a.o"}, argv...)
			p.Run(plain...)
			want := p.Read("a.o")
			os.Remove(filepath.Join(p.Dir, "a.o"))
			p.Run(append([]string{"kbuild", "cc"}, plain...)...)
			if !bytes.Equal(p.Read("a.o"), want) {
				t.Errorf("kbuild cc %s, with %s: not what gcc makes", strings.Join(plain, " "), value)
			}
		}
	}
}
