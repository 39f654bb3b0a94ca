package execute

import (
	"path"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/graph"
)

// Forget drops what is remembered of a file of the build tree that somebody else has written or removed.
func (r *Runner) Forget(file string) { r.tree.written(file) }

// lastRecords gives actions with their last records.
func (r *Runner) lastRecords(ids []graph.ActionID) []discover.Recorded {
	out := make([]discover.Recorded, len(ids))
	for i, id := range ids {
		out[i] = r.lastRecord(r.Graph.Actions[id])
	}
	return out
}

func (r *Runner) lastRecord(a *graph.Action) discover.Recorded {
	return discover.Recorded{Action: a, Record: r.Records.Last(a.Outputs[0])}
}

// Watched are the paths that a run which found the actions ids up to date looked at: see discover. The folder of parts is kbuild's own, and gone
// when a build ends.
func (r *Runner) Watched(ids []graph.ActionID) (absent, present []string, ok bool) {
	return r.discovery.Watched(r.lastRecords(ids), path.Join(r.Graph.BuildDir, graph.PartsDir))
}

// Uses are the paths that an action depends on besides the files that others of the graph write: see discover.
func (r *Runner) Uses(a *graph.Action) []string { return r.discovery.Uses(r.lastRecord(a)) }

// Searched are the folders that the compilers of some actions searched, sorted.
func (r *Runner) Searched(ids []graph.ActionID) []string {
	return discover.Searched(r.lastRecords(ids))
}
