package pptext

import (
	"bytes"
	"strings"
	"testing"
)

func canonical(s string, o Options) (string, bool) {
	out, exact := Canonical(nil, []byte(s), o)
	return string(out), exact
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{ // a and b have one form
		{"blank lines", "int a;\n\n\nint b;\n", "int a;\nint b;"},
		{"indentation", "  int a;\t\n", "int a;\n"},
		{"blanks inside", "int   a ;", "int a ;"},
		{"a marker instead of blank lines", "# 1 \"a.cu\"\nint a;\n\n\nint b;", "# 1 \"a.cu\"\nint a;\n# 40 \"a.cu\"\nint b;"},
		{"numbers of markers", "# 12 \"h.h\" 1\nint a;\n# 4 \"a.cu\" 2\n", "# 1 \"h.h\" 1\nint a;\n# 9 \"a.cu\" 2\n"},
		{"comments", "a /* x  \"y */ b /**/", "a b"},
		{"a line of comments", "a\n /* x */ /* y */\nb", "a\nb"},
		{"line directive", "#line 12 \"h.h\"\nx", "# 99 \"h.h\"\nx"},
		{"line directive without file", "# 1 \"a\"\nx\n# 12\ny", "# 1 \"a\"\nx\ny"},
	} {
		a, exactA := canonical(c.a, Options{})
		b, exactB := canonical(c.b, Options{})
		if a != b || exactA || exactB {
			t.Errorf("%s: %q (%t) and %q (%t)", c.name, a, exactA, b, exactB)
		}
	}
	for _, c := range []struct{ name, a, b string }{ // a and b have different forms
		{"tokens", "int a;", "int b;"},
		{"blanks in a string", `f("a  b")`, `f("a b")`},
		{"blanks in a character", `' '`, `'  '`},
		{"blanks after an escaped quote", `"\"  "`, `"\" "`},
		{"blanks after a digit separator", `1'000 + f("a  b")`, `1'000 + f("a b")`},
		{"a character after a number", `x == 1 ? '"' : "  "`, `x == 1 ? '"' : " "`},
		{"file", "# 1 \"a\" 1\nx", "# 1 \"b\" 1\nx"},
		{"system header", "# 1 \"a\" 1\nx", "# 1 \"a\" 1 3\nx"},
		{"flags in the middle", "# 1 \"a\"\nx\n# 2 \"a\" 3 4\ny", "# 1 \"a\"\nx\ny"},
		{"a pragma on a line of its own", "#pragma once\nx", "#pragma once x"},
		{"two words", "a b", "ab"},
	} {
		a, _ := canonical(c.a, Options{})
		b, _ := canonical(c.b, Options{})
		if a == b {
			t.Errorf("%s: both are %q", c.name, a)
		}
	}
}

func TestExact(t *testing.T) {
	for _, s := range []string{
		"int l = __builtin_LINE();", "x = __builtin_source_location();", "__builtin_COLUMN ( )",
		"s = R\"(\n\n  a)\";", "u8R\"x(a)x\"", "a // b", "a /* b", "a */ R\"(", "\"open", "f('a",
	} {
		text := "\n  " + s + "  \n\n"
		got, exact := canonical(text, Options{})
		if !exact || got != text {
			t.Errorf("%q: %q, %t", text, got, exact)
		}
	}
}

func TestDropFalse(t *testing.T) {
	const a = "int f()\n#if 0\n{ return 1; }\n#ifdef X\n#else\n'\n#endif\n#endif\n;\n"
	if got, exact := canonical(a, Options{DropFalse: true}); exact || got != "int f()\n;\n" {
		t.Errorf("%q, %t", got, exact)
	}
	for _, odd := range []string{"#if 0\nx\n", "#if 0\n#else\nx\n#endif\n"} {
		if got, exact := canonical(odd, Options{DropFalse: true}); !exact || got != odd {
			t.Errorf("%q: %q, %t", odd, got, exact)
		}
	}
	if got, _ := canonical("#if 0\nx\n#endif\n", Options{}); !strings.Contains(got, "x") {
		t.Errorf("dropped without being asked: %q", got)
	}
}

func TestTakeMacros(t *testing.T) {
	const raw = "s = R\"x(\n#define IN 1\n)\"\n#undef IN\n)x\"; \"R\\\"(\";\n"
	in := "#define A 1\nint a;\n#undef B\n#define F(x) \"\n" + raw + "#define C\n"
	text, used := TakeMacros([]byte(in), "C", "B", "IN", "D")
	if want := "\nint a;\n\n\n" + raw + "\n"; string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
	if strings.Join(used, " ") != "B C" {
		t.Errorf("used %q", used)
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add("# 1 \"a\" 1 3\nint x = 1'000; '\\'' \"a  b\"\n#pragma x\n#if 0\nx\n#endif\n", true)
	f.Add("u8R\"x(\n)x\" a // b\n", false)
	f.Fuzz(func(t *testing.T, s string, drop bool) {
		o := Options{DropFalse: drop}
		once, exact := Canonical(nil, []byte(s), o)
		if exact && string(once) != s {
			t.Fatalf("exact and changed: %q", once)
		}
		twice, _ := Canonical(nil, once, o)
		if !bytes.Equal(once, twice) {
			t.Fatalf("%q\n%q\n%q", s, once, twice)
		}
		TakeMacros([]byte(s), "x")
	})
}

func BenchmarkCanonical(b *testing.B) {
	text := []byte(strings.Repeat("# 12 \"/usr/include/c++/11/bits/stl_vector.h\" 3\n      template<typename _Tp, typename _Alloc>\n\n    { typedef typename __gnu_cxx::__alloc_traits<_Alloc>::template rebind<_Tp>::other type; }\n  static_assert(sizeof(int) == 4, \"text\");\n", 5000))
	b.SetBytes(int64(len(text)))
	dst := make([]byte, 0, len(text))
	for b.Loop() {
		Canonical(dst, text, Options{})
	}
}
