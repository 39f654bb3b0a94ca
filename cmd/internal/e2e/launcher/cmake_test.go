package launcher_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// TestCMake puts the launcher into a CMake project by one file. All compiles and the device link go
// through it; in a new build folder all of them are hits, and the program has the device code that
// it has without the launcher.
func TestCMake(t *testing.T) {
	t.Parallel()
	p := &project{e2e.Unpack(t, "cmake")}
	p.Use(tooltest.Toolkit{})
	p.Need("cmake", "make")
	text, _ := p.Run("kbuild", "cc", "--cmake")
	p.Write("kbuild.cmake", text)
	build := func(args ...string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(p.Dir, "build")); err != nil {
			t.Fatal(err)
		}
		out, _ := p.Run(append([]string{"cmake", "-S", ".", "-B", "build", "-G", "Unix Makefiles", "-DLTO=ON", "-DCMAKE_CUDA_ARCHITECTURES=80;90", "-DCMAKE_BUILD_TYPE=Release"}, args...)...)
		if len(args) > 0 && !strings.Contains(out, "stands before the compilers and the device links") {
			t.Errorf("cmake says %s", out)
		}
		p.Run("cmake", "--build", "build", "-j2")
	}
	build()
	plain := p.DeviceCode("build/app")
	for _, want := range []string{"6        0        6        0", "12        6        6        0"} {
		build("-DCMAKE_PROJECT_INCLUDE=" + filepath.Join(p.Dir, "kbuild.cmake"))
		if p.DeviceCode("build/app") != plain {
			t.Error("the program has other device code than without the launcher")
		}
		if stats, _ := p.Run("kbuild", "cc", "--stats"); !strings.Contains(stats, want) {
			t.Errorf("calls, hits, misses and left are not %s:\n%s", want, stats)
		}
	}
}
