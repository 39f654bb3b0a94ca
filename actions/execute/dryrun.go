package execute

import (
	"context"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
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

// restored makes the digests of outputs that would be restored stand for the files that are not there.
func (d *DryRun) restored(a *graph.Action, rec *cache.Record) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	if d.r.assumed == nil {
		d.r.assumed = map[string]cache.Digest{}
	}
	for _, o := range outputsOf(a, rec) {
		d.r.assumed[o.Path] = o.Digest
	}
}

// NewDryRun wraps r.
func NewDryRun(r *Runner) *DryRun { return &DryRun{r: r, unknown: map[string]bool{}} }

// Check implements sched.Runner: as Runner.Check, restoring nothing.
func (d *DryRun) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	if d.stale(a) {
		return sched.Result{Reason: "something it needs would be built"}, false
	}
	p, err := d.r.key(a)
	if err != nil {
		return failed(err), true
	}
	if rec := d.r.Journal.ByCommand(p.key); rec != nil && d.r.discovery.Holds(a, rec) && d.r.inPlace(a, rec) {
		if a.Intermediate {
			d.restored(a, rec)
		}
		d.r.note(a, rec)
		return sched.Result{Status: sched.UpToDate}, true
	}
	if rec := d.r.stored(ctx, a, p.key); rec != nil {
		d.restored(a, rec)
		d.r.note(a, rec)
		return sched.Result{Status: sched.Cached}, true
	}
	return sched.Result{Reason: d.r.reason(a, p)}, false
}

// Execute implements sched.Runner: it runs nothing.
func (d *DryRun) Execute(ctx context.Context, a *graph.Action) sched.Result {
	d.mark(a)
	res := sched.Result{Status: sched.Ran, Argv: a.Argv, Reason: "something it needs would be built"}
	if !d.stale(a) {
		if p, err := d.r.key(a); err == nil {
			res.Reason = d.r.reason(a, p)
		}
	}
	return res
}

func (d *DryRun) stale(a *graph.Action) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, list := range [3][]string{a.Inputs, a.OrderOnly, a.Step().DiagnosticInputs} {
		for _, in := range list {
			if d.unknown[in] {
				return true
			}
		}
	}
	return false
}

func (d *DryRun) mark(a *graph.Action) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range a.Outputs {
		d.unknown[o] = true
	}
}

// because names the inputs of a that would be made anew.
func (d *DryRun) because(a *graph.Action) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, list := range [3][]string{a.Inputs, a.OrderOnly, a.Step().DiagnosticInputs} {
		for _, in := range list {
			if d.unknown[in] {
				out = append(out, in+" would be built first")
			}
		}
	}
	return out
}
