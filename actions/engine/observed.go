package engine

import (
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Observed returns all paths that the actions of r's graph observed, and others that the plan
// depends on. It is for a caller that keeps them without a build tree. began is when the first of
// them was observed. ok is false if they may not be what the actions have read.
func Observed(r *execute.Runner, others []cache.Observation, began time.Time) (list []cache.Observation, ok bool) {
	t := &Tree{Runner: r, files: r.Files, db: r.Records}
	o := (&view{root: r.Root, began: began}).observer(t)
	var ids []graph.ActionID
	for _, a := range r.Graph.Actions {
		ids = append(ids, a.ID)
	}
	observed, ok := r.Observed(ids)
	o.Files(t.files)
	for _, e := range append(observed, others...) {
		o.Observe(e)
	}
	list, sure := o.List()
	return list, ok && sure
}
