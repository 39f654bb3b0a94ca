package pptext

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

func TestNormalForm(t *testing.T) {
	long := "int x; " + strings.Repeat("/* */ ", 20)
	for _, c := range []struct{ name, a, b string }{
		{"a comment line", "// one\nint x;\n", "// two, longer\nint x;\n"},
		{"a comment behind code", "int x; // one\n", "int x;\n"},
		{"a comment in a line", "f(/* one */ 1);\n", "f(/* 'wo */ 1);\n"},
		{"a comment of lines", "/* one\n   two\n */\n", "/* three\n   four, five\n */\n"},
		{"a literal behind a comment", "/*'*/ char c = '\"'; // \"\n", "/*\"*/ char c = '\"'; // '\n"},
		{"a macro of lines", "#define A(x) \\\n  do { /* a */ \\\n  } while (0)\n", "#define A(x) \\\n  do { /* b */ \\\n  } while (0)\n"},
	} {
		a, ok := NormalForm([]byte(c.a))
		if b, also := NormalForm([]byte(c.b)); !ok || !also || !bytes.Equal(a, b) {
			t.Errorf("%s: %q and %q", c.name, a, b)
		}
	}
	for _, c := range []struct{ name, a, b string }{
		{"an operator that becomes a comment", "enum { X = 8\n/\n-2 };\n", "enum { X = 8\n// half\n-2 };\n"},
		{"definitions that change places", "#define A 1\n#define A 2\n", "#define A 2\n#define A 1\n"},
		{"an inserted line", "int x;\n", "// one\nint x;\n"},
		{"a comment that indents", "    // one\nint x;\n", "// one\nint x;\n"},
		{"blanks behind code", "int x;\n", "int x; \t\n"},
		{"a blank before code", "/**/int x;\n", "/**/ int x;\n"},
		{"a definition that goes on", "#define A /* \n */ 1\n", "#define A \n/**/ 1\n"},
		{"words that a comment parts", "in/**/t x;\n", "in    t x;\n"},
		{"a comment of another length", long + "// one\n", long + "// three\n"},
		{"code in a literal", "char *s = \"/* one */\";\n", "char *s = \"/* two */\";\n"},
	} {
		a, ok := NormalForm([]byte(c.a))
		if b, also := NormalForm([]byte(c.b)); !ok || !also || bytes.Equal(a, b) {
			t.Errorf("%s: %v %v %q", c.name, ok, also, a)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "no newline": "int x;", "a trigraph": "int x;??/\n", "a carriage return": "int x;\r\n",
		"a form feed": "\f\n", "a null": "\x00\n", "a raw string": "R\"(//)\";\n", "a prefixed one": "u8R\"(//)\";\n",
		"a spliced one": "R\\\n\"(//)\";\n", "a separator": "1'000;\n", "one of a float": "1.'0'\n",
		"one of an exponent": "1e-'0'\n", "one of an odd number": "1.u'0'\n", "an apostrophe": "#if 0\ndon't\n#endif\n",
		"an open string": "\"\n", "a spliced string": "\"a\\\nb\"\n", "a spliced comment": "// a\\\nint x;\n",
		"one with a blank": "// a\\ \nint x;\n", "a splice in a comment's start": "/\\\n/ a\n",
		"one in its end": "/* a *\\\n/\n", "a splice in a word": "in\\\nt x;\n", "a splice with a blank": "int \\ \nx;\n",
		"a splice behind a comment": "#define A /* a */\\\n 1\n", "a backslash before a comment": "#define A \\ // a\n",
		"an open comment": "/* a\n", "a nested comment": "/* /* */\n", "UTF-8 in a comment": "// é\n",
		"a fall": "/* FALLTHRU */\n", "a directive in a comment": "/*\n#if a\n*/\n", "a bell in a comment": "// \a\n",
		"slashes in a name": "#include <a//b>\n", "a star in a name": "#if __has_include(<a/*b>)\n",
		"a quote in a name": "#include <a\"b> // \" /*\n", "a name of another operator": "#if A(<a//b>)\n",
		"a comment in an error": "#error a // b\n", "one of lines in a warning": "# warning a /* b\nc */\n",
		"one in a mark": "/**/ #pragma \\\n mark a /* b\nc */\n", "one before a directive's name": "# /**/ error a\n",
		"a backslash in a name": "#include \"a\\\" // \"\n", "a spliced name": "#inc\\\nlude <a//b>\n",
	} {
		if form, ok := NormalForm([]byte(text)); ok {
			t.Errorf("%s: %q has the form %q", name, text, form)
		}
	}
}

func FuzzNormalForm(f *testing.F) {
	for _, s := range append(slices.Clone(codePieces), commentPieces...) {
		f.Add([]byte(s + "\n"))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		form, ok := NormalForm(src)
		if ok && bytes.Count(form, []byte("\n")) != bytes.Count(src, []byte("\n")) {
			t.Errorf("%q has the form %q, of other lines", src, form)
		}
	})
}

// # Against compilers
//
// A pair is two headers. Where their normal forms are equal, gcc and clang must preprocess both to
// the same text, with line markers, and print the same; clang must see each token at the same line
// and column. Headers go to a compiler by the thousand, included by one source, in a standard that
// takes turns.

var normalPairs = flag.Int("pairs", 3000, "pairs of headers whose normal forms are held against compilers")

// pairsInRun is how many headers with equal forms one compiler preprocesses.
const pairsInRun = 1000

func TestNormalFormsAgainstCompilers(t *testing.T) {
	compilers := []string{"gcc", tooltest.ClangHost(t)}
	tooltest.Need(t, "gcc")
	h := newAgainstCompilers(t)
	var batch [][2]string
	equal, runs := 0, 0
	for n := range *normalPairs {
		a, b := h.pair()
		formA, ok := NormalForm([]byte(a))
		if formB, also := NormalForm([]byte(b)); ok && also && a != b && bytes.Equal(formA, formB) {
			batch = append(batch, [2]string{a, b})
			equal++
		}
		if len(batch) < pairsInRun && n+1 < *normalPairs {
			continue
		}
		for _, compiler := range compilers {
			h.compare(batch, append([]string{compiler}, standardC[runs%len(standardC)]...))
			h.compare(batch, append([]string{compiler}, standardCXX[runs%len(standardCXX)]...))
		}
		h.compare(batch, append([]string{compilers[1], "-fsyntax-only", "-Xclang", "-dump-tokens"}, standardCXX[runs%len(standardCXX)]...))
		batch = nil
		runs++
	}
	t.Logf("%d pairs, %d of them with equal forms, %d batches", *normalPairs, equal, runs)
	if equal < *normalPairs/5 {
		t.Errorf("only %d of %d pairs have equal forms", equal, *normalPairs)
	}
}

var (
	standardC   = standards("c", "c99", "gnu99", "c11", "gnu11", "c17", "gnu17", "c2x", "gnu2x")
	standardCXX = standards("c++", "c++98", "c++20", "gnu++98", "c++11", "gnu++11", "c++14", "gnu++20", "gnu++14",
		"c++17", "gnu++17", "c++2b", "gnu++2b")
)

func standards(language string, names ...string) (out [][]string) {
	for _, n := range names {
		out = append(out, []string{"-x", language, "-std=" + n})
	}
	return out
}

// codePieces are what lexers trip over, and commentPieces comments.
var (
	codePieces = []string{"int a;", "a", "f(1)", "x = y / z;", "b * c", "/", "*", "(", ")", "<", ">", "e", "1", ".", "+", "R", "u8", "L",
		`"str // not"`, `"/* not */"`, `'"'`, `"'"`, `L'x'`, `u8"x"`, `"\""`, `'\''`, `"\\"`, "\n#if 0\n", "\n#if 1\n", "\n#else\n", "\n#endif\n",
		"\n#define M(a) a \\\n  b\n", "M(1)", "M(1,\n2)", "\n#define S \"//\"\n", "S", "\n#define P(a, b) a##b #a\n", "P(x,  y z)",
		"__LINE__", "__COUNTER__", "\\\n", ";\\\n", "\t", "  ", "\n", "a << \"b\" << c", "a->b < c", "operator<",
		"\n#include <a//b.h>\n", "\n#include <a/*b.h>\n", "\n#include \"q\\\"\n", "\n#include \"a//b.h\"\n", // from here on few have forms
		`'`, `"`, "#", "%:", "\\", `R"(raw // )"`, `R"x(`, `)x"`, "u8R\"(\\\n)\"", "1'000", "1.'0'", "e-'0'", "1e+'2'", "0x1'f", "don't",
		"\n#if 0\n don't \n#endif\n", "\n%:define Q /\n", "Q", "\n??=define T ??/\n", "??/", "é", "\"é\"", "\r\n", "\f", "\v", "\x00",
		"\n#if __has_include(<a//b.h>)\nyes\n#endif\n", "\n#define HAS __has_include\n#if HAS(<a/*b.h>) // */\nyes\n#endif\n",
		"\n#pragma x // y\n", "\n#pragma mark a /* ", "\n#pragma /**/ mark ", "\n#warning a /* ", "\n# error ", "\n#error e // don't\n",
		"\n#warning it's\n", "\n#pragma GCC dependency <a//b.h>\n", "import <a//b.h>;", "_Pragma(\"x\")", "\\ \n", "a\\\n", "/\\\n", "*\\\n",
		"x = y /z/ w;", "\\u0041", `\"`, "@", "`", "$", "]", "[[a]]"}
	commentPieces = []string{"// c\n", "//\n", "// c // d\n", "/* c */", "/**/", "/* ' */", "/* // */", "/*\n*/", "/* a\n b */",
		"// c", "//", "///* c\n", "// \"\n", "// '\n", "// */\n", "// c \\\n", "// c \\ \n", "// c??/\n", "// é\n", "// fall through\n",
		"/***/", "/*/*/", "/* /* */", "/* \" */", "/* \\ */", "/*\n  a\n*/", "/* a \\\n */", "/* *\\\n/", "/*\n#if a\n*/", "/*\n # b */",
		"/*\t*/", "/* a\n\tb */", "/* FALLTHRU */", "/* é */", "/* \f */", "/*)*/", "/*<*/", "/*>*/", "/*#*/"}
	plainPieces, plainComments = 46, 9
	nasty                      = "/*/*\\\"'\n\n\t  <>#?R.1e(é"
)

// againstCompilers makes pairs and runs compilers on them.
type againstCompilers struct {
	t   *testing.T
	rng *rand.Rand
	dir string

	written [2]map[int]string // headers of both sides that are there
}

func newAgainstCompilers(t *testing.T) *againstCompilers {
	h := &againstCompilers{t: t, rng: rand.New(rand.NewPCG(1, 2)), dir: t.TempDir(), written: [2]map[int]string{{}, {}}}
	if base, err := os.MkdirTemp("/dev/shm", "pairs-"); err == nil {
		h.dir = base
		t.Cleanup(func() { os.RemoveAll(base) })
	}
	for _, side := range []string{"a", "b"} {
		dir := filepath.Join(h.dir, side)
		os.MkdirAll(filepath.Join(dir, "a"), 0o777)
		for _, name := range []string{"a/b.h", "a/*b.h", "q\\"} {
			os.WriteFile(filepath.Join(dir, name), []byte("int included;\n"), 0o666)
		}
	}
	return h
}

func (h *againstCompilers) one(list []string) string { return list[h.rng.IntN(len(list))] }

// pair makes two headers: often the same code with other comments, and often with some bytes changed.
func (h *againstCompilers) pair() (a, b string) {
	var first, second strings.Builder
	for range 2 + h.rng.IntN(6) {
		x := h.one(codePieces[:5])
		switch h.rng.IntN(12) {
		case 0, 1:
			x = h.one(codePieces[:plainPieces])
		case 2:
			x = h.one(codePieces)
		}
		y := x
		if h.rng.IntN(2) == 0 {
			x, y = h.comments()
		}
		between := h.one([]string{"", " ", " ", "\n", "\n"})
		first.WriteString(x + between)
		second.WriteString(y + between)
	}
	a, b = first.String()+"\n", second.String()+"\n"
	if h.rng.IntN(4) == 0 {
		for range 1 + h.rng.IntN(2) {
			b = h.mutated(b)
		}
	}
	if h.rng.IntN(8) == 0 {
		a = h.mutated(a)
		b = strings.Replace(b, "// c", "// d", 1)
	}
	return a, b
}

// comments are two that may replace each other.
func (h *againstCompilers) comments() (a, b string) {
	a = h.one(commentPieces[:plainComments])
	if h.rng.IntN(8) == 0 {
		a = h.one(commentPieces)
	}
	switch h.rng.IntN(8) {
	case 0:
		return a, h.one(commentPieces)
	case 1, 2, 3:
		return "// " + h.words(h.rng.IntN(3)) + "\n", "// " + h.words(h.rng.IntN(3)) + "\n"
	case 4, 5, 6:
		n, m := 1+h.rng.IntN(3), h.rng.IntN(2)
		x, y := "/*"+h.words(n), "/*"+h.words(n)
		for range m {
			x, y = x+"\n  "+h.words(n), y+"\n  "+h.words(n)
		}
		return x + "*/", y + "*/"
	}
	return a, strings.Map(func(r rune) rune { // one of the same shape
		if strings.ContainsRune("ac'\" ", r) && h.rng.IntN(3) > 0 {
			return rune("xy'\"<"[h.rng.IntN(5)])
		}
		return r
	}, a)
}

// words are as long for the same n.
func (h *againstCompilers) words(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(h.one([]string{"one", "two", "\"a ", "it'", "R\"(", ")\";", "a>b", "(<b", "a//", "#if", "\\n ", " \\t"}))
	}
	return b.String()
}

// mutated has a byte inserted, replaced, removed or repeated, by preference where comments begin or end.
func (h *againstCompilers) mutated(text string) string {
	at := h.rng.IntN(len(text))
	if i := strings.IndexAny(text[at:], "/*\\\"'\n"); i >= 0 && h.rng.IntN(3) > 0 {
		at += i
	}
	c := string(nasty[h.rng.IntN(len(nasty))])
	switch h.rng.IntN(5) {
	case 0:
		return text[:at] + text[at+1:]
	case 1:
		return text[:at] + c + text[at+1:]
	case 2:
		return text[:at] + text[at:at+1] + text[at:]
	case 3:
		return text[:at] + h.one([]string{"\\\n", "*/", "/*", "//", " "}) + text[at:]
	}
	return text[:at] + c + text[at:]
}

// compare has a compiler preprocess both sides of a batch.
func (h *againstCompilers) compare(batch [][2]string, compiler []string) {
	h.t.Helper()
	out, fatal := h.preprocessed(batch, compiler)
	for fatal != "" { // an #include of a file that is not there ends all
		i := 0
		if _, err := fmt.Sscanf(fatal, "h%d.h", &i); err != nil {
			h.t.Fatalf("%q: %s", compiler, fatal)
		}
		batch = slices.Delete(slices.Clone(batch), i, i+1)
		out, fatal = h.preprocessed(batch, compiler)
	}
	if out[0] == out[1] {
		return
	}
	for len(batch) > 1 {
		half := batch[:len(batch)/2]
		if out, _ := h.preprocessed(half, compiler); out[0] != out[1] {
			batch = half
			continue
		}
		if out, _ := h.preprocessed(batch[len(batch)/2:], compiler); out[0] == out[1] {
			break // it takes both
		}
		batch = batch[len(batch)/2:]
	}
	h.t.Errorf("%q makes different texts of %d pairs, the first of which is\n%q\n%q", compiler, len(batch), batch[0][0], batch[0][1])
}

// preprocessed is what a compiler makes of both sides. fatal is the message with which it gives up.
func (h *againstCompilers) preprocessed(batch [][2]string, compiler []string) (out [2]string, fatal string) {
	var driver strings.Builder
	for i := range batch {
		fmt.Fprintf(&driver, "#include \"h%d.h\"\n", i)
	}
	argv := append(slices.Clone(compiler), "-Wall", "-Wextra", "-I.", "d.c")
	if !slices.Contains(argv, "-fsyntax-only") {
		argv = append(argv, "-E")
	}
	if strings.Contains(argv[0], "clang") {
		argv = append(argv, "-fno-caret-diagnostics", "-ferror-limit=0", "-fno-diagnostics-fixit-info")
	} else {
		argv = append(argv, "-fno-diagnostics-show-caret", "-fmax-errors=0")
	}
	var wait sync.WaitGroup
	for k, side := range []string{"a", "b"} {
		wait.Go(func() {
			dir := filepath.Join(h.dir, side)
			for i, pair := range batch {
				if h.written[k][i] != pair[k] {
					os.WriteFile(filepath.Join(dir, fmt.Sprintf("h%d.h", i)), []byte(pair[k]), 0o666)
					h.written[k][i] = pair[k]
				}
			}
			os.WriteFile(filepath.Join(dir, "d.c"), []byte(driver.String()), 0o666)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C")
			text, _ := cmd.CombinedOutput() // with status 1 after an #error
			out[k] = string(text)
		})
	}
	wait.Wait()
	for _, text := range out {
		if at := strings.Index(text, ": fatal error: "); at >= 0 {
			return out, text[strings.LastIndexByte(text[:at], '\n')+1:][:min(100, len(text)-at)]
		}
	}
	return out, ""
}
