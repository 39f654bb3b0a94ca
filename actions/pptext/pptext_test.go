package pptext

import (
	"strings"
	"testing"
)

// canon returns the canonical form of text.
func canon(t testing.TB, text string, o Options) (string, Canon) {
	t.Helper()
	const before = "#if 0\n" // is left as it is
	b, c := AppendCanonical([]byte(before), []byte(text), o)
	form, ok := strings.CutPrefix(string(b), before)
	if !ok {
		t.Errorf("%q became %q", before+text, b)
	}
	return form, c
}

func TestCanonical(t *testing.T) {
	lines := func(l ...string) string { return strings.Join(l, "\n") + "\n" }
	tests := []struct {
		name, text, want string
		o                Options
	}{
		{name: "nothing"},
		{name: "blank lines and ends", text: "\n\n  int a;  \n\t\n\n\tint b;\v\f\n\n", want: "int a;\nint b;\n"},
		{name: "no newline at the end", text: "int a;", want: "int a;\n"},
		{name: "runs of blanks", text: "int  a\t=  b  +\t\tc ;\n", want: "int a = b + c ;\n"},
		{name: "blanks that part tokens stay", text: "a + + b; c - -d;\n", want: "a + + b; c - -d;\n"},
		{name: "line breaks stay", text: "f(a,\n  b)\n", want: "f(a,\nb)\n"},

		{name: "markers say line 1",
			text: lines(`# 0 "a.cu"`, `# 12 "x y.h" 1`, "int a;", `# 9 "a.cu" 2`, "int b;"),
			want: lines(`# 1 "a.cu"`, `# 1 "x y.h" 1`, "int a;", `# 1 "a.cu" 2`, "int b;")},
		{name: "moves in one file",
			text: lines(`# 1 "a.cu"`, "int a;", `# 30 "a.cu"`, "int b;", "# 40", "int c;"),
			want: lines(`# 1 "a.cu"`, "int a;", "int b;", "int c;")},
		{name: "flags of a move count",
			text: lines(`# 1 "a.cu"`, "p =", `# 3 "a.cu" 3 4`, "   __null", `# 3 "a.cu"`, "   ;"),
			want: lines(`# 1 "a.cu"`, "p =", `# 1 "a.cu" 3 4`, "__null", `# 1 "a.cu"`, ";")},
		{name: "3 is not 3 4",
			text: lines(`# 1 "a.h" 3`, "a", `# 3 "a.h" 3 4`, "b", `# 9 "a.h" 3 4`, "c"),
			want: lines(`# 1 "a.h" 3`, "a", `# 1 "a.h" 3 4`, "b", "c")},
		{name: "another file without entering it",
			text: lines(`# 1 "a.cu"`, "a", `# 1 "gen.y"`, "b", `# 3 "a.cu"`, "c"),
			want: lines(`# 1 "a.cu"`, "a", `# 1 "gen.y"`, "b", `# 1 "a.cu"`, "c")},
		{name: "markers without text after them",
			text: lines(`# 0 "a.cu"`, `# 0 "<built-in>"`, `# 0 "<command-line>"`, `# 1 "a.cu"`, "a", `# 7 "a.cu" 3 4`, `# 8 "a.cu"`, "b"),
			want: lines(`# 1 "a.cu"`, "a", "b")},
		{name: "a marker before an include names the includer",
			text: lines(`# 0 "a.cu"`, `# 0 "<command-line>"`, `# 1 "pre.h" 1 3 4`, `# 0 "<command-line>" 2`, `# 1 "a.cu"`, "a"),
			want: lines(`# 1 "a.cu"`, `# 1 "<command-line>"`, `# 1 "pre.h" 1 3 4`, `# 1 "<command-line>" 2`, `# 1 "a.cu"`, "a")},
		{name: "a resync right after leaving",
			text: lines(`# 1 "a.cu"`, `# 1 "b.h" 1`, `# 6 "a.cu" 2`, "", `# 6 "a.cu"`, "a"),
			want: lines(`# 1 "a.cu"`, `# 1 "b.h" 1`, `# 1 "a.cu" 2`, "a")},
		{name: "leaving to another file than the one that included",
			text: lines(`# 1 "a.cu"`, `# 1 "b.h" 1`, `# 6 "c.cu" 2`, "a", `# 7 "c.cu"`, "b"),
			want: lines(`# 1 "a.cu"`, `# 1 "b.h" 1`, `# 1 "c.cu" 2`, "a", `# 1 "c.cu"`, "b")},
		{name: "the folder of g++ -g -E",
			text: lines(`# 1 "a.c"`, `# 1 "/src//"`, `# 1 "<built-in>"`, `# 1 "a.c"`, "a"),
			want: lines(`# 1 "a.c"`, `# 1 "/src//"`, `# 1 "a.c"`, "a")},
		{name: "quotes in file names",
			text: lines(`# 1 "a.cu"`, `# 2 "a\"b\\"`, "a", `# 9 "a\"b\\" 3`, "b"),
			want: lines(`# 1 "a.cu"`, `# 1 "a\"b\\"`, "a", `# 1 "a\"b\\" 3`, "b")},
		{name: "#line",
			text: lines(`#line 5 "a.y"`, "a", `#line 8 "a.y"`, "b", `#line 9`, "c", `#line 9 "b.y"`, "d"),
			want: lines(`#line 1 "a.y"`, "a", "b", "c", `#line 1 "b.y"`, "d")},
		{name: "#line keeps flags that others do not know",
			text: lines(`# 1 "a.h" 3`, "a", `#line 8 "a.h"`, "b", `# 9 "a.h" 3`, "c"),
			want: lines(`# 1 "a.h" 3`, "a", `#line 1 "a.h"`, "b", `# 1 "a.h" 3`, "c")},

		{name: "strings",
			text: `a  = "x  y" "\"  //" L"  \\" "/*"  ;` + "\n", want: `a = "x  y" "\"  //" L"  \\" "/*" ;` + "\n"},
		{name: "characters",
			text: `a  = '"'  + '\''  + L'  ' + u8'/' + '//';` + "\n", want: `a = '"' + '\'' + L'  ' + u8'/' + '//';` + "\n"},
		{name: "a character after a keyword", text: "case'\"':  return'  ';\n", want: "case'\"': return'  ';\n"},
		{name: "digit separators",
			text: "a = 1'000'000  + 0xAB'CD'EF  + 1.5e+1'0  + .5'0  ; b = '  ';\n", want: "a = 1'000'000 + 0xAB'CD'EF + 1.5e+1'0 + .5'0 ; b = '  ';\n"},
		{name: "no number before the quote", text: "a = x.e+'\"'  + e-'  ' + x1'  ';\n", want: "a = x.e+'\"' + e-'  ' + x1'  ';\n"},
		{name: "literal suffixes", text: `a = "x  "_s  + '  '_c + 12_km  + "s"s ;` + "\n", want: `a = "x  "_s + '  '_c + 12_km + "s"s ;` + "\n"},
		{name: "raw strings",
			text: lines(`a  = R"(x  "  y)"  ;`, `b  = u8R"-(  )" )-"  + LR"(\)"  ;`, `c = UR"("")"  "  "  uR"(  )";`),
			want: lines(`a = R"(x  "  y)" ;`, `b = u8R"-(  )" )-" + LR"(\)" ;`, `c = UR"("")" "  " uR"(  )";`)},
		{name: "raw strings that span lines",
			text: lines(`a  = R"x(1  `, "", "  # 3 \"y\"", "#if 0", ` )" )x"  ;`, "", "b;"),
			want: lines(`a = R"x(1  `, "", "  # 3 \"y\"", "#if 0", ` )" )x" ;`, "b;")},
		{name: "no raw strings", text: `a = FOOR"(  " 1R"(  ";` + "\n", want: `a = FOOR"(  " 1R"(  ";` + "\n"},

		{name: "comments are blanks",
			text: lines("a/*  */b /* ' */ c; /* \" */", "/* x */ d", "/*", "  x */ e /*", "*/ f"),
			want: lines("a b c;", "d", "e f")},
		{name: "no comments", text: "a /  b; c / * d;\n", want: "a / b; c / * d;\n"},
		{name: "directives keep their inside",
			text: lines("#pragma   unroll  4  ", "#ident  \"x  y\"", "# pragma don't", "#", "#error it's  bad"),
			want: lines("#pragma   unroll  4", "#ident  \"x  y\"", "# pragma don't", "#", "#error it's  bad")},
		{name: "a pragma has a place",
			text: lines(`# 1 "a.cu"`, `# 4 "a.cu" 3`, "#pragma GCC poison x", `# 4 "a.cu"`, "a"),
			want: lines(`# 1 "a.cu"`, `# 1 "a.cu" 3`, "#pragma GCC poison x", `# 1 "a.cu"`, "a")},

		{name: "conditionals stay",
			text: lines("#if 0", "a  b", "#else", "#endif"), want: lines("#if 0", "a b", "#else", "#endif")},
		{name: "after a marker in a conditional, the place is not known",
			text: lines(`# 1 "a"`, "a", "#ifdef X", `# 9 "b"`, "b", "#endif", `# 3 "b"`, "c", "#if X", "#endif", `# 5 "b"`, "d"),
			want: lines(`# 1 "a"`, "a", "#ifdef X", `# 1 "b"`, "b", "#endif", `# 1 "b"`, "c", "#if X", "#endif", "d")},
		{name: "drop false text", o: Options{DropFalse: true},
			text: lines(`# 1 "a"`, "a", "#if 0", `# 9 "b"`, "b", "#if X", "c", "#else", "#endif", "#endif", `# 5 "a"`, "d", "#if 1", "e", "#endif"),
			want: lines(`# 1 "a"`, "a", "d", "#if 1", "e", "#endif")},
		{name: "drop false text before an else", o: Options{DropFalse: true},
			text: lines("#if 0", "b", "#elif X", "c", "#endif", "#  if  0", "d", "#  endif"),
			want: lines("#if 0", "#elif X", "c", "#endif")},
		{name: "false text with an endif in a literal", o: Options{DropFalse: true},
			text: lines("#if 0", `a = R"(`, "#endif", `)";`, "#endif", "b"), want: lines("b")},

		{name: "macros are text",
			text: lines("#define A  1", "#undef B", "c"), want: lines("#define A  1", "#undef B", "c")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, c := canon(t, tt.text, tt.o)
			if got != tt.want || c.Copied {
				t.Errorf("copied: %v; got\n%s\nwant\n%s", c.Copied, got, tt.want)
			}
			if again, _ := canon(t, got, tt.o); again != got {
				t.Errorf("the canonical form of\n%s\nis\n%s", got, again)
			}
		})
	}
}

// TestCopied lists what the lexer leaves alone. Each text would lose a blank if it did not.
func TestCopied(t *testing.T) {
	tests := []struct {
		name, text string
		lines      bool
		o          Options
	}{
		{name: "string without end", text: "a  = \"b\n"},
		{name: "character without end", text: "a  = don't\n"},
		{name: "string that ends in an escaped newline", text: "a  = \"b\\\n\";\n"},
		{name: "raw string without end", text: "a  = R\"(b\n"},
		{name: "raw string with an odd delimiter", text: "a  = R\"a b(x)a b\";\n"},
		{name: "raw string with a long delimiter", text: "a  = R\"12345678901234567(x)12345678901234567\";\n"},
		{name: "raw or a suffix", text: "a  = \"b\"R\"(  )\";\n"},
		{name: "separator or character", text: "a  = 1'+'1;\n"},
		{name: "comment without end", text: "a  /* b\n"},
		{name: "line comment", text: "a  b // c\n"},
		{name: "line comment alone", text: "  // c\n"},
		{name: "continued line", text: "a  b \\\nc\n"},
		{name: "universal character name", text: "a  b \\u00e9\n"},
		{name: "trigraph", text: "a  b ??/\nc\n"},
		{name: "trigraph in a string", text: "a  = \"??/\";\n"},
		{name: "carriage return", text: "a  b\r\n"},
		{name: "null byte", text: "a  \x00b\n"},
		{name: "indented directive", text: "a  b\n #pragma x\n"},
		{name: "directive after a comment", text: "a  b\n/* */ #pragma x\n"},
		{name: "directive in digraphs", text: "a  b\n %:pragma x\n"},
		{name: "continued directive", text: "a  b\n#define x \\ \n  y\n"},
		{name: "directive with a raw string", text: "a  b\n#define x R\"(\n  )\"\n"},
		{name: "directive with a comment", text: "a  b\n#define x /*\n  */ y\n"},
		{name: "marker without a number", text: "a  b\n#line N\n"},
		{name: "marker without a quote", text: "a  b\n# 1 \"x\n"},
		{name: "marker with another flag", text: "a  b\n# 1 \"x\" 5\n"},
		{name: "marker with flags in disorder", text: "a  b\n# 1 \"x\" 3 1\n"},
		{name: "marker that enters and leaves", text: "a  b\n# 1 \"x\" 1 2\n"},
		{name: "marker with a tail", text: "a  b\n# 1 \"x\" y\n"},
		{name: "#line with flags", text: "a  b\n#line 1 \"x\" 3\n"},
		{name: "#endif alone", text: "a  b\n#endif\n"},
		{name: "#if 0 without end", text: "a  b\n#if 0\nc\n", o: Options{DropFalse: true}},

		{name: "line", text: "int  a = __builtin_LINE();\n", lines: true},
		{name: "column", text: "int  a = __builtin_COLUMN();\n", lines: true},
		{name: "source location", text: "auto  a = __builtin_source_location();\n", lines: true},
		{name: "line in a pragma", text: "a  b\n#pragma omp x(__LINE__)\n", lines: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, c := canon(t, tt.text, tt.o)
			if got != tt.text || !c.Copied || c.Lines != tt.lines {
				t.Errorf("copied: %v, lines: %v, got %q", c.Copied, c.Lines, got)
			}
		})
	}
	for _, text := range []string{"int __LINE_, __builtin_FILE, LINE__, a_LINE__, __BUILTIN_COLUMN, LUMN, L;\n", "L", "INE LINE"} {
		if _, c := canon(t, text, Options{}); c.Lines {
			t.Errorf("%q asks for no position", text)
		}
	}
}

// TestAllocs holds the promise that allocations do not grow with the text.
func TestAllocs(t *testing.T) {
	text := []byte(header(2000))
	if n := testing.AllocsPerRun(5, func() { appendCanonical(nil, text, Options{DropFalse: true}) }); n > 8 {
		t.Errorf("%v allocations", n)
	}
}

// header returns n declarations in the style of a C++ library's preprocessed headers.
func header(n int) string {
	var b strings.Builder
	b.WriteString("# 0 \"a.cu\"\n# 1 \"/usr/include/c++/11/vector\" 1 3\n")
	for range n {
		b.WriteString(`  template<typename _Tp, typename _Alloc = std::allocator<_Tp> >
    inline bool __attribute__((__always_inline__))
    operator<(const vector<_Tp, _Alloc>& __x, const vector<_Tp, _Alloc>& __y) noexcept

    { return std::lexicographical_compare(__x.begin(), __x.end(),
       __y.begin(), __y.end()); }



# 1976 "/usr/include/c++/11/vector" 3
  void* __p = 
# 1977 "/usr/include/c++/11/vector" 3 4
             __null
# 1977 "/usr/include/c++/11/vector" 3
                 ;
  static_assert(__v == 'x', "a vector's value type  \"here\" must be const");
#pragma GCC visibility pop
`)
	}
	b.WriteString("# 2 \"a.cu\" 2\nint a;\n")
	return b.String()
}

func BenchmarkCanonical(b *testing.B) {
	text := []byte(header(8000))
	var dst []byte
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var c Canon
		if dst, c = AppendCanonical(dst[:0], text, Options{DropFalse: true}); c.Copied {
			b.Fatal(c)
		}
	}
}
