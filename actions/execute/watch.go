package execute

import (
	"iter"
	"path"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Forget drops what is remembered about a file of the build tree that another process has written
// or removed.
func (r *Runner) Forget(file string) { r.tree.written(file) }

// lastRecords returns actions with their last records, one by one: all together would fill the
// memory.
func (r *Runner) lastRecords(ids []graph.ActionID) iter.Seq[discover.Recorded] {
	return func(yield func(discover.Recorded) bool) {
		for _, id := range ids {
			if !yield(r.lastRecord(r.Graph.Actions[id])) {
				return
			}
		}
	}
}

func (r *Runner) lastRecord(a *graph.Action) discover.Recorded {
	return discover.Recorded{Action: a, Record: r.Records.LastRun(a.Outputs[0])}
}

// Observed returns the paths that the run which found the actions ids up to date has observed: see
// discover. It leaves out the folder of parts, which kbuild itself writes and removes when a build
// ends.
func (r *Runner) Observed(ids []graph.ActionID) (observed []cache.Observation, ok bool) {
	return r.discovery.Observed(r.lastRecords(ids), path.Join(r.Graph.BuildDir, graph.PartsDir))
}

// Uses packs the paths that actions depend on, except files that other actions of the graph write:
// see discover. It returns the folders that the compilers searched, sorted.
func (r *Runner) Uses(ids []graph.ActionID, to *graph.Packer) (searched []string) {
	return discover.Searched(func(yield func(discover.Recorded) bool) {
		for of := range r.lastRecords(ids) {
			for _, p := range r.discovery.Uses(of) {
				to.Use(cache.Canonical(r.Root, p), of.Action.ID)
			}
			if !yield(of) {
				return
			}
		}
	})
}
