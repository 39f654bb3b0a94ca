package hip

import (
	"strings"
	"testing"
)

func TestOldLibs(t *testing.T) {
	const printed = "cannot find ROCm device library for ABI version 6, which requires ROCm 6.3 or higher; provide its path via '--rocm-path'"
	fix, ok := OldLibs("clang++-22: error: "+printed, 22)
	for _, want := range []string{"clang 22", "ABI version 6", "ROCm 6.3 or newer", "rocm-device-libs-22", "-mcode-object-version=5"} {
		if !ok || !strings.Contains(fix, want) {
			t.Errorf("%q, want %q", fix, want)
		}
	}
	if fix, ok := OldLibs("cannot find ROCm device library for gfx1250", 22); ok {
		t.Error(fix)
	}
	if fix, ok := OldLibs("cannot find ROCm device library for ABI version seven", 30); !ok || strings.Contains(fix, "-mcode") {
		t.Error(fix)
	}
}
