package discover

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

func TestHasInclude(t *testing.T) {
	for text, want := range map[string]string{
		`#if __has_include("a.h")`:                                     "a.h",
		"#if __has_incl\\\nude (\\\n<a.h>)":                            "a.h",
		"#if __has_include(/* (x) */ <a.h> // b\n)":                    "a.h",
		"#if __has_include_next( <a.h> )":                              "a.h",
		"#ifdef __has_include\n#endif":                                 "",
		"#define A \\\n <a.h>\n#if __has_include(A)":                   "a.h",
		"#define A /* a\n b */ \"a.h\"\n#if __has_include(A)":          "a.h",
		"#define ASK(x) __has_include(x)\n#if ASK(<a.h>)":              "a.h",
		"#define ASK __has_include\n#define A <a.h>\n#if 1 && ASK(A)":  "a.h",
		"#define ASK(x) __has_include(x)\n#define A <a.h>\n#if ASK(A)": "a.h",
		"#define P(x, y) y\n#if __has_include(P(1, <a.h>))":            "a.h",
		"#if __has_include(FLAG)":                                      "flag.h",
		"#define A(n) <n.h>\n#if __has_include(A(a))":                  "? A",
		"#define A(n) #n\n#if __has_include(A(a.h))":                   "? A",
		"#define D dir\n#define A <D/a.h>\n#if __has_include(A)":       "? D",
		"#define __has_include(...) 0":                                 "",
		"#define A <a.h>\n??=/**/include A":                            "a.h",
		"#define A(n) <n.h>\n%:import A(a)":                            "? A",
		"#include CALL(a)":                                             "? CALL",
		"#define A <\n#include A dir/a.h>":                             "? A",
	} {
		file := filepath.Join(t.TempDir(), "a.h")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		a := scanText([]byte(text + "\n"))
		names := a.hasIncludeNames
		if a.hasIncludeMacro || a.computed {
			operator := hasInclude
			if a.computed {
				operator = "include"
			}
			through, unknown := namesThroughMacros(operator, []string{file}, []string{`-DFLAG="flag.h"`, "-DCALL(x)=<x.h>"})
			if names = append(names, through...); unknown != "" {
				names = []string{"? " + unknown}
			}
		}
		if want == "" && len(names) > 0 || want != "" && !slices.Contains(names, want) {
			t.Errorf("%s\n asks for %q, want %q", text, names, want)
		}
	}
}

func TestDependencyPragma(t *testing.T) {
	for text, want := range map[string]bool{
		"#pragma GCC dependency \"x.y\"":                          true,
		"%: pragma /* a */ GCC /* b\n */ dependency <x.y>":        true,
		"#pra\\\ngma GCC \\\n dependency \"x.y\"":                 true,
		`_Pragma("GCC dependency \"x.y\"")`:                       true,
		"#define DO(x) _Pragma(#x)\nDO( GCC dependency \"x.y\" )": true,
		"// writes the files of GCC dependency options":           false,
		"#pragma once\n/* no GCC dependency here */":              false,
		"#pragma GCC poison dependency":                           false,
	} {
		if got := scanText([]byte(text + "\n")).dependency; got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Which names a source includes in quotes, and whether it includes what a macro names.
func TestIncludes(t *testing.T) {
	for text, want := range map[string]struct {
		quoted   []string
		computed bool
	}{
		`#include "a.h"`:                           {quoted: []string{"a.h"}},
		" #\tinclude /* x */ \"a.h\"":              {quoted: []string{"a.h"}},
		`%:include "a.h"`:                          {quoted: []string{"a.h"}},
		"#include <a.h>":                           {},
		"#include HEADER":                          {computed: true},
		"# inc\\\nlude HEADER(a)":                  {computed: true},
		"# /* a\n */ include HEADER":               {computed: true},
		"??=include HEADER":                        {computed: true},
		"#\v import $HEADER":                       {computed: true},
		`#import "a.h"`:                            {quoted: []string{"a.h"}},
		`#embed "a.bin"`:                           {quoted: []string{"a.bin"}},
		"// what to include here\nint include_it;": {},
	} {
		a := scanText([]byte(text + "\n"))
		if !slices.Equal(a.quoted, want.quoted) || a.computed != want.computed {
			t.Errorf("%s\n includes %q, computed %v, want %v", text, a.quoted, a.computed, want)
		}
	}
}

func TestForcedIn(t *testing.T) {
	for argv, want := range map[string]string{
		"g++ -include a.h -imacros d/b.h x.cpp":               "a.h d/b.h",
		"nvcc -Xcompiler -include,a.h --include=b.h,c.h x.cu": "a.h b.h c.h",
		"clang -Xclang -include -Xclang a.h x.cpp":            "a.h",
		"clang -x cuda x.cu":                                  "__clang_cuda_runtime_wrapper.h",
	} {
		a := &graph.Action{Argv: strings.Fields(argv)}
		var headers []string
		if strings.Contains(argv, "cuda") {
			headers = []string{"/usr/lib/clang/include/__clang_cuda_runtime_wrapper.h"}
		}
		if got := strings.Join(forcedIn(a, headers), " "); got != want {
			t.Errorf("%s: %q, want %q", argv, got, want)
		}
	}
}

func TestIncbin(t *testing.T) {
	for text, want := range map[string]bool{
		`asm(".incbin \"a.bin\"");`:                               true,
		`asm(".global x\n.incbin " "\"" "a.bin" "\"\n");`:         true,
		"asm(\".incbin \\\"\"\n# 3 \"x.c\"\n \"a\" \".bin\\\"\")": true,
		`asm(R"(.incbin "a.bin", 4)");`:                           true,
		`asm(".include \"a.bin\"");`:                              true,
		`asm(".INCBIN \"a.bin\"");`:                               true,
		`asm(".inc" "bin \"a.bin\"");`:                            true,
		"asm(\".inc\"\n# 3 \"x.c\"\n\"bin %0\" :: \"m\"(x));":     true,
		`asm("z:\012.incbin \"a.bin\"");`:                         true,
		`asm("z:\x0a.incbin \"a.bin\"");`:                         true,
		`asm("." "incbin" " \"" "a.bin" "\"");`:                   true,
		`asm(".inc\".bin \"a.bin\"");`:                            false,
		`asm(".incbin \"b.bin\"");`:                               false,
		`asm(".include \"b.bin\"");`:                              true,
		`asm(".incbin \"b.bin\"\n.incbin \"c.bin\"");`:            true,
		`set.include(x); T y = {.include = 1}; a.included();`:     false,
	} {
		if got := assembles([]byte(text), []string{"b.bin"}); got != want {
			t.Errorf("%s\n assembles is %v", text, got)
		}
	}
}

// The words of a directive may come from arguments of macros, in other files.
func TestMayAssemble(t *testing.T) {
	for text, want := range map[string]bool{
		`asm(".incbin \"a.bin\"");`:                                 true,
		`EMBED(incbin, "a.bin")`:                                    true,
		`#define EMBED(how, file) asm("." #how " \"" file "\"")`:    true,
		`#define NAME(x) "." "x" #x`:                                false,
		"#include \"a.h\"\n// Never include this file.\nasm(\"\");": false,
	} {
		if got := mayAssemble([]byte(text)); got != want {
			t.Errorf("%s\n may assemble: %v", text, got)
		}
	}
}

// In assembler source a directive is one wherever it stands, but in lines that are comments, and
// macros may make one.
func TestAssemblerSource(t *testing.T) {
	const macro = ".macro m x\n.endm\n"
	for text, want := range map[string]string{
		"a: .incbin \"a.bin\", 4":                          "a.bin",
		".include \"inc/a.inc\"":                           "inc/a.inc",
		macro + ".include \"include/a.inc\"":               "include/a.inc",
		macro + ".ascii \"in\"\n.L\\@: .long . - a.i":      "",
		macro + "# include nothing, .inc\\x":               "",
		"# .incbin \"a.bin\"":                              "",
		" // .incbin \"a.bin\"":                            "",
		" /* .incbin \"a.bin\"\n .incbin \"b.bin\" */ nop": "",
		"/* a */ .incbin \"a.bin\"":                        "a.bin",
		"# a */ .incbin \"a.bin\"":                         "a.bin",
		".ascii \"a\n# b\"; .incbin \"a.bin\"":             "a.bin",
		"nop # /*\n.incbin \"a.bin\"":                      "a.bin",
		".incbin NAME":                                     "?",
		"m .incbin, a":                                     "?",
		macro + ".\\x \"a.bin\"":                           "?",
		macro + ".INC\\x \"a.bin\"":                        "?",
		macro + "m .inc":                                   "?",
		macro + "m incbin":                                 "?",
		macro + "\\x\\()include \"a.bin\"":                 "?",
		macro + "\\x\\y\nm ., \"incbin\"":                  "?",
		macro + "\\x\\()l\n.size m, .-m":                   "",
		".altmacro\n.incbin \"a.bin\"":                     "a.bin ?",
		".mri 1\n include a.inc":                           "?",
		".irpc c,n\n.i\\c\\()cbin \"a.bin\"\n.endr":        "?",
	} {
		bare := withoutComments([]byte(text))
		var names []string
		for _, rest := range directives(bare) {
			names = append(names, cmp.Or(nameAfter(rest), "?"))
		}
		if composes(bare, slices.ContainsFunc(names, func(n string) bool { return n != "?" })) {
			names = append(names, "?")
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%s\n takes in %q, want %q", text, names, want)
		}
	}
}
