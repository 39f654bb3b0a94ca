package modules_test

import (
	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"strings"
	"testing"
)

// Device code without host code around it is linked as if nvcc had compiled it: from a fatbin of
// two kinds of LTO-IR, from bare LTO-IR, and from a library behind -l in a program of plain C++.
func TestRealPrebuilt(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "prebuilt")
	lto := []string{"-gencode", "arch=compute_75,code=lto_75", "-gencode", "arch=compute_80,code=lto_80"}
	nvcc := func(args ...string) { e.Run(append([]string{"nvcc", "-O2"}, args...)...) }
	nvcc(append(lto, "-fatbin", "-dc", "-o", "vendor/scale.fatbin", "vendor/scale.cu")...)
	nvcc(append(lto[2:], "-dc", "--keep", "--keep-dir", "vendor", "-o", "vendor/scale.o", "vendor/scale.cu")...)
	nvcc("-arch=sm_80", "-dc", "-o", "vendor/part.o", "vendor/part.cu")
	e.Run("ar", "qcsD", "vendor/libpart.a", "vendor/part.o")

	e.Kbuild()
	nvcc("-gencode", "arch=compute_80,code=lto_80", "-gencode", "arch=compute_86,code=lto_86", "-dc", "-o", "vendor/main.o", "main.cu")
	nvcc("-dlto", "-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_86,code=sm_86", "-o", "vendor/want", "vendor/main.o", "vendor/scale.o")
	want := e.DeviceCode("vendor/want")
	for _, program := range []string{"fatbin", "bare"} {
		if e.DeviceCode("build/bin/"+program) != want {
			t.Errorf("%s holds other code than nvcc's program with the object", program)
		}
		e.Run("build/bin/" + program)
	}
	e.Run("build/bin/plain")
	if code := e.DeviceCode("build/bin/plain"); !strings.Contains(code, ".text._Z4partPi") {
		t.Errorf("the program of plain C++ holds\n%s", code)
	}
	e.Kbuild("callbacks", "--check-link", "sm_80")
	if c := e.Kbuild(); c.Up_to_date != c.Actions {
		t.Errorf("again: %+v", c)
	}
	e.Run("rm", "-rf", "build")
	if c := e.Kbuild(); c.Ran != 0 {
		t.Errorf("after rm -rf build: %+v", c)
	}

	e.Kbuild("--no-split", "--build-dir", "whole", "executable.fatbin", "executable.bare")
	for _, program := range []string{"fatbin", "bare"} {
		if e.DeviceCode("whole/bin/"+program) != want {
			t.Errorf("in one piece, %s holds other code than nvcc's program with the object", program)
		}
	}

	nvcc(append(lto, "-ftz=true", "-fatbin", "-dc", "-o", "vendor/scale.fatbin", "vendor/scale.cu")...)
	if _, printed, status := e.Fails(); status != 2 || !strings.Contains(printed, "cannot link vendor/scale.fatbin (ftz=true prec_div=true prec_sqrt=true fmad=true) with executable.fatbin (ftz=false") {
		t.Errorf("LTO-IR with other options: status %d\n%s", status, printed)
	}
}
