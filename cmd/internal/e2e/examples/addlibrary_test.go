package examples_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// cmakes are the CMakes to test with: that of PATH, and those that KBUILD_TEST_CMAKE names.
func cmakes(e *e2e.Project) []string {
	e.Need("cmake", "make", "ninja")
	return append([]string{e.Which("cmake")}, filepath.SplitList(os.Getenv("KBUILD_TEST_CMAKE"))...)
}

// asCMake are the arguments of a cmake that finds the package of kbuild, and compiles with a
// toolkit.
func asCMake(t *testing.T, e *e2e.Project, program string, args ...string) []string {
	t.Helper()
	e.Run("kbuild", "cmake", "--package", "package")
	return slices.Concat([]string{program, "-Dkbuild_DIR=" + filepath.Join(e.Dir, "package"), "-DCMAKE_CUDA_HOST_COMPILER=" + tooltest.HostGCC(t),
		"-DCMAKE_CUDA_ARCHITECTURES=80;90"}, args)
}

// Libraries of a kernels.hcl are targets of a CMake project: with their headers, the generated ones
// too, in the folder above that which asked for them; a kernel of the program has the library's
// function in it, and a program of plain C++ the library's kernels. A second build does nothing,
// and an edit links again what needs it.
func TestAddLibrary(t *testing.T) {
	t.Parallel()
	e := e2e.Unpack(t, "addlibrary")
	for _, program := range cmakes(&e) {
		for _, generator := range tooltest.Sample(map[string]bool{"Unix Makefiles": true, "Ninja": true}, "Ninja") {
			out := "out " + filepath.Base(generator)
			printed, _ := e.Run(asCMake(t, &e, program, "-S", ".", "-B", out, "-G", generator, "-DCMAKE_BUILD_TYPE=Release")...)
			if !strings.Contains(printed, "code of base: lto_80;lto_90") {
				t.Errorf("%s: the configuration says\n%s", program, printed)
			}
			e.Run(program, "--build", out, "-j2")
			if got := e.Calls(out+"/app", "main_kernel") + e.Calls(out+"/app", "solve_kernel"); got != "" {
				t.Errorf("%s, %s: with LTO the kernels call %s", program, generator, got)
			}
			if got := strings.Join(e.Functions(out+"/plain"), " "); got != "_Z12solve_kernelPf _Z12solve_kernelPf" {
				t.Errorf("%s, %s: the program of plain C++ has %s", program, generator, got)
			}
			e.Run(out + "/app")
			e.Run(out + "/plain")
			printed, _ = e.Run(program, "--build", out, "-j2")
			if strings.Contains(printed, "Linking") || strings.Contains(printed, "Building") {
				t.Errorf("%s, %s: the second build says\n%s", program, generator, printed)
			}
			e.Edit("kernels/src/base.cu", "3.0f", "4.0f")
			printed, _ = e.Run(program, "--build", out, "-j2")
			if strings.Contains(printed, "Building") || strings.Count(printed, "Linking") < 2 {
				t.Errorf("%s, %s: after an edit the build says\n%s", program, generator, printed)
			}
			e.Edit("kernels/src/base.cu", "4.0f", "3.0f")
			e.Run(program, "--install", out, "--prefix", "installed")
			e.Run("kbuild", "precompile", "--verify", "installed/modules/axpy.json")
			e.Run("rm", "-r", out, "installed")
		}
	}
}

// The configurations of one build folder have the profiles that the project gives them.
func TestAddLibraryByConfiguration(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := e2e.Unpack(t, "addlibrary")
	for _, program := range cmakes(&e) {
		e.Run(asCMake(t, &e, program, "-S", ".", "-B", "out", "-G", "Ninja Multi-Config")...)
		for line := range strings.Lines(string(e.Read("out/CMakeFiles/impl-Release.ninja"))) { // objects wait for the headers of their configuration
			if strings.HasPrefix(line, "build cmake_object_order_depends_target_app_RELEASE:") && strings.Count(line, "/kbuild_") != 2 {
				t.Errorf("%s: %s", program, line)
			}
		}
		e.Run(program, "--build", "out", "--config", "Debug", "--target", "app")
		if got := e.Calls("out/Debug/app", "solve_kernel"); got != "_Z4basef" {
			t.Errorf("%s: in Debug the kernel calls %q", program, got)
		}
		e.Run(program, "--build", "out", "--config", "Release", "--target", "app")
		if got := e.Calls("out/Release/app", "solve_kernel"); got != "" {
			t.Errorf("%s: in Release the kernel calls %s", program, got)
		}
		e.Run("rm", "-r", "out")
	}
}

// What kbuild says of a fault is seen: of the manifest while CMake is configured, which has it run
// again after an edit, and of a source in the build.
func TestAddLibraryFaults(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := e2e.Unpack(t, "addlibrary")
	program := e.Which("cmake")
	e.Need("cmake", "make")
	configure := asCMake(t, &e, program, "-S", ".", "-B", "out", "-G", "Unix Makefiles")
	refused := func(want string, argv ...string) {
		t.Helper()
		printed, status := e.Status(nil, argv...)
		if status == 0 || !strings.Contains(printed, want) {
			t.Errorf("status %d, want %q:\n%s", status, want, printed)
		}
	}
	e.Run(configure...)
	e.Edit("kernels/src/base.cu", "return x", "return y")
	refused(`identifier "y" is undefined`, program, "--build", "out")
	e.Edit("kernels/src/base.cu", "return y", "return x")
	e.Edit("kernels/kernels.hcl", `mode     = var.mode`, `mode     = var.none`)
	refused("kernels.hcl:13", program, "--build", "out")
	e.Edit("kernels/kernels.hcl", `var.none`, `var.mode`)
	e.Edit("kernels/CMakeLists.txt", "library.base", "library.bass")
	refused("library.bass", program, "--build", "out")
	e.Edit("kernels/CMakeLists.txt", "library.bass", "module.axpy")
	refused("module.axpy is not one library", program, "--build", "out")
	e.Edit("kernels/CMakeLists.txt", "TARGET module.axpy", "TARGETS library.base")
	refused("kbuild does not know TARGETS", program, "--build", "out")
}

// Under make -j kbuild is a client of make's jobserver, with a CMake that knows of jobservers and
// with one that does not. The package brings the launcher as well.
func TestAddLibraryJobserver(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := e2e.Unpack(t, "addlibrary")
	for _, program := range cmakes(&e) {
		printed, _ := e.Run(asCMake(t, &e, program, "-S", ".", "-B", "out", "-G", "Unix Makefiles", "-DLAUNCHER=ON")...)
		if !strings.Contains(printed, "kbuild-cc stands before the compilers and the device links") {
			t.Errorf("%s: the configuration says\n%s", program, printed)
		}
		if printed, status := e.Status(nil, "make", "-C", "out", "-j2", "modules"); status != 0 || strings.Contains(printed, "jobserver") {
			t.Errorf("%s: make ends with %d and says\n%s", program, status, printed)
		}
		e.Run("rm", "-r", "out")
	}
}
