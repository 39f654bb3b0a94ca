package manifest

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kbuild-dev/kbuild/cache"
)

// The lock file is among what the project was made of: another one makes another plan.
func TestPinnedToolkit(t *testing.T) {
	const text = "toolchain \"cuda\" {\n  version = \"13.4.1.0\"\n  from = \"pypi\"\n  parts = [\"cublas\"]\n}\n"
	fsys := files(text)
	want := Toolchain{Version: "13.4.1.0", Pinned: true, LockFile: "kernels.lock", Parts: []string{"cublas"}}
	p := load(t, text, Options{FS: fsys})
	if diff := cmp.Diff(want, p.Toolchains["cuda"], cmpopts.IgnoreFields(Toolchain{}, "Pos", "AttrPos")); diff != "" {
		t.Error(diff)
	}
	if !slices.ContainsFunc(p.Observed, func(o cache.Observation) bool { return o.Path == "kernels.lock" && o.Kind == cache.KindAbsent }) || p.Text("kernels.lock") != nil {
		t.Errorf("nobody would notice a lock file that comes: %v", p.Observed)
	}
	fsys["kernels.lock"] = &fstest.MapFile{Data: []byte("locked")}
	if p = load(t, text, Options{FS: fsys}); !slices.Contains(p.Files, "kernels.lock") || string(p.Text("kernels.lock")) != "locked" {
		t.Errorf("the lock file is not among %v", p.Files)
	}
}
