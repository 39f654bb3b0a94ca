// Package verify tests whether records are true. It brings a build tree up to date, and runs each
// action again beside it. A rebuild compares the outputs of the two runs. A trace compares the paths
// that the second run used with those that the record names. The build tree keeps the first
// outputs. How an action runs is known to package execute alone.
package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
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

// The outputs of the second run must have the bytes that the record names. A difference means that
// the command is not deterministic, or that it has an input that no key covers.

// Difference describes an action whose second run wrote or read something else.
type Difference struct {
	Action  *graph.Action
	Outputs []string // outputs that differ, as the action names them
	Kept    []string // their files from the second run
	// files that the second run read and the record lacks, or has with other content
	Read []string
}

// NewRebuild returns a Verifier of outputs that runs actions by r, and keeps those that differ in
// folder.
func NewRebuild(r *execute.Runner, folder string) *Verifier {
	r.ExpectReruns()
	return &Verifier{runner: r, kept: folder}
}

// Differences returns how many actions ran again so far, and the differences found.
func (v *Verifier) Differences() (int, []Difference) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.checked, slices.Clone(v.differ)
}

// compareOutputs compares the second record with the first, and keeps the outputs that differ.
func (v *Verifier) compareOutputs(again *execute.Rerun) {
	a := again.Action
	d := Difference{Action: a, Read: newlyRead(again.First, again.Second)}
	for i, o := range again.Second.Outputs {
		// an output that lists durations differs from run to run
		was := again.First.Outputs[i]
		if o.Digest == was.Digest && o.Exec == was.Exec ||
			vendors.HasTimes(a, o.Path) {
			continue
		}
		d.Outputs = append(d.Outputs, o.Path)
		kept := filepath.Join(v.kept, strings.TrimPrefix(o.Path, v.runner.Graph.BuildDir+"/"))
		if os.MkdirAll(filepath.Dir(kept), 0o777) == nil && again.CopyOutput(i, kept) == nil {
			d.Kept = append(d.Kept, kept)
		}
	}
	if len(d.Outputs)+len(d.Read) > 0 {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.differ = append(v.differ, d)
	}
}

// newlyRead returns the files that the second run read, and the first did not read with this
// content.
func newlyRead(first, second *cache.Record) []string {
	known := map[string]cache.Digest{}
	for _, f := range first.Discovered {
		known[f.Path] = f.Digest
	}
	var out []string
	for _, f := range second.Discovered {
		if d, ok := known[f.Path]; !ok || d != f.Digest {
			out = append(out, f.Path)
		}
	}
	return out
}
