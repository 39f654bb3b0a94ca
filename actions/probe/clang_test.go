package probe

import (
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// TestRealClang holds the probe against an installed clang: what clang runs and is made of is
// another compiler when it is replaced.
func TestRealClang(t *testing.T) {
	tooltest.Broad(t)
	tooltest.Need(t, "nvcc", "ptxas")
	name, unknown := "clang++"+tooltest.LLVM(t), "sm_90"
	if tooltest.ClangMajor(t) > 15 {
		unknown = "sm_100"
	}
	r := Request{Needs: wants("cuda", find.Wanted{Needed: true, Compiler: name}), Env: os.Getenv}
	f := collect(t, r)
	if f.CUDA.Toolkit == nil || f.CUDA.Clang == nil {
		t.Fatal(f.CUDA.Missing)
	}
	k := f.CUDA.Clang
	if k.CUDAPath == "" || len(k.Libs) == 0 || len(k.Driver.ID) != 64 || f.CXX.Path != k.Driver.Path {
		t.Errorf("%+v\n%+v", k, f.CXX)
	}
	for _, a := range f.CUDA.Archs {
		if a.String() == unknown {
			t.Errorf("%s does not know %s", name, unknown)
		}
	}
	if again := collect(t, r); again.CUDA.Clang.Driver.ID != k.Driver.ID {
		t.Error("two probings differ")
	}
	for variable, file := range map[string]string{
		"PATH":            inPath("ptxas", os.Getenv("PATH")),
		"LD_LIBRARY_PATH": sharedLibs(t, k.Driver.Path, nil)["libz.so.1"],
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
			if other := collect(t, r); other.CUDA.Toolkit == nil || other.CUDA.Clang.Driver.ID == k.Driver.ID {
				t.Errorf("%s in place of %s is the same compiler: %s", dir, file, other.CUDA.Missing)
			}
		})
	}
}
