package clang

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// made are the actions of a split: kind, inputs, how their headers are known, whether there is a
// text for another machine.
func made(lines bool, plan func(*Split)) (out []string) {
	u := toolchain.Unit{Dir: "parts", ID: "cafe", Lines: lines,
		Whole: &graph.Action{Kind: graph.Compile, Argv: []string{"clang++"}, Inputs: []string{"a.hip"}, Outputs: []string{"a.o"}, Depfile: "a.o.d",
			Work: graph.Work{Driver: &graph.Driver{}}},
		Plan: &toolchain.Plan{}}
	plan(NewSplit(u, "hip", Passes{Clang: "clang++", Libs: map[string][]string{"gfx906": {"ockl.bc"}}}))
	for _, a := range u.Plan.Actions {
		out = append(out, fmt.Sprintf("%s %s: %s; %s and %d more; text %v", a.Kind, a.Outputs[0], strings.Join(a.Inputs, " "),
			a.Depfile, len(a.Pass().DepfileArgvs), a.Pass().TextArgv != nil))
	}
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
		want  string
	}{
		{"device", false, func(s *Split) { s.Device(code, "parts/gfx906.co") },
			"device-code parts/gfx906.co: a.hip ockl.bc; parts/gfx906.co.d and 0 more; text true"},
		{"with lines", true, func(s *Split) { s.Device(code, "parts/gfx906.co") },
			"device-code parts/gfx906.co: a.hip ockl.bc; parts/gfx906.co.d and 0 more; text false"},
		{"host", false, func(s *Split) { s.Host(graph.Placeholder) },
			"host-part parts/host.o: a.hip; parts/host.o.d and 0 more; text false"},
		{"in one piece", false, func(s *Split) {
			InOnePiece(s.Unit, Whole{Target: &toolchain.Target{}, Why: errors.New("it is not known"), Libs: []string{"ocml.bc"}, Codes: []gencode.Code{code}})
		},
			"compile a.o: a.hip ocml.bc; a.o.d and 1 more; text false"},
	} {
		if got := made(tt.lines, tt.plan); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
