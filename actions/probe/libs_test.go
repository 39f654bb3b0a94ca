package probe

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/plan"
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
	k := &plan.Toolkit{LibDirs: []string{tk}}
	for name, want := range map[string]string{"both": "own/libboth.so", ":libexact.a": "own/libexact.a", "else": "else/libelse.a",
		"env": filepath.Join(root, "env/libenv.so"), "script": "own/libscript.so", "tk": "", "gomp": "", "m": "", "nowhere": "it was not found"} {
		file, unseen := r.findLib(Lib{name, []string{"own", "else"}}, k)
		got := file + unseen
		if got != want {
			t.Errorf("-l%s: %q, want %q", name, got, want)
		}
	}
	if !ofToolkit().MatchString("cublas_static") || ofToolkit().MatchString("custom") || ofToolkit().MatchString("cudamine") {
		t.Error("libraries of the toolkit")
	}
}
