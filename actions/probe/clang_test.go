package probe

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRealClang holds the probe against an installed clang: what clang runs and is made of is another compiler when it is replaced.
func TestRealClang(t *testing.T) {
	for _, name := range []string{"clang++-15", "nvcc", "ptxas"} {
		if find(name, os.Getenv("PATH")) == "" {
			if os.Getenv("KBUILD_REQUIRE_TOOLS") != "" {
				t.Fatalf("%s is required here and was not found", name)
			}
			t.Skipf("needs %s, which is not in PATH", name)
		}
	}
	r := Request{NeedCUDA: true, Compiler: "clang++-15", Env: os.Getenv}
	f := collect(t, r)
	if f.CUDA == nil || f.CUDA.Clang == nil {
		t.Fatal(f.CUDAError)
	}
	k := f.CUDA.Clang
	if k.CUDAPath == "" || len(k.Libs) == 0 || len(k.Driver.ID) != 64 || f.CXX.Path != k.Driver.Path {
		t.Errorf("%+v\n%+v", k, f.CXX)
	}
	for _, a := range f.CUDA.Archs {
		if a.String() == "sm_90" {
			t.Error("clang 15 does not know sm_90")
		}
	}
	if again := collect(t, r); again.CUDA.Clang.Driver.ID != k.Driver.ID {
		t.Error("two probings differ")
	}
	for variable, file := range map[string]string{
		"PATH":            find("ptxas", os.Getenv("PATH")),
		"LD_LIBRARY_PATH": newWorld(t.Context(), r).sharedLibs(k.Driver.Path)["libz.so.1"],
	} {
		t.Run(variable, func(t *testing.T) {
			if file == "" {
				t.Skip("clang is not linked with libz.so.1")
			}
			dir := t.TempDir()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), append(content, 0), 0o777); err != nil {
				t.Fatal(err)
			}
			t.Setenv(variable, dir+string(filepath.ListSeparator)+os.Getenv(variable))
			if other := collect(t, r); other.CUDA == nil || other.CUDA.Clang.Driver.ID == k.Driver.ID {
				t.Errorf("%s in place of %s is the same compiler: %s", dir, file, other.CUDAError)
			}
		})
	}
}
