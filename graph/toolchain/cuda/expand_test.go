package cuda

import (
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// The rows are what nvcc makes for -arch=all and -arch=all-major, of the architectures that it
// lists.
func TestExpandAll(t *testing.T) {
	const of118 = "sm_35 sm_37 sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90"
	const of135 = "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_103 sm_107 sm_110 sm_120 sm_121"
	const suffixed = "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_90a sm_100 sm_100a sm_100f sm_103 sm_103f sm_107 sm_110 sm_120 sm_120f sm_121 sm_121a"
	for _, tt := range []struct{ name, archs, set, want string }{
		{"11.8", of118, "all", of118 + " compute_90"},
		{"11.8", of118, "all-major", "sm_35 sm_50 sm_60 sm_70 sm_80 sm_90 compute_90"},
		{"13.5", suffixed, "all", of135 + " compute_120"},
		{"13.5", suffixed, "all-major", "sm_75 sm_80 sm_90 sm_100 sm_110 sm_120 compute_120"},
		{"one", "sm_80", "all-major", "sm_80 compute_80"},
		{"none", "", "all", ""},
	} {
		var archs []gencode.Code
		for _, name := range strings.Fields(tt.archs) {
			c, err := gencode.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			archs = append(archs, c)
		}
		if got := strings.Join(toolchain.CodeNames(expandAll(tt.set, archs)), " "); got != tt.want {
			t.Errorf("%s of %s:\n got %s\nwant %s", tt.set, tt.name, got, tt.want)
		}
	}
}

func TestReleases(t *testing.T) {
	for name, want := range map[string]string{
		"sm_37": "CUDA 11.8 is the last that knows", "sm_70": "CUDA 12.9 is the last that knows",
		"sm_90": "CUDA 11.8 and newer know", "sm_90a": "CUDA 12.0 and newer know", "sm_90f": "",
		"sm_100": "CUDA 12.8 and newer know", "compute_100f": "CUDA 12.9 and newer know",
		"sm_101": "CUDA 12.8 to 12.9 know", "sm_110f": "CUDA 13.0 and newer know", "sm_20": "",
	} {
		code, err := gencode.Parse(name)
		if got := releases(code); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}
