package hip_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// A HIP source is compiled by nvcc where its target ships NVIDIA's code, and by hipcc where it
// ships AMD's, in one run.
func TestHIPForNVIDIA(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "nvidia")
	e.needHIP()
	e.Need("nvcc")
	const header = "/usr/include/hip/nvidia_detail/nvidia_hip_runtime.h"
	if _, err := os.Stat(header); err != nil {
		t.Skip("cannot be here: no ", header)
	}
	probe := exec.Command("nvcc", "-x", "cu", "-D__HIP_PLATFORM_NVIDIA__", "-E", "-include", "hip/hip_runtime.h", os.DevNull)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("cannot be here: HIP's headers are not for this CUDA: %.300s", out)
	}
	e.Kbuild()
	if got := e.ELFs("build/bin/app"); got != "sm_80" {
		t.Errorf("the program has code of %s", got)
	}
	out, _ := e.Run("kbuild", "inspect", "build/lib/libnvidia.a", "build/lib/libamd.a")
	for _, want := range []string{"sm_80 ", "compute_80 ", "gfx906 "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if printed, _ := e.Run(filepath.Join(e.Dir, "build/bin/app")); !strings.Contains(printed, "no GPU") && printed != "" {
		t.Errorf("the program says %q", printed)
	}
	e.Edit("scale.hip", "__global__", "// a line\n__global__")
	e.Ran("a line", "device-code 1, host-part 1, preprocess 2")
	e.Edit("scale.h", "int scale", "/* here */ int scale")
	e.Ran("a comment in a header", "device-code 1, host-part 1, preprocess 4")
}
