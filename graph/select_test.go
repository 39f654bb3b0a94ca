package graph

import (
	"slices"
	"testing"
)

// A HIP source in the modes rdc and lto is its object. What links the bitcode that its compile made
// is the program.
func TestSelectHIPSource(t *testing.T) {
	g := &Graph{BuildDir: "build"}
	add := func(kind Kind, part bool, output string, inputs ...string) {
		g.Add(&Action{Kind: kind, Intermediate: part, Inputs: inputs, Outputs: []string{output}})
	}
	for _, s := range []string{"a.hip", "b.hip"} {
		add(Preprocess, true, s+".ii", s)
		add(DeviceCode, true, s+".bc", s, s+".ii")
		add(HostPart, true, s+".host.o", s)
		add(Bundle, false, s+".o", s+".bc", s+".host.o")
	}
	add(LLD, true, "gfx906.co", "a.hip.bc", "b.hip.bc")
	add(Bundle, true, "fatbin", "gfx906.co")
	add(HostPart, false, "dlink.o", "fatbin")
	add(HostLink, false, "app", "a.hip.o", "b.hip.o", "dlink.o")
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	want, unknown := g.Select([]string{"a.hip"})
	if len(unknown) > 0 || !slices.Equal(want, []ActionID{3}) {
		t.Errorf("a.hip stands for %v %v, want its object alone", want, unknown)
	}
}
