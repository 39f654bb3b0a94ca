package toolchain

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph"
)

func unit(lines bool) (*Unit, *Plan) {
	made := &Plan{}
	return &Unit{Dir: "build/parts/a.cu.o", Lines: lines, Env: []string{Anywhere}, Plan: made,
		Whole: &graph.Action{Name: "a.cu", Argv: []string{"nvcc", "-c", "a.cu"}, Inputs: []string{"a.cu"}, Outputs: []string{"build/a.cu.o"}, Tools: []string{"nvcc"},
			OrderOnly: []string{"gen.h"}, Work: graph.Work{Driver: &graph.Driver{DryRunKey: "key", UnsplitReason: "none"}}}}, made
}

// A pass knows its driver's command. What it writes into the folder of passes is for them alone.
func TestUnitAction(t *testing.T) {
	u, made := unit(false)
	inside, outside := u.Action(graph.PTXAS, nil, u.Dir+"/sm_80.cubin"), u.Action(graph.PTXAS, nil, "build/a.cu.o")
	if !inside.Intermediate || outside.Intermediate {
		t.Errorf("intermediate: %v, %v", inside.Intermediate, outside.Intermediate)
	}
	want := graph.Driver{Argv: u.Whole.Argv, DryRunKey: "key"}
	if diff := cmp.Diff(want, inside.Driver()); diff != "" || !slices.Equal(inside.Env, u.Env) {
		t.Errorf("driver (-want +got):\n%s", diff)
	}
	u.Join(graph.NVCCFatbin, "host.o", "code")
	u.Copy("sm_80.cubin", "build/modules/a.cubin")
	if got := made.Actions; len(got) != 2 || got[0].Kind != graph.Join || got[0].Outputs[0] != "build/a.cu.o" || got[1].Name != "a.cubin" {
		t.Errorf("%+v", got)
	}
}

// The key of what reads a text has its canonical form, unless outputs record lines.
func TestUnitTexts(t *testing.T) {
	for _, lines := range []bool{false, true} {
		u, _ := unit(lines)
		a := u.Preprocess("compute_80", nil, u.Dir+"/80.ii")
		reader := u.Action(graph.CICC, nil, u.Dir+"/80.ptx")
		u.ReadTexts(reader, u.Dir+"/80.ii")
		raw, canon := u.Dir+"/80.ii", u.Dir+"/80.canon.ii"
		outputs, inputs, forms := []string{raw, canon}, []string{canon}, 1
		if lines {
			outputs, inputs, forms = []string{raw}, []string{raw}, 0
		}
		if !slices.Equal(a.Outputs, outputs) || !slices.Equal(reader.Inputs, inputs) || len(a.Pass().CanonicalForms) != forms || a.Depfile != raw+".d" {
			t.Errorf("lines %v: outputs %q, inputs %q", lines, a.Outputs, reader.Inputs)
		}
		if got := reader.Reads(); !slices.Contains(got, raw) {
			t.Errorf("lines %v: it reads %q", lines, got)
		}
	}
}
