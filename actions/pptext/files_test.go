package pptext

import (
	"slices"
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
