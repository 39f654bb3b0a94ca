// Package verify tests whether records are true. It brings a build tree up to date, and runs each
// action again beside it. Rebuild compares the outputs of the two runs. Trace compares the paths
// that the second run used with those that the record names. The build tree keeps the first
// outputs. How an action runs is known to package execute alone.
package verify

import (
	"context"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// twice runs actions twice. It is the part of a sched.Runner that Rebuild and Trace share.
type twice struct {
	runner *execute.Runner

	mu       sync.Mutex
	upToDate map[graph.ActionID]bool
}

func newTwice(r *execute.Runner) twice {
	r.ExpectReruns()
	return twice{runner: r, upToDate: map[graph.ActionID]bool{}}
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

// first brings a up to date.
func (v *twice) first(ctx context.Context, a *graph.Action) sched.Result {
	v.mu.Lock()
	upToDate := v.upToDate[a.ID]
	v.mu.Unlock()
	if upToDate {
		return sched.Result{Status: sched.UpToDate}
	}
	return v.runner.Execute(ctx, a)
}
