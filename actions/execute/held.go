package execute

import (
	"context"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

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
