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
	unknown sync.Map // outputs that a real build would rebuild
}

// NewDryRun returns a dry run of r.
func NewDryRun(r *Runner) *DryRun { return &DryRun{r: r} }

// prediction describes what a run would do with an action.
type prediction struct {
	key    actionKey
	unmade []string      // inputs that would be rebuilt; if there are any, nothing more is known
	record *cache.Record // valid record; nil if the action would run
	status sched.Status
	err    error
}

func (d *DryRun) predict(ctx context.Context, a *graph.Action) (p prediction) {
	if p.unmade = d.stale(a); len(p.unmade) > 0 {
		return p
	}
	if p.key, p.err = d.r.keys.of(a); p.err != nil {
		return p
	}
	if p.record, p.status = d.r.lookUp(ctx, a, p.key.key); p.record != nil {
		if p.status == sched.Cached || a.Intermediate {
			d.r.setPasses(renamed(a, p.record).Outputs) // the files need not exist
		}
		d.r.provenance.use(a, p.record)
	}
	return p
}

// reason returns why an action would run.
func (d *DryRun) reason(a *graph.Action, p prediction) string {
	if len(p.unmade) > 0 {
		return "something it needs would be built"
	}
	return d.r.keys.reason(a, p.key)
}

// Check implements sched.Runner. It does what Runner.Check does, but restores nothing.
func (d *DryRun) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	switch p := d.predict(ctx, a); {
	case p.err != nil:
		return failed(p.err), true
	case p.record != nil:
		return sched.Result{Status: p.status}, true
	default:
		return sched.Result{Reason: d.reason(a, p)}, false
	}
}

// Execute implements sched.Runner. It runs nothing.
func (d *DryRun) Execute(
	ctx context.Context, a *graph.Action, _ <-chan struct{},
) sched.Result {
	p := d.predict(ctx, a)
	d.mark(a)
	return sched.Result{Status: sched.Ran, Argv: a.Argv, Reason: d.reason(a, p)}
}

// stale returns the inputs of a that would be rebuilt.
func (d *DryRun) stale(a *graph.Action) []string {
	return slices.DeleteFunc(slices.Concat(a.Reads(), a.OrderOnly), func(in string) bool {
		_, unknown := d.unknown.Load(in)
		return !unknown
	})
}

func (d *DryRun) mark(a *graph.Action) {
	for _, o := range a.Outputs {
		d.unknown.Store(o, true)
	}
}

// Entry describes the record of an action in the shared cache.
type Entry struct {
	Action *graph.Action
	// valid record; nil if there is none: the action was not built, or is not to be shared
	Record *cache.Record
}

// Entries looks up actions in the order of ids, in which dependencies come first. It stores again
// what is up to date in the build tree and no longer in the cache.
func (d *DryRun) Entries(ctx context.Context, ids []graph.ActionID) []Entry {
	out := make([]Entry, len(ids))
	for i, id := range ids {
		a := d.r.Graph.Actions[id]
		out[i].Action = a
		p := d.predict(ctx, a)
		if p.record == nil {
			d.mark(a)
			continue
		}
		out[i].Record = d.r.stored(ctx, a, p.key.key)
		if out[i].Record == nil {
			if !a.Intermediate {
				d.r.share(ctx, a, p.record)
			}
			out[i].Record = d.r.stored(ctx, a, p.key.key)
		}
	}
	return out
}

// Explanation describes what a build would do with an action, and why.
type Explanation struct {
	Action   *graph.Action
	State    string // "up_to_date", "cached", "run", "failed"
	Why      []string
	Waits    bool     // Why lists the inputs that would be built first; nothing more is known
	Origin   string   // address of the remote cache that a valid record came from, or ""
	Imported []string // if the action would run: what differs from the record of an imported bundle
}

// Bundles finds records of imported bundles by the first outputs of actions.
type Bundles interface {
	Record(output string) *cache.Record // nil if there is none
}

// Explain examines actions in order, without running or restoring anything.
func (d *DryRun) Explain(ids []graph.ActionID, imported Bundles) (out []Explanation) {
	for _, id := range ids {
		a := d.r.Graph.Actions[id]
		e := Explanation{Action: a, State: "run"}
		switch p := d.predict(context.Background(), a); {
		case p.err != nil:
			e.State, e.Why = "failed", []string{p.err.Error()}
		case p.record != nil:
			e.Origin = p.record.Origin
			if e.State = string(p.status); p.status == sched.Cached {
				e.Why = d.r.keys.differences(a, p.key)
			}
		case len(p.unmade) > 0:
			e.Waits = true
			for _, in := range p.unmade {
				e.Why = append(e.Why, in+" would be built first")
			}
		default:
			e.Why = d.r.keys.differences(a, p.key)
			if rec := imported.Record(a.Outputs[0]); rec != nil {
				e.Imported = d.r.keys.unlike(rec, a, p.key)
			}
		}
		if e.State == "run" {
			d.mark(a)
		}
		out = append(out, e)
	}
	return out
}
