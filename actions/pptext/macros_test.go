package pptext

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
)

func TestTakeMacros(t *testing.T) {
	tests := []struct {
		name, text, want string
		used             []string
	}{
		{name: "nothing"},
		{name: "no lines", text: "a\n #define A\n#pragma x\n", want: "a\n #define A\n#pragma x\n"},
		{name: "used", text: "a\n#define A 1\n#define C\n#undef B\nb", want: "a\n\n\n\nb", used: []string{"A", "B"}},
		{name: "function", text: "#define A(x) x\n", want: "\n", used: []string{"A"}},
		{name: "longer name", text: "#define AB 1\n#define B_\n", want: "\n\n"},
		{name: "the last line", text: "#undef A", want: "", used: []string{"A"}},
		{name: "spelled otherwise", text: "# define A\n#define\tA\n#defined A\n#undef\n", want: "# define A\n#define\tA\n#defined A\n#undef\n"},
		{name: "a pragma", text: "#pragma omp x(A)\n", want: "#pragma omp x(A)\n", used: []string{"A"}},
		{name: "in a raw string", text: "a = R\"(\n#define C 1\n)\";\n#define C 2\n", want: "a = R\"(\n#define C 1\n)\";\n\n"},
		{name: "in a raw string, to be safe", text: "a = R\"(\n#define A 1\n)\";\n", want: "a = R\"(\n#define A 1\n)\";\n", used: []string{"A"}},
		{name: "after a raw string", text: "a = R\"(\n)\"; R\"x(\n)\"\n)x\"\n#define A 1\n", want: "a = R\"(\n)\"; R\"x(\n)\"\n)x\"\n\n", used: []string{"A"}},
		{name: "no raw string", text: "a = \"R\"\"(\";\nb = FOOR\"(\";\n#define A 1\n", want: "a = \"R\"\"(\";\nb = FOOR\"(\";\n\n", used: []string{"A"}},
		{name: "raw string without end", text: "a = R\"(\n#define A 1\n", want: "a = R\"(\n\n", used: []string{"A"}},
		{name: "quotes without partners", text: "#define C don't R\"( )\"\n#define A \"\n", want: "\n\n", used: []string{"A"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, used := TakeMacros([]byte(tt.text), "A", "B")
			if string(text) != tt.want || !slices.Equal(slices.Sorted(maps.Keys(used)), tt.used) {
				t.Errorf("got %q, %v; want %q, %v", text, used, tt.want, tt.used)
			}
			if a, b := strings.Count(string(text), "\n"), strings.Count(tt.text, "\n"); a != b {
				t.Errorf("%d lines of %d", a, b)
			}
		})
	}
}

// TestMacrosOfCompiler holds g++ to what TakeMacros needs of it: each macro that the text depends
// on is shown, and nothing else about the text changes.
func TestMacrosOfCompiler(t *testing.T) {
	tooltest.Need(t, "g++")
	tests := []struct {
		name, text string
		used       bool // as g++ says; more than the text needs in places
	}{
		{"not named", "int a;", false},
		{"expanded", "int a[] = {LIST};", true},
		{"#if", "#if LIST\n#endif", true},
		{"#if, not evaluated", "#if 0 && LIST\n#endif", true},
		{"#ifdef", "#ifdef LIST\n#endif", true},
		{"#ifndef", "#ifndef LIST\n#endif", true},
		{"defined()", "#if defined(LIST)\n#endif", true},
		{"#elif", "#if 0\n#elif LIST\n#endif", true},
		{"#elif after truth", "#if 1\n#elif LIST\n#endif", false},
		{"skipped", "#if 0\n#ifdef LIST\n#endif\n#endif", false},
		{"operand of ##", "#define P(x) a##x\nint P(LIST);", false},
		{"result of ##", "#define P(x, y) x##y\nint a[] = {P(LI, ST)};", true},
		{"expanded, then operand of ##", "#define P(x) a##x\n#define Q(x) P(x)\nint Q(LIST);", true},
		{"operand of #", "#define S(x) #x\nchar a[] = S(LIST);", false},
		{"expanded, then operand of #", "#define S(x) #x\n#define R(x) S(x)\nchar a[] = R(LIST);", true},
		{"in a macro", "#define V LIST\nint a[] = {V};", true},
		{"in a macro that is not used", "#define V LIST\nint a;", false},
		{"in a macro that #if tests", "#define V LIST\n#if V\n#endif", true},
		{"dropped argument", "#define D(x)\nD(LIST) int a;", false},
		{"#undef", "#undef LIST\nint a;", false},
		{"#undef and #define", "#undef LIST\n#define LIST 5\nint a;", false},
		{"#undef, #define and use", "#undef LIST\n#define LIST 5\nint a = LIST;", true},
		{"pop_macro", "#pragma push_macro(\"NONE\")\n#pragma pop_macro(\"NONE\")\nint a[] = {LIST};", true},
		{"__has_include", "#define H <LIST>\n#if __has_include(H)\n#endif", true},
		{"pragma", "#pragma omp parallel num_threads(LIST)", true},
		{"string", "const char *a = \"LIST\";", false},
		{"in a call that spans lines", "#define F(x) x\n#define ONE 1\nint a[] = { F(ONE), F(\n\nONE), F(\n#ifdef TWO\n#endif\nLIST\n), 3 };\nint b;", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := filepath.Join(t.TempDir(), "a.cc")
			if err := os.WriteFile(src, []byte(tt.text+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			expand := func(args ...string) []byte {
				out, err := exec.Command("g++", append(args, "-E", src)...).Output()
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			plain, other := expand("-DLIST=7"), expand("-DLIST=8")
			text, used := TakeMacros(expand("-DLIST=7", "-dU"), "LIST")
			if used["LIST"] != tt.used {
				t.Errorf("used: %v", used)
			}
			if !bytes.Equal(plain, other) && !tt.used {
				t.Error("the text depends on the macro, and nobody says so")
			}
			if a, b := words(plain), words(text); !slices.Equal(a, b) {
				t.Errorf("the text is\n%q\nwithout -dU\n%q", b, a)
			}
		})
	}
}

// words returns the words of a text without directives.
func words(text []byte) (w []string) {
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "# ") {
			w = append(w, strings.Fields(line)...)
		}
	}
	return w
}

func BenchmarkTakeMacros(b *testing.B) {
	text := []byte(strings.Repeat("#define __need_size_t \n"+header(100), 80))
	b.SetBytes(int64(len(text)))
	var buf []byte
	for b.Loop() {
		buf = append(buf[:0], text...)
		if _, used := TakeMacros(buf, "__CUDA_ARCH_LIST__"); len(used) > 0 {
			b.Fatal(used)
		}
	}
}
