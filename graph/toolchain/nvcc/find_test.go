package nvcc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDirsOf(t *testing.T) {
	for text, want := range map[string][]string{
		`  "-L/cuda/bin/../lib64/stubs" "-L/cuda/bin/../lib64"`: {"/cuda/lib64/stubs", "/cuda/lib64"},
		`  -L/usr/lib/x86_64-linux-gnu/stubs -L/usr/lib`:        {"/usr/lib/x86_64-linux-gnu/stubs", "/usr/lib"},
		`"-isystem" "/a b/bin/../include/cccl"  `:               {"/a b/include/cccl"},
		`"-I/a b/bin/..//include" -I /x`:                        {"/a b/include", "/x"},
		``:                                                      nil,
		`"-L$HOME/lib"`:                                         nil,
	} {
		if diff := cmp.Diff(want, dirsOf(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestOfSystem(t *testing.T) {
	for here, want := range map[string]bool{"/usr/lib/nvidia-cuda-toolkit/bin": true, "/usr/local/cuda-13.5/bin": false, "/opt/cuda/bin": false} {
		if (dry{here: here}).ofSystem() != want {
			t.Errorf("%s: of the system: %v", here, !want)
		}
	}
}
