package execute

import (
	"context"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Held is what the shared cache has of an action.
type Held struct {
	Action *graph.Action
	Record *cache.Record // settles it today; nil if there is none: it was not built, or is not to be shared
}

// Held looks at actions in the order of ids, which must have what an action needs before it. What
// stands in the build tree and is no longer in the cache is stored again.
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

// entry is the record of the cache that settles a, nil if there is none. known reports that the
// outputs are: of an action that holds in tokens alone (discover.HoldsInTokens) the cache has no
// record of today's headers, and others that need it do not wait for it.
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
