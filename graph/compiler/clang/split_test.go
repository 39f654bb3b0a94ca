package clang

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// made are the actions of a split: kind, what is in the key, what is named besides.
func made(lines bool, plan func(*Split)) (out []string) {
	u := compiler.Unit{Dir: "parts", ID: "cafe", Lines: lines,
		Whole: &graph.Action{Kind: graph.Compile, Inputs: []string{"a.hip"}, Outputs: []string{"a.o"}},
		Emit: func(a *graph.Action) {
			out = append(out, fmt.Sprintf("%s %s: %s, key %s", a.Kind, a.Outputs[0], strings.Join(a.Inputs, " "), strings.Join(a.Step().KeyedByText, " ")))
		}}
	plan(NewSplit(u, "hip", Passes{Clang: "clang++", Libs: map[string][]string{"gfx906": {"ockl.bc"}}}))
	return out
}

func TestSplit(t *testing.T) {
	code, err := gencode.Parse("gfx906")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		lines bool
		plan  func(*Split)
		want  []string
	}{
		{"device", false, func(s *Split) { s.Device(code, "parts/gfx906.co") }, []string{
			"preprocess parts/gfx906.ii: a.hip, key ", "device-code parts/gfx906.co: parts/gfx906.canon.ii ockl.bc, key parts/gfx906.ii"}},
		{"with lines", true, func(s *Split) { s.Device(code, "parts/gfx906.co") }, []string{
			"preprocess parts/gfx906.ii: a.hip, key ", "device-code parts/gfx906.co: parts/gfx906.ii ockl.bc, key parts/gfx906.ii"}},
		{"host", false, func(s *Split) { s.Host(Placeholder) }, []string{
			"preprocess parts/host.ii: a.hip, key ", "host-part parts/host.o: parts/host.canon.ii, key parts/host.ii"}},
		{"in one piece", false, func(s *Split) { s.InOnePiece([]string{"ocml.bc"}, []gencode.Code{code}) }, []string{
			"preprocess parts/gfx906.ii: a.hip, key ", "compile a.o: a.hip ocml.bc parts/gfx906.ii, key parts/gfx906.ii"}},
	} {
		if diff := cmp.Diff(tt.want, made(tt.lines, tt.plan)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
