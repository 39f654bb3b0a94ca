// Package verify tests whether records are true. It brings a build tree up to date, and runs each
// action again beside it. A rebuild compares the outputs of the two runs. A trace compares the paths
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

// Verifier implements sched.Runner: it runs each action twice.
type Verifier struct {
	runner   *execute.Runner
	upToDate sync.Map // bool by graph.ActionID: the first run is that of an earlier build

	// A comparison of outputs keeps those that differ in the folder kept. One of paths needs the
	// files whose content is part of a fingerprint, by tool, and the paths that make kbuild query
	// the tools again if they appear or, for folders, change.
	kept    string
	tools   map[string][]string
	queried []string

	mu      sync.Mutex
	checked int // how many actions were compared
	differ  []Difference
	found   []Unrecorded
}

// Check implements sched.Runner: every action runs.
func (v *Verifier) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	res, upToDate := v.runner.Check(ctx, a)
	if upToDate && res.Status == sched.Failed {
		return res, true
	}
	v.upToDate.Store(a.ID, upToDate)
	return sched.Result{Reason: "to compare"}, false
}

// Execute implements sched.Runner.
func (v *Verifier) Execute(
	ctx context.Context, a *graph.Action, local <-chan struct{},
) sched.Result {
	if upToDate, _ := v.upToDate.Load(a.ID); upToDate == false {
		if res := v.runner.Execute(ctx, a, local); res.Status == sched.Failed {
			return res
		}
	}
	traced := v.kept == ""
	again, res := v.runner.Rerun(ctx, a, traced)
	if again == nil {
		return res
	}
	var err error
	if traced {
		err = v.comparePaths(again)
	} else {
		v.compareOutputs(again)
	}
	if err := errors.Join(err, again.Close()); err != nil {
		return sched.Result{Status: sched.Failed, Err: err}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked++
	return res
}
