package execute

import (
	"context"
	"slices"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// DryRun predicts what a Runner would do. In a real build, an action that runs may write the same
// output again. The actions that need the output are then up to date, but a dry run counts them as
// run.
type DryRun struct {
	r       *Runner
	mu      sync.Mutex
	unknown map[string]bool // outputs that a real build would rebuild
}

// NewDryRun returns a dry run of r.
func NewDryRun(r *Runner) *DryRun { return &DryRun{r: r, unknown: map[string]bool{}} }

// verdict is the prediction for an action.
type verdict struct {
	key    actionKey
	unmade []string      // inputs that would be rebuilt; if there are any, nothing more is known
	record *cache.Record // valid record; nil if the action would run
	status sched.Status
	err    error
}

// judge predicts what a run would do with an action.
func (d *DryRun) judge(ctx context.Context, a *graph.Action) (v verdict) {
	if v.unmade = d.stale(a); len(v.unmade) > 0 {
		return v
	}
	if v.key, v.err = d.r.keys.of(a); v.err != nil {
		return v
	}
	if v.record, v.status = d.r.lookUp(ctx, a, v.key.key); v.record != nil {
		if v.status == sched.Cached || a.Intermediate {
			d.r.tree.setPasses(renamed(a, v.record).Outputs) // the files need not exist
		}
		d.r.provenance.use(a, v.record)
	}
	return v
}

// reason returns why an action would run.
func (d *DryRun) reason(a *graph.Action, v verdict) string {
	if len(v.unmade) > 0 {
		return "something it needs would be built"
	}
	return d.r.reason(a, v.key)
}

// Check implements sched.Runner. It does what Runner.Check does, but restores nothing.
func (d *DryRun) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	switch v := d.judge(ctx, a); {
	case v.err != nil:
		return failed(v.err), true
	case v.record != nil:
		return sched.Result{Status: v.status}, true
	default:
		return sched.Result{Reason: d.reason(a, v)}, false
	}
}

// Execute implements sched.Runner. It runs nothing.
func (d *DryRun) Execute(ctx context.Context, a *graph.Action) sched.Result {
	v := d.judge(ctx, a)
	d.mark(a)
	return sched.Result{Status: sched.Ran, Argv: a.Argv, Reason: d.reason(a, v)}
}

// stale returns the inputs of a that would be rebuilt.
func (d *DryRun) stale(a *graph.Action) []string {
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

// Held is what the shared cache has of an action.
type Held struct {
	Action *graph.Action
	// valid record; nil if there is none: the action was not built, or is not to be shared
	Record *cache.Record
}

// Held looks up actions in the order of ids, in which dependencies come first. It stores again what
// is up to date in the build tree and no longer in the cache.
func (r *Runner) Held(ctx context.Context, ids []graph.ActionID) []Held {
	d := NewDryRun(r)
	out := make([]Held, len(ids))
	for i, id := range ids {
		a := r.Graph.Actions[id]
		rec, known := d.entry(ctx, a)
		if out[i] = (Held{a, rec}); !known {
			d.mark(a)
		}
	}
	return out
}

// entry returns the cache's valid record of a, or nil. known reports whether the outputs of a are
// known. If a is valid only in tokens (discover.HoldsInTokens), the cache has no record of today's
// headers. The actions that need a still need not wait for it.
func (d *DryRun) entry(ctx context.Context, a *graph.Action) (rec *cache.Record, known bool) {
	v := d.judge(ctx, a)
	if v.record == nil {
		return nil, false
	}
	if rec := d.r.stored(ctx, a, v.key.key); rec != nil {
		return rec, true
	}
	if !a.Intermediate {
		d.r.share(ctx, a, v.record)
	}
	return d.r.stored(ctx, a, v.key.key), true
}
