package python_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// wheel writes a wheel of the kbuild under test, and has pip install it into the folder site of the
// project, which Python and PATH then have. A second one has the same bytes.
func wheel(t *testing.T, e *e2e.Project) {
	t.Helper()
	e.Need("python3")
	if printed, status := e.Status(nil, "python3", "-m", "pip", "--version"); status != 0 {
		tooltest.Missing(t, "pip: "+printed)
	}
	e.Run("sh", "-c", `mkdir programs wheels && cp "$(dirname "$(command -v kbuild)")"/kbuild* programs && kbuild cmake --package lib/cmake/kbuild`)
	var last []byte
	for range 2 {
		write := exec.Command("go", "run", "./cmd/internal/wheel", "-version", "v0.1.0", "-programs", filepath.Join(e.Dir, "programs"),
			"-cmake", filepath.Join(e.Dir, "lib/cmake/kbuild"), "-out", filepath.Join(e.Dir, "wheels"))
		write.Dir = "../../../.."
		if out, err := write.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		data := e.Read("wheels/kbuild-0.1.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl")
		if last != nil && !bytes.Equal(data, last) {
			t.Error("two wheels of the same files are not the same")
		}
		last = data
	}
	e.Run("python3", "-m", "pip", "install", "--no-index", "--no-deps", "--target", "site", "wheels/kbuild-0.1.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl")
	e.Run("rm", "-r", "programs", "wheels", "lib")
	e.Env = append(e.Env, "PYTHONPATH="+filepath.Join(e.Dir, "site"), "PATH="+filepath.Join(e.Dir, "site/bin")+":"+e.Path, "PYTHONDONTWRITEBYTECODE=1")
}

// needs skips the test where Python lacks a module.
func needs(t *testing.T, e *e2e.Project, module string) {
	t.Helper()
	if _, status := e.Status(nil, "python3", "-c", "import "+module); status != 0 {
		t.Skipf("Python has no module %s", module)
	}
}

func TestWheel(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	wheel(t, &e)
	if printed, _ := e.Run("site/bin/kbuild", "--version"); !strings.HasPrefix(printed, "kbuild ") {
		t.Errorf("the program says %s", printed)
	}
	if printed, _ := e.Run("python3", "-m", "kbuild", "--version"); !strings.HasPrefix(printed, "kbuild ") {
		t.Errorf("python3 -m kbuild says %s", printed)
	}
	for option, file := range map[string]string{"--cmake-dir": "kbuild-config.cmake", "--include-dir": "kbuild_load.h"} {
		dir, _ := e.Run("python3", "-m", "kbuild", option)
		if _, err := os.Stat(filepath.Join(strings.TrimSpace(dir), file)); err != nil {
			t.Error(err)
		}
	}
	if printed, _ := e.Run("python3", "-c", "import kbuild; print(kbuild.program('kbuild-cc'))"); printed != filepath.Join(e.Dir, "site/bin/kbuild-cc")+"\n" {
		t.Errorf("kbuild-cc is %s", printed)
	}
}

// A package of setuptools ships modules that kbuild has compiled, and loads them on a GPU (a driver
// that pretends), and without one says so.
func TestExampleSetuptools(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := e2e.Example(t, "python-wheel")
	needs(t, &e, "setuptools, wheel")
	wheel(t, &e)
	build := func() {
		e.Run("python3", "-m", "pip", "wheel", "--no-index", "--no-build-isolation", "--no-deps", "-w", "dist", "setuptools/")
	}
	build()
	e.Edit("setuptools/kernels.hcl", `"sm_80", `, ``) // in the folder with what the first build has left
	build()
	e.Run("python3", "-m", "pip", "install", "--no-index", "--no-deps", "--target", "installed", "dist/axpy_kernels-1.0-py3-none-any.whl")
	e.Env = append(e.Env, "PYTHONPATH="+filepath.Join(e.Dir, "installed")) // without kbuild
	if printed, _ := e.Run("ls", "installed/axpy_kernels/modules"); strings.Contains(printed, "80") || strings.Count(printed, "\n") != 6 {
		t.Errorf("the wheel has the modules\n%s", printed)
	}
	e.Run("sh", "-c", "mkdir fake none && echo no library >none/libcuda.so.1")
	source, err := filepath.Abs("../modules/testdata/driver/libcuda.c")
	if err != nil {
		t.Fatal(err)
	}
	e.Run("g++", "-x", "c", "-shared", "-fPIC", "-w", "-o", "fake/libcuda.so.1", source)
	if printed, status := e.Status([]string{"LD_LIBRARY_PATH=none"}, "python3", "-m", "axpy_kernels"); status != 1 || !strings.Contains(printed, "nothing runs on sm_80") {
		t.Errorf("a wheel without code for it ends with %d: %s", status, printed)
	}
	e.Write("try.py", "import axpy_kernels\nprint(axpy_kernels.axpy(2, [1, 2, 3], [10, 20, 30]))\n")
	if printed, status := e.Status([]string{"LD_LIBRARY_PATH=none"}, "python3", "try.py"); status == 0 || !strings.Contains(printed, "NoGPU: ") {
		t.Errorf("without a driver it ends with %d: %s", status, printed)
	}
	if printed, status := e.Status([]string{"LD_LIBRARY_PATH=fake", "FAKE_GPU=90"}, "python3", "try.py"); printed != "[12.0, 24.0, 36.0]\n" {
		t.Errorf("with a driver it ends with %d: %s", status, printed)
	}
	if printed, status := e.Status([]string{"LD_LIBRARY_PATH=fake", "FAKE_GPU=90", "FAKE_DRIVER=9000"}, "python3", "try.py"); status == 0 || !strings.Contains(printed, "wants a driver of CUDA ") {
		t.Errorf("with an old driver it ends with %d: %s", status, printed)
	}
}

// A package of scikit-build-core finds the package of CMake in the wheel of kbuild.
func TestExampleScikitBuildCore(t *testing.T) {
	t.Parallel()
	e := e2e.Example(t, "python-wheel")
	needs(t, &e, "scikit_build_core")
	e.Need("cmake", "ninja")
	wheel(t, &e)
	e.Run("sh", "-c", "python3 -m pip wheel --no-index --no-build-isolation --no-deps -w dist scikit-build-core/ && python3 -m pip install --no-index --no-deps --target installed dist/saxpy-1.0-*.whl")
	if got := e.ELFs("installed/saxpy/libsaxpy.so"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	e.Env = append(e.Env, "PYTHONPATH="+filepath.Join(e.Dir, "installed"))
	if printed, status := e.Status(nil, "python3", "-m", "saxpy"); status != 77 && printed != "[12.0, 24.0, 36.0]\n" {
		t.Errorf("it ends with %d: %s", status, printed)
	}
}
