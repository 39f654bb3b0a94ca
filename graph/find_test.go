package graph

import (
	"fmt"
	"testing"
)

// A name is looked up in a map: 16,000 targets that go through all targets, each of them several
// times, took minutes.
func TestFindTargetWalksNoTargets(t *testing.T) {
	g := &Graph{}
	for i := range 10 {
		g.Targets = append(g.Targets, &Target{Label: fmt.Sprintf("library.l%d", i), Name: fmt.Sprintf("l%d", i), Kind: "library"})
	}
	for i := range 3 {
		name := fmt.Sprintf("m:tile=%d", i)
		g.Targets = append(g.Targets, &Target{Label: "module." + name, Name: name, Kind: "module"})
	}
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	clear(g.Targets) // whoever walks them now finds nothing
	for name, want := range map[string]int{"library.l7": 1, "l7": 1, "m": 3, "module.m": 3, "m:tile=2": 1, "module.m:tile=2": 1, "x": 0} {
		if got := g.FindTarget(name); len(got) != want {
			t.Errorf("%s: %d targets, want %d", name, len(got), want)
		}
	}
}

// Groups of groups: the ways from the first to the last double at each level.
func TestNestedGroups(t *testing.T) {
	g := &Graph{}
	g.Add(&Action{Outputs: []string{"x"}})
	g.Targets = append(g.Targets, &Target{Label: "library.x", Name: "x", Kind: "library", Outputs: []string{"x"}, Unbuilt: "no compiler"})
	below := []string{"library.x"}
	for i := range 64 {
		var these []string
		for _, side := range "ab" {
			name := fmt.Sprintf("%c%d", side, i)
			g.Targets = append(g.Targets, &Target{Label: "group." + name, Name: name, Kind: "group", Deps: below})
			these = append(these, "group."+name)
		}
		below = these
	}
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	if want, unknown := g.Select([]string{"a63"}); len(want) != 1 || unknown != nil {
		t.Errorf("%d actions, unknown %q", len(want), unknown)
	}
	if got := g.Unbuilt([]string{"a63", "x"}); len(got) != 1 {
		t.Errorf("%d targets cannot be built, want 1", len(got))
	}
}
