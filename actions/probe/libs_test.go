package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// TestFindLib finds what a link may take for -lNAME, and says so where that cannot be known.
func TestFindLib(t *testing.T) {
	root, tk := t.TempDir(), t.TempDir()
	for _, f := range []string{"own/libboth.a", "own/libboth.so", "own/libexact.a", "else/libelse.a", "env/libenv.so", "own/libscript.so"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, f)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, f), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tk, "libtk.so"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	r := Request{Root: root, Env: func(name string) string {
		if name == "LIBRARY_PATH" {
			return filepath.Join(root, "env") + ":/nowhere"
		}
		return ""
	}}
	for name, want := range map[string]string{"both": "own/libboth.so", ":libexact.a": "own/libexact.a", "else": "else/libelse.a",
		"env": filepath.Join(root, "env/libenv.so"), "script": "own/libscript.so", "tk": "", "gomp": "", "m": "", "nowhere": "it was not found"} {
		file, unseen := r.findLib(Lib{name, []string{"own", "else"}}, []string{tk})
		got := file + unseen
		if got != want {
			t.Errorf("-l%s: %q, want %q", name, got, want)
		}
	}
	if !vendors.IsLibrary("cublas_static") || vendors.IsLibrary("custom") || vendors.IsLibrary("cudamine") {
		t.Error("libraries of the toolkit")
	}
}

// TestBehind follows what shared libraries need: a linker exports what these refer to.
func TestBehind(t *testing.T) {
	tooltest.Need(t, "g++")
	root := t.TempDir()
	run := func(args ...string) {
		cmd := exec.Command("g++", append([]string{"-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "b"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "a.cc"), []byte("int a;"), 0o666); err != nil {
		t.Fatal(err)
	}
	run("a.cc", "-o", "b/libdeep.so", "-lc")
	run("a.cc", "-o", "b/libfar.so", "-Lb", "-ldeep") // beside it
	run("a.cc", "-o", "libby.so", "-Lb", "-lfar", "-Wl,-rpath,$ORIGIN/b")
	run("a.cc", "-o", "libgone.so", "-Wl,-soname,libgone.so.3")
	run("a.cc", "-o", "liblost.so", "-L.", "-lgone")
	run("a.cc", "-o", "b/libcudart.so", "-Wl,-soname,libcudart.so.1")
	run("a.cc", "-o", "libcuda.so", "-Lb", "-lcudart")
	r := Request{Root: root, Env: func(string) string { return "" }}
	for file, want := range map[string]plan.Behind{
		"libby.so":    {Files: []string{"b/libfar.so"}, Missing: "libdeep.so", Unnamed: true},
		"b/libfar.so": {Files: []string{"b/libdeep.so"}, Beside: []string{"b"}, Unnamed: true},
		"libcuda.so":  {Toolkit: true, Unnamed: true},
		"liblost.so":  {Missing: "libgone.so.3", Unnamed: true},
		"libgone.so":  {}, "a.cc": {}, "libnone.so": {},
	} {
		if diff := cmp.Diff(want, behind(t.Context(), r, file, nil)); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}
