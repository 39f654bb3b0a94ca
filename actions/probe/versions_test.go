package probe

import (
	"os"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// TestMakes asks the installed toolkit what it makes: its machine code is of its own release, and
// its LTO-IR tells all of its version.
func TestMakes(t *testing.T) {
	tooltest.Need(t, "nvcc")
	f := collect(t, Request{Needs: needs("cuda"), Env: os.Getenv})
	if f.CUDA.Toolkit == nil {
		t.Fatal(f.CUDA.Missing)
	}
	makes := f.CUDA.Makes
	if makes[gencode.SASS].String() != f.CUDA.Version || makes[gencode.PTX][0] < 7 || makes[gencode.LTO][0] != 1 || makes[gencode.LTO][2] != 2 {
		t.Errorf("CUDA %s makes %v", f.CUDA.Version, makes)
	}
}
