package engine

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// What a target has made that cannot be built here, or is not built now, waits, and so does what is
// not known to be of another one.
func TestLeftoversThatWait(t *testing.T) {
	s := &Project{Project: &manifest.Project{}, Graph: &graph.Graph{BuildDir: "build"}}
	lib := s.Graph.Add(&graph.Action{Kind: graph.Archive, Target: "library.k", Outputs: []string{"build/lib/libk.a"}})
	app := s.Graph.Add(&graph.Action{Kind: graph.HostLink, Target: "executable.app", Outputs: []string{"build/bin/app"}, Inputs: lib.Outputs})
	s.Graph.Targets = []*graph.Target{
		{Label: "library.k", Kind: "library", Outputs: lib.Outputs, Actions: []graph.ActionID{lib.ID}},
		{Label: "executable.app", Kind: "executable", Outputs: app.Outputs, Actions: []graph.ActionID{app.ID}},
		{Label: "module.hip", Kind: "module", Unbuilt: "there is no HIP compiler"},
	}
	if err := s.Graph.Seal(); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"build/lib/libk.a": "library.k", "build/obj/k.o": "library.k", "build/obj/app.o": "executable.app", "build/bin/gone": "executable.gone",
		"build/modules/hip.json": "module.hip", "build/lib/unknown.a": ""}
	planned := map[string]string{"build/lib/libk.a": "library.k", "build/bin/app": "executable.app"}
	check := func(want graph.ActionID, now, later []string) {
		t.Helper()
		gotNow, gotLater := s.leftovers(known, planned, []graph.ActionID{want})
		if !slices.Equal(gotNow, now) || !slices.Equal(slices.Sorted(maps.Keys(gotLater)), later) {
			t.Errorf("%q go and %q wait; want %q and %q", gotNow, gotLater, now, later)
		}
	}
	check(lib.ID, []string{"build/bin/gone", "build/obj/k.o"}, []string{"build/lib/unknown.a", "build/modules/hip.json", "build/obj/app.o"})
	check(app.ID, []string{"build/bin/gone", "build/obj/app.o", "build/obj/k.o"}, []string{"build/lib/unknown.a", "build/modules/hip.json"})
	s.Graph.Targets = s.Graph.Targets[:2]
	check(app.ID, []string{"build/bin/gone", "build/lib/unknown.a", "build/modules/hip.json", "build/obj/app.o", "build/obj/k.o"}, nil)
	s.Pending = []string{"generate.tables"} // who reads its files may be a target of the next plan
	check(app.ID, []string{"build/obj/app.o", "build/obj/k.o"}, []string{"build/bin/gone", "build/lib/unknown.a", "build/modules/hip.json"})
}

func TestDamagedOutputList(t *testing.T) {
	name := filepath.Join(t.TempDir(), "outputs-0123456789ab")
	l := outputList{"../../kernels.hcl", map[string]string{"build/bin/app": "executable.app"}}
	text := l.encode()
	write(t, name, string(text))
	if got, ok := readOutputList(name); !ok || got.Manifest != l.Manifest || !maps.Equal(got.Outputs, l.Outputs) {
		t.Errorf("%+v %v", got, ok)
	}
	for i := range text {
		for _, b := range [][]byte{text[:i], slices.Concat(text[:i], []byte{text[i] ^ 1}, text[i+1:])} {
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
			if got, ok := readOutputList(name); ok {
				t.Fatalf("%q is taken for %+v", b, got)
			}
		}
	}
}
