package manifest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

func local(expr string) string { return "locals {\n  x = " + expr + "\n}\n" }

func module(name, matrix string) string {
	return fmt.Sprintf("module %q {\n  sources = [\"a.cu\"]\n  matrix  = %s\n}\n", name, matrix)
}

// TestBounds loads manifests with a slip that asks for more than there is. Each is refused, at its
// place, before it takes much.
func TestBounds(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"mistakes", strings.Repeat("a = 1\n", 5000), "and 3999 more like these"},
		{"a range", local("range(1000000000)"), ": range(): more than 1024 values"},
		{"a remainder", local("7 % 0"), ": division by zero"},
		{"digits", local("tostring(1e99999999)"), "2:16: a number above 1.8e308"},
		{"digits of a text", local("tostring(tonumber(\"1e99999999\"))"), "a number above 1.8e308"},
		{"an infinite number", local("tonumber(\"Inf\") % 2"), "infinite"},
		{"a product", local("setproduct(range(300), range(300), range(300))"), "the product of the lists has more than 1000000 elements"},
		{"a matrix", module("m", "{ a = range(1000), b = range(1000) }"), "3:13: the matrix of module \"m\" has more than 10000 instances"},
		{"matrices", module("m", "{ a = range(100), b = range(100) }") + module("n", "{ a = range(100) }"), "7:13: for_each and matrix have more than 10000 instances"},
		{"brackets", local(strings.Repeat("[", 200_000)), "2:10006: kernels.hcl has more than 10000 nested brackets or signs"},
		{"signs", local(strings.Repeat("- ", 400_000) + "1"), "2:20005: kernels.hcl has more than 10000 nested brackets or signs"},
		{"a zero byte", "a\x00b", "1:2: kernels.hcl is not text: it has the byte 0x00"},
		{"latin-1", "a = 1\nb = \"\xe4\"\n", "2:6: kernels.hcl is not text: it has the byte 0xe4"},
		{"utf-16", "\xff\xfea\x00", "1:1: kernels.hcl is UTF-16, not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, diags := Load(Options{Dir: t.TempDir(), FS: fstest.MapFS{DefaultFile: {Data: []byte(tt.text)}, "a.cu": {}}})
			runtime.ReadMemStats(&after)
			var printed strings.Builder
			for _, d := range diags {
				fmt.Fprintln(&printed, d.Error())
			}
			if !strings.Contains(printed.String(), tt.want) {
				t.Errorf("it says\n%.500s\nwant %s", printed.String(), tt.want)
			}
			if made := after.TotalAlloc - before.TotalAlloc; made > 1<<30 {
				t.Errorf("%d MiB were allocated", made>>20)
			}
		})
	}
}

// The text of a variable is bounded as a manifest is.
func TestDeepVariable(t *testing.T) {
	_, diags := try("variable \"v\" {\n  type = list(any)\n}\n", Options{Vars: map[string]string{"v": strings.Repeat("[", 130_000)}})
	if len(diags) != 1 || !strings.Contains(diags[0].Summary, "more than 10000 nested brackets or signs") {
		t.Errorf("%v", diags)
	}
}

// A mark at the beginning is no error, and what is large and meant is none.
func TestWithinBounds(t *testing.T) {
	files := fstest.MapFS{}
	for i := range 2000 {
		files[fmt.Sprintf("src/f%d.cpp", i)] = &fstest.MapFile{}
	}
	text := "\xef\xbb\xbflocals {\n  all = distinct(concat(glob(\"src/*.cpp\"), [" + strings.Repeat("\"src/f1.cpp\", ", 5000) + "]))\n}\n"
	for i := range 20 {
		text += fmt.Sprintf("executable \"e%d\" {\n  sources = [for s in local.all: s if startswith(s, \"src/f%d\")]\n}\n", i, i+1)
	}
	files[DefaultFile] = &fstest.MapFile{Data: []byte(text)}
	p, diags := Load(Options{Dir: t.TempDir(), FS: files})
	if diags.HasErrors() || len(p.Targets) != 20 {
		t.Errorf("%d targets: %v", len(p.Targets), diags)
	}
}

// Conversions of many elements take linear time: 15 seconds each if it grows with the square.
func TestManyElements(t *testing.T) {
	for _, f := range []string{"toset", "tolist", "distinct"} {
		text := "locals {\n  all = flatten([for a in range(20): [for b in range(1000): \"d${a}/f${b}\"]])\n" +
			"  n = length(" + f + "([for f in local.all: \"src/${f}\"]))\n}\n" +
			"executable \"e\" {\n  sources = [\"a.cu\"]\n  defines = { N = local.n }\n}\n"
		p, diags := Load(Options{Dir: t.TempDir(), FS: fstest.MapFS{DefaultFile: {Data: []byte(text)}, "a.cu": {}}})
		if diags.HasErrors() || *p.Targets[0].Sources[0].Defines[0].Value != "20000" {
			t.Errorf("%s: %v", f, diags)
		}
	}
}
