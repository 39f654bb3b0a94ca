package term

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cmd/internal/golden"
	"github.com/kbuild-dev/kbuild/graph"
)

// Passes of one command that say the same are one failure, which is shown once; the list at the end
// has them all.
func TestFailedPasses(t *testing.T) {
	var out strings.Builder
	p := New(Options{Err: &out, Mode: None})
	command := graph.Driver{Argv: []string{"nvcc", "-gencode", "arch=compute_90,code=sm_90", "-gencode", "arch=compute_100,code=sm_100", "-gencode", "arch=compute_100,code=compute_100", "-c", "a.cu"}}
	pass := func(kind graph.Kind, archs ...string) *graph.Action {
		own := command // in a part of a stored plan no two passes share a Driver
		return &graph.Action{Kind: kind, Name: "a.cu", Archs: archs, Target: "library.one", Intermediate: true, Work: graph.Work{Driver: &own}}
	}
	fails := func(a *graph.Action, printed, why string) {
		p.Finished(a, sched.Result{Status: sched.Failed, Err: errors.New("exit status 1"), Output: []byte(printed), Reason: why}, 1, 9)
	}
	p.Finished(pass(graph.Preprocess, "compute_90"), sched.Result{Status: sched.Ran, Reason: "a.cu changed"}, 1, 9)
	fails(pass(graph.CICC, "compute_100"), "a.cu(2): error: one\n", "input canon.ii changed")
	fails(pass(graph.CICC, "compute_90"), "a.cu(2): error: one\n", "input canon.ii changed")
	fails(pass(graph.Cudafe), "a.cu(3): error: of the host\n", "input canon.ii changed")
	fails(&graph.Action{Kind: graph.HostCompile, Name: "b.cpp", Target: "library.one", Argv: []string{"g++", "b.cpp"}}, "b.cpp:1: error: two\n", "b.cpp changed")
	p.Finish(sched.Summary{Actions: 9, Ran: 1, Failed: 4, Skipped: 4}, time.Second)
	golden.Check(t, "passes.golden", []byte(out.String()))
}
