// Package verify tests whether records are true. It brings a build tree up to date, and runs each
// action again beside it. Rebuild compares the outputs of the two runs. Trace compares the paths
// that the second run used with those that the record names. The build tree keeps the first
// outputs. How an action runs is known to package execute alone.
package verify

import (
	"context"
	"errors"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// twice runs actions twice. It is the part of a sched.Runner that Rebuild and Trace share.
type twice struct {
	runner *execute.Runner
	by     comparison
	traced bool // the second run is under strace

	mu       sync.Mutex
	upToDate map[graph.ActionID]bool
	checked  int // how many actions were compared
}

// comparison compares the second run of an action with the first.
type comparison interface {
	compare(again *execute.Rerun) error
}

func newTwice(r *execute.Runner, by comparison, traced bool) twice {
	r.ExpectReruns()
	return twice{runner: r, by: by, traced: traced, upToDate: map[graph.ActionID]bool{}}
}

// Check implements sched.Runner: every action runs.
func (v *twice) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	res, upToDate := v.runner.Check(ctx, a)
	if upToDate && res.Status == sched.Failed {
		return res, true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.upToDate[a.ID] = upToDate
	return sched.Result{Reason: "to compare"}, false
}

// Execute implements sched.Runner.
func (v *twice) Execute(
	ctx context.Context, a *graph.Action, local <-chan struct{},
) sched.Result {
	v.mu.Lock()
	upToDate := v.upToDate[a.ID]
	v.mu.Unlock()
	if !upToDate {
		if res := v.runner.Execute(ctx, a, local); res.Status == sched.Failed {
			return res
		}
	}
	again, res := v.runner.Rerun(ctx, a, v.traced)
	if again == nil {
		return res
	}
	if err := errors.Join(v.by.compare(again), again.Close()); err != nil {
		return sched.Result{Status: sched.Failed, Err: err}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked++
	return res
}
