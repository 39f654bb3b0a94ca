package pptext

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestFiles(t *testing.T) {
	text := "# 1 \"a b.cu\"\n# 1 \"<built-in>\"\n# 1 \"/the/folder//\"\n# 1 \"dir/h\\\"q.h\" 1 3 4\n# 12 \"a b.cu\" 2\n#pragma once\n# 3 no marker\nint x; // # 1 \"c.h\"\n# 7 \"last.h\""
	if got, want := Files([]byte(text), false), []string{"a b.cu", `dir/h"q.h`, "last.h"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Files([]byte(text), true), []string{"a b.cu", "last.h"}; !slices.Equal(got, want) {
		t.Errorf("without those of the system %q, want %q", got, want)
	}
}

// Texts of two checkouts have one canonical form, as long as only line markers name the checkout.
func TestBase(t *testing.T) {
	text := func(base, code string) string {
		return "# 1 \"" + base + "/k.cu\"\n# 1 \"" + base + "/inc/k.h\" 1\n\n\nint a;\n# 2 \"" + base + "/k.cu\" 2\n" + code + "\n"
	}
	for code, placed := range map[string]bool{
		"int b;":                                false,
		`const char *f = "/a/proj/k.cu";`:       true,
		`const char *f = "/b/x/proj/k.cu";`:     false, // of the other one
		"const char *f = __builtin_FILE();":     true,
		"auto l = __builtin_source_location();": true,
	} {
		var forms [2][]byte
		for i, base := range []string{"/a/proj", "/b/x/proj"} {
			forms[i], _ = AppendCanonical(nil, []byte(text(base, code)), Options{Base: base})
		}
		if got := NamesBase([]byte(text("/a/proj", code)), "/a/proj"); got != placed {
			t.Errorf("%s: is of its place: %v", code, got)
		}
		asks := strings.Contains(code, "__builtin")
		if same := bytes.Equal(forms[0], forms[1]); same == asks {
			t.Errorf("%s: one form: %v\n%s\n%s", code, same, forms[0], forms[1])
		}
	}
}
