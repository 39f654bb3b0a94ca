package execute

import (
	"context"
	"slices"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// DryRun says what a Runner would do. An action that needs the output of one that would run may turn
// out to be up to date in a real build, when that output comes out equal; a dry run counts it as run.
type DryRun struct {
	r  *Runner
	mu sync.Mutex
	// unknown holds the outputs that a real build would make anew.
	unknown map[string]bool
}

// NewDryRun wraps r.
func NewDryRun(r *Runner) *DryRun { return &DryRun{r: r, unknown: map[string]bool{}} }

// Check implements sched.Runner: as Runner.Check, restoring nothing.
func (d *DryRun) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	if d.stale(a) {
		return sched.Result{Reason: "something it needs would be built"}, false
	}
	key, err := d.r.keys.of(a)
	if err != nil {
		return failed(err), true
	}
	status := sched.UpToDate
	rec := d.r.Journal.ByCommand(key.key)
	if rec == nil || !d.r.upToDate(a, rec) {
		rec, status = d.r.stored(ctx, a, key.key), sched.Cached
	}
	if rec == nil {
		return sched.Result{Reason: d.r.reason(a, key)}, false
	}
	if status == sched.Cached || a.Intermediate {
		d.r.intermediates.setOutputs(outputsOf(a, rec)) // for the files that are not there
	}
	d.r.provenance.settled(a, rec)
	return sched.Result{Status: status}, true
}

// Execute implements sched.Runner: it runs nothing.
func (d *DryRun) Execute(ctx context.Context, a *graph.Action) sched.Result {
	d.mark(a)
	res := sched.Result{Status: sched.Ran, Argv: a.Argv, Reason: "something it needs would be built"}
	if !d.stale(a) {
		if key, err := d.r.keys.of(a); err == nil {
			res.Reason = d.r.reason(a, key)
		}
	}
	return res
}

func (d *DryRun) stale(a *graph.Action) bool { return len(d.unmade(a)) > 0 }

// unmade are the inputs of a that would be made anew.
func (d *DryRun) unmade(a *graph.Action) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Concat(a.Reads(), a.OrderOnly), func(in string) bool { return !d.unknown[in] })
}

func (d *DryRun) mark(a *graph.Action) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range a.Outputs {
		d.unknown[o] = true
	}
}
