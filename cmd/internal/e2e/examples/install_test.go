package examples_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// A library of LTO-IR is installed and moved, its project goes away, and a CMake project in a
// folder with a blank finds it: the kernel of the program has the library's function in it, and a
// program of plain C++ has the library's kernel.
func TestExampleInstall(t *testing.T) {
	t.Parallel()
	for i, tk := range tooltest.Toolkits(t) {
		t.Run(tk.Release, func(t *testing.T) {
			if i > 0 {
				tooltest.Broad(t)
			}
			t.Parallel()
			e := realExample(t, "install")
			e.Use(tk)
			e.Run("kbuild", "install", "--prefix", "/usr", "--destdir", "staged")
			e.Run("sh", "-c", "mkdir elsewhere && mv staged/usr elsewhere/prefix && mv app elsewhere && rm -r build src include")
			cmake(t, &e.Project, tk, "elsewhere/app", "elsewhere/prefix")
			if got := e.Calls("out/app", "twice_kernel"); got != "" {
				t.Errorf("with LTO the kernel calls %s", got)
			}
			if got := strings.Join(e.Functions("out/app"), " "); strings.Contains(got, "_Z4polyf") {
				t.Errorf("with LTO the function is still there: %s", got)
			}
			if got := strings.Join(e.Functions("out/plain"), " "); got != "_Z12apply_kernelPf _Z12apply_kernelPf" {
				t.Errorf("the program of plain C++ has %s", got)
			}
			for _, program := range []string{"out/app", "out/plain"} {
				if got := e.ELFs(program); got != "sm_80 sm_90" {
					t.Errorf("%s has machine code %q", program, got)
				}
				e.Run(program)
			}
			if printed, _ := e.Status(nil, "cmake", "-DCMAKE_CUDA_ARCHITECTURES=75;80", "out"); !strings.Contains(printed, "poly::poly has no code that links for 75 of") ||
				strings.Contains(printed, "links for 80") {
				t.Errorf("for an architecture that the library lacks CMake says\n%s", printed)
			}
		})
	}
}

// cmake builds a project in the folder out, against what is installed below a prefix.
func cmake(t *testing.T, e *e2e.Project, tk tooltest.Toolkit, project, prefix string, args ...string) {
	t.Helper()
	e.Need("cmake")
	args = append([]string{"cmake", "-S", project, "-B", "out", "-DCMAKE_PREFIX_PATH=" + filepath.Join(e.Dir, prefix)}, args...)
	if tk.Root == "" {
		args = append(args, "-DCMAKE_CUDA_HOST_COMPILER="+tooltest.HostGCC(t))
	} else {
		args = append(args, "-DCMAKE_CUDA_COMPILER="+filepath.Join(tk.Root, "bin", "nvcc"))
	}
	e.Run(args...)
	e.Run("cmake", "--build", "out")
}

// Libraries of every kind, in a project of plain C++ without the language CUDA and in one with it,
// and by pkg-config.
func TestInstalledLibraries(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := e2e.Unpack(t, "install")
	e.Need("pkg-config", "gcc", "ar")
	e.Run("sh", "vendor/make")
	e.Run("kbuild", "install", "--prefix", "pre fix")
	e.Run("rm", "-r", "build", "vendor", "src")
	e.Run("pre fix/bin/prog")
	for _, languages := range []string{"CXX", "CXX;CUDA"} {
		e.Run("rm", "-rf", "out")
		cmake(t, &e, tooltest.Toolkit{}, "app", "pre fix", "-DLANGUAGES="+languages)
		if out, _ := e.Run("out/app"); out != "1 4 0 5\n" {
			t.Errorf("the program of %s says %s", languages, out)
		}
	}
	printed, status := e.Status(nil, "cmake", "-S", "app", "-B", "refused", "-DLANGUAGES=CXX", "-DCOMPONENTS=open", "-DCMAKE_PREFIX_PATH="+filepath.Join(e.Dir, "pre fix"))
	if printed = strings.Join(strings.Fields(printed), " "); status == 0 || !strings.Contains(printed, "all::open has device code that is linked together with the program's: add CUDA to the LANGUAGES of project()") {
		t.Errorf("a project without CUDA is told (%d) %s", status, printed)
	}
	e.Run("sh", "-c", `PKG_CONFIG_PATH="pre fix/lib/pkgconfig" && export PKG_CONFIG_PATH &&
		eval "`+tooltest.HostGCC(t)+` -x c++ app/main.cpp -x none -o linked $(pkg-config --cflags --libs all-closed all-plain all-so) -lstdc++"`)
	if out, status := e.Status([]string{"LD_LIBRARY_PATH=" + filepath.Join(e.Dir, "pre fix", "lib")}, "./linked"); out != "1 4 0 5\n" {
		t.Errorf("the program that pkg-config has linked says (%d) %s", status, out)
	}
}

// A shared library loads the runtime of a toolkit that is in no folder of the system. The linker of
// a program finds it.
func TestInstalledSharedRuntime(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	for _, tk := range tooltest.Toolkits(t) {
		if tk.Root == "" {
			continue
		}
		e := e2e.New(t)
		e.Use(tk)
		e.Run("mkdir", "app")
		e.Write("kernels.hcl", `package { name = "so" }
library "so" {
  sources = ["so.cu"]
  code    = ["sm_80"]
  type    = "shared"
  cudart  = "shared"
}
`)
		e.Write("so.cu", "__global__ void k(int *v) { *v = 1; }\nint so() {\n  k<<<1, 1>>>(nullptr);\n  return 0;\n}\n")
		e.Write("app/main.cpp", "int so();\nint main() { return so(); }\n")
		e.Write("app/CMakeLists.txt", `cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES CXX)
find_package(so REQUIRED)
add_executable(app main.cpp)
target_link_libraries(app PRIVATE so::so)
`)
		e.Run("kbuild", "install", "--prefix", "prefix")
		cmake(t, &e, tk, "app", "prefix", "-DCUDAToolkit_ROOT="+tk.Root)
		if printed, status := e.Status([]string{"LD_LIBRARY_PATH=" + filepath.Join(tk.Root, "lib")}, "out/app"); status != 0 {
			t.Errorf("%s: the program ends with %d: %s", tk.Release, status, printed)
		}
	}
}

// Two libraries whose objects register themselves, one with relocatable device code: CMake and
// pkg-config link all of both.
func TestInstalledAlwaysLink(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := e2e.New(t)
	e.Need("pkg-config")
	e.Write("kernels.hcl", `package { name = "ops" }
defaults { code = ["sm_80"] }
library "base" { sources = ["base.cpp"] }
library "first" {
  sources     = ["first.cu"]
  mode        = "rdc"
  deps        = [library.base]
  always_link = true
}
library "second" {
  sources     = ["second.cpp"]
  deps        = [library.base, library.first]
  always_link = true
}
`)
	e.Write("base.cpp", "int registered;\n")
	register := "extern int registered;\nstatic int once = ++registered;\n"
	e.Write("first.cu", "__global__ void first(int *v) { *v = 1; }\n"+register)
	e.Write("second.cpp", register)
	e.Run("mkdir", "app")
	e.Write("app/main.cpp", "extern int registered;\nint main() { return registered; }\n")
	e.Write("app/CMakeLists.txt", `cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES CXX CUDA)
find_package(ops REQUIRED)
add_executable(app main.cpp)
target_link_libraries(app PRIVATE ops::second)
`)
	e.Run("kbuild", "install", "--prefix", "pre fix")
	cmake(t, &e, tooltest.Toolkit{}, "app", "pre fix", "-DCMAKE_CUDA_ARCHITECTURES=80")
	if printed, status := e.Status(nil, "out/app"); status != 2 {
		t.Errorf("the program that CMake has linked has %d of 2 objects: %s", status, printed)
	}
	if got := strings.Join(e.Functions("out/app"), " "); got != "_Z5firstPi" {
		t.Errorf("the program that CMake has linked has the kernels %q", got)
	}
	libs := `PKG_CONFIG_PATH="pre fix/lib/pkgconfig" pkg-config`
	e.Run("sh", "-c", "nvcc -ccbin "+tooltest.HostGCC(t)+` -dlink -arch=sm_80 "pre fix/lib/libfirst.a" -o link.o &&
		eval "`+tooltest.HostGCC(t)+` app/main.cpp link.o -o linked $(`+libs+` --libs ops-second) -lstdc++"`)
	if printed, status := e.Status(nil, "./linked"); status != 2 {
		t.Errorf("the program that pkg-config has linked has %d of 2 objects: %s", status, printed)
	}
}
