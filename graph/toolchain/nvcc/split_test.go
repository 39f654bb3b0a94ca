package nvcc

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
)

// split is a compile of a recorded answer.
func split(t *testing.T, recorded string) (*Split, *CompilePasses) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + recorded + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	c, err := LearnCompile(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return NewSplit(toolchain.Unit{Dir: "parts", ID: "id", Plan: &toolchain.Plan{},
		Whole: &graph.Action{Mode: "whole", Inputs: []string{"a.cu"}, Outputs: []string{"a.o"}, Tools: []string{"nvcc"}}}, &cuda.Toolkit{HostCXX: toolchain.Tool{Path: "g++"}}, c.Env), c
}

// Every pass stands behind what it reads, and the last one makes the object.
func TestSplitCompile(t *testing.T) {
	g := &graph.Graph{}
	var kinds []string
	s, c := split(t, "11.8-c-one")
	s.Compile(c)
	for _, a := range s.Plan.Actions {
		kinds = append(kinds, string(g.Add(a).Kind))
	}
	want := "preprocess cicc ptxas fatbinary preprocess cudafe++ host-part join"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := g.Seal(); err != nil {
		t.Error(err)
	}
	last := g.Actions[len(g.Actions)-1]
	if diff := cmp.Diff([]string{"a.o"}, last.Outputs); diff != "" || !g.Needs(last.ID, 0) {
		t.Errorf("the object is made of nothing, or is another (-want +got):\n%s", diff)
	}
}

// Formats of one source share their passes: of a cubin after PTX for the same architecture only
// what is new is planned.
func TestSplitFormats(t *testing.T) {
	shared, kinds := NewSharing("parts"), map[string]string{}
	for _, recorded := range []string{"11.8-ptx", "11.8-cubin", "11.8-cubin"} {
		var made []string
		s, c := split(t, recorded)
		s.Shared, s.Out = shared, recorded
		s.Dir = "parts/" + recorded
		s.Format(c)
		for _, a := range s.Plan.Actions {
			made = append(made, string(a.Kind))
		}
		kinds[recorded] = strings.Join(made, " ")
	}
	if kinds["11.8-ptx"] != "preprocess cicc copy" || kinds["11.8-cubin"] != "copy" {
		t.Errorf("%q", kinds)
	}
}

// Host code stands for a device link, or registers its own code, by what fatbinary is told: -ewp
// has whole programs linked.
func TestPlaceholder(t *testing.T) {
	for _, m := range modes(t) {
		if want := map[string]string{"c": "whole", "dc": "rdc", "dc-lto": "rdc", "ewp": "rdc"}[m.name]; want != "" {
			c, err := LearnCompile(m.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Placeholder(); got != want {
				t.Errorf("%s of %s: %s, want %s", m.name, m.toolkit, got, want)
			}
		}
	}
}

// The host code of a source with tile code waits for both fatbins and makes the object: there is
// nothing to join.
func TestSplitTile(t *testing.T) {
	for _, m := range modes(t) {
		want, ok := map[string]string{"tile": FatbinName + " " + TileName, "tile-only": TileName, "tile-lto": FatbinName + " " + TileName}[m.name]
		if !ok {
			continue
		}
		c, err := LearnCompile(m.text)
		if err != nil {
			t.Fatal(err)
		}
		u := toolchain.Unit{Dir: "parts", Plan: &toolchain.Plan{},
			Whole: &graph.Action{Inputs: []string{"a.cu"}, Outputs: []string{"a.o"}, Tools: []string{"nvcc"}}}
		NewSplit(u, &cuda.Toolkit{HostCXX: toolchain.Tool{Path: "g++"}}, c.Env).Compile(c)
		last := u.Plan.Actions[len(u.Plan.Actions)-1]
		var staged []string
		for _, f := range last.Pass().Staged[2:] {
			if staged = append(staged, f.Name); f.From == "" || !slices.Contains(last.Inputs, f.From) {
				t.Errorf("%s: %+v is no input", m.name, f)
			}
		}
		if last.Kind != graph.HostPart || last.Outputs[0] != "a.o" || strings.Join(staged, " ") != want {
			t.Errorf("%s: %s makes %s with %s", m.name, last.Kind, last.Outputs, staged)
		}
	}
}
