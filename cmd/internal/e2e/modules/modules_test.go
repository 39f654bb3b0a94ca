package modules_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// The loader takes the GPU's own code or PTX, and refuses what is not as its manifest says, by the
// field.
func TestExampleModules(t *testing.T) {
	t.Parallel()
	e := realExample(t, "modules")
	e.Need("python3")
	e.Kbuild()
	float, double := "build/modules/axpy.float.json", "build/modules/axpy.double.json"
	load := func(want string, status int, args ...string) {
		t.Helper()
		printed, got := e.Status([]string{"LD_LIBRARY_PATH=fake"}, append([]string{"python3", "load.py"}, args...)...)
		if got != status || !strings.Contains(printed, want) {
			t.Errorf("%q: status %d, want %d and %q:\n%s", args, got, status, want, printed)
		}
	}
	e.Run("sh", "-c", "mkdir fake; echo no library >fake/libcuda.so.1")
	load("load.py: no GPU: fake/libcuda.so.1: ", 77, float)
	load("axpy.float.sm_90.cubin: cubin sm_90, ", 0, float, "--dry-run", "--arch", "sm_90")
	load("axpy.double.sm_80.cubin: cubin sm_80, ", 0, double, "--dry-run", "--arch", "sm_86")
	load("axpy.float.compute_90.ptx: ptx compute_90, ", 0, float, "--dry-run", "--arch", "sm_120")
	load("  parameter 3: 8 bytes at 24\n", 0, double, "--dry-run", "--arch", "sm_80")
	load("nothing runs on sm_75: the module has ptx compute_80, ptx compute_90, cubin sm_80, cubin sm_90", 1, float, "--dry-run", "--arch", "sm_75")

	source, err := filepath.Abs("testdata/driver/libcuda.c")
	if err != nil {
		t.Fatal(err)
	}
	e.Run("g++", "-x", "c", "-shared", "-fPIC", "-w", "-o", "fake/libcuda.so.1", source)
	load("1000 elements: as on the CPU", 0, float)
	e.Env = append(e.Env, "FAKE_GPU=120")
	load("axpy.float.compute_90.ptx: ptx compute_90, ", 0, float)
	load("1000 elements: as on the CPU", 0, float)
	e.Env = append(e.Env, "FAKE_DRIVER=11000")
	load("load.py: axpy.float.compute_90.ptx: PTX ", 1, float)
	load(" wants a driver of CUDA ", 1, float)
	e.Env = append(e.Env, "FAKE_GPU=80", "FAKE_DRIVER=10020")
	load("axpy.float.sm_80.cubin: code of CUDA ", 1, float)
	e.Env = append(e.Env, "FAKE_DRIVER=99000")

	good, cubin := e.Read(float), `"file": "axpy.float.sm_80.cubin"`
	for _, c := range []struct{ name, old, new, want string }{
		{"the schema", `"schema": 1`, `"schema": 2`, "the field schema is 2, and this loader knows 1"},
		{"the size", `"size": `, `"size": 1`, "axpy.float.sm_80.cubin: the field size is 1"},
		{"the digest", `"sha256": "`, `"sha256": "0`, "axpy.float.sm_80.cubin: the field sha256 is 0"},
		{"no digest", `"sha256"`, `"sha1"`, "axpy.float.sm_80.cubin: the field sha256 is null"},
		{"the kernel", `"name": "axpy",` + "\n          " + `"demangled": "axpy"`, `"name": "gemm", "demangled": "gemm"`, "the field kernels has no axpy"},
		{"the file", `.cubin"`, `.fatbin"`, "axpy.float.sm_80.fatbin"},
	} {
		before, after, _ := strings.Cut(string(good), cubin)
		if strings.Contains(c.old, "schema") {
			before, after = "", string(good)
		} else {
			after = cubin + after
		}
		e.Write(float, before+strings.Replace(after, c.old, c.new, 1))
		if bytes.Equal(e.Read(float), good) {
			t.Fatalf("%s was not changed", c.name)
		}
		load(c.want, 1, float, "--dry-run", "--arch", "sm_80")
	}
	e.Write(float, strings.ReplaceAll(string(good), `"offset": 0,`+"\n              "+`"size": 4`, `"offset": 0, "size": 2`))
	load("axpy: parameter 0 has 2 bytes at 0 of 24, and its argument 4", 1, float)
	e.Write(float, string(good))
	file := filepath.Join(e.Dir, "build/modules/axpy.float.sm_80.cubin")
	damaged := e.Read("build/modules/axpy.float.sm_80.cubin")
	damaged[100] ^= 1
	if err := os.WriteFile(file, damaged, 0o666); err != nil {
		t.Fatal(err)
	}
	load("the field sha256 is ", 1, float, "--dry-run", "--arch", "sm_80")
}

// The loaders for C++ and Python and the table for C choose alike, and refuse alike what is not as
// the manifest says and what the driver is too old for.
func TestLoaderForCXX(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realExample(t, "modules")
	e.Need("python3")
	e.Edit("kernels.hcl", `"sm_90"]`, `"sm_86", "sm_90"]`)
	e.Kbuild()
	manifest := "build/modules/axpy.float.json"
	e.Run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", "load", "load.cpp", "-ldl")
	e.Run("sh", "-c", "mkdir fake none; echo no library >none/libcuda.so.1")
	source, err := filepath.Abs("testdata/driver/libcuda.c")
	if err != nil {
		t.Fatal(err)
	}
	e.Run("g++", "-x", "c", "-shared", "-fPIC", "-w", "-o", "fake/libcuda.so.1", source)
	load := func(want string, status int, env ...string) {
		t.Helper()
		printed, got := e.Status(append([]string{"LD_LIBRARY_PATH=fake"}, env...), "./load", manifest)
		if got != status || !strings.Contains(printed, want) {
			t.Errorf("%q: status %d, want %d and %q:\n%s", env, got, status, want, printed)
		}
	}
	for arch, want := range map[string]string{"sm_80": "sm_80.cubin", "sm_87": "sm_86.cubin", "sm_89": "sm_86.cubin", "sm_90": "sm_90.cubin", "sm_100": "compute_90.ptx", "sm_120": "compute_90.ptx"} {
		python, _ := e.Run("python3", "load.py", manifest, "--dry-run", "--arch", arch)
		cxx, _ := e.Run("./load", manifest, arch)
		if want = "axpy.float." + want + ": "; !strings.HasPrefix(python, want) || !strings.HasPrefix(cxx, want) {
			t.Errorf("%s takes %s and %s, want %s", arch, python, cxx, want)
		}
		load(want+"loaded, with its kernel", 0, "FAKE_GPU="+arch[3:])
	}
	load("load: no GPU: ", 77, "LD_LIBRARY_PATH=none")
	load("nothing runs on sm_75: the module has ptx compute_80, ", 1, "FAKE_GPU=75")
	load("axpy.float.compute_90.ptx: PTX ", 1, "FAKE_GPU=120", "FAKE_DRIVER=11000")
	load("axpy.float.sm_80.cubin: code of CUDA ", 1, "FAKE_DRIVER=10020")
	good := string(e.Read(manifest))
	for _, c := range []struct{ old, new, want string }{
		{`"schema": 1`, `"schema": 2`, "the field schema is 2, and this loader knows 1"},
		{`"size": `, `"size": 1`, "the field size is 1"},
		{`"sha256": "`, `"sha256": "0`, "the field sha256 is 0"},
		{`"sha256"`, `"sha1"`, "the field sha256 is no string"},
		{`"name": "axpy"`, `"name": "gemm"`, "axpy.float.sm_80.cubin: cuModuleGetFunction: the fake driver refuses"},
		{`"demangled": "axpy"`, `"demangled": "a\u00e9\"b"`, ""},
		{`"artifacts": [`, `"artifacts": [,`, "no JSON at byte "},
	} {
		e.Write(manifest, strings.ReplaceAll(good, c.old, c.new))
		status := 1
		if c.want == "" {
			status = 0
		}
		load(c.want, status)
	}
	e.Write(manifest, good)
	e.Run("sh", "-c", "printf x | dd of=build/modules/axpy.float.sm_80.cubin bs=1 seek=100 conv=notrunc")
	load("axpy.float.sm_80.cubin: the field sha256 is ", 1)
	e.Run("rm", "build/modules/axpy.float.sm_80.cubin")
	load("axpy.float.sm_80.cubin: No such file", 1)
}
