package engine

import (
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
)

// A command may choose the names of the files that it writes (graph.Collect): it has dynamic
// outputs. A plan is made with the names of the command's last run. So such commands run before all
// other actions of a build. If a command then writes other names, or had none before, the engine
// reads the manifest and plans again.

// dynamicOutputs holds the state of the actions with dynamic outputs in a build.
type dynamicOutputs struct {
	mayRun bool                    // they have not run in this build, and may run
	ended  map[string]sched.Status // of those that ran or were restored, by first output
}

// count adjusts the summary of a run of want. In that run the actions that had run before the
// others are up to date.
func (d *dynamicOutputs) count(sum *sched.Summary, g *graph.Graph, want []graph.ActionID) {
	if len(d.ended) == 0 {
		return
	}
	for _, id := range g.Closure(want) {
		switch d.ended[g.Actions[id].Outputs[0]] {
		case sched.Ran:
			sum.UpToDate, sum.Ran = sum.UpToDate-1, sum.Ran+1
		case sched.Cached:
			sum.UpToDate, sum.Cached = sum.UpToDate-1, sum.Cached+1
		}
	}
}

// collects returns the actions with dynamic outputs among ids, or among all actions if ids is nil.
func (p *Project) collects(ids []graph.ActionID) (out []graph.ActionID) {
	for _, a := range p.Graph.Actions {
		if a.Work.Collect != nil && (ids == nil || slices.Contains(ids, a.ID)) {
			out = append(out, a.ID)
		}
	}
	return out
}

// runDynamicOutputs runs the actions with dynamic outputs that want needs, those first that need no
// other of them. changed reports that their outputs are not those of the plan. Otherwise the rest
// can run if the runs succeeded.
func (b *build) runDynamicOutputs(p *Project, r *schedulerRun, want []graph.ActionID, runner sched.Runner) (
	sum sched.Summary, changed bool, err error,
) {
	if b.DryRun || len(p.Dynamic) == 0 {
		return sum, false, nil
	}
	rest := p.collects(p.Graph.Closure(want))
	for len(rest) > 0 {
		b.dynamic.mayRun = false
		first := slices.DeleteFunc(slices.Clone(rest), func(id graph.ActionID) bool {
			return p.needsOneOf(id, rest)
		})
		before := len(r.last.Actions)
		sum, _, err = r.run(p.Graph, first, runner)
		for _, a := range r.last.Actions[before:] {
			if a.Status == sched.Ran || a.Status == sched.Cached {
				b.dynamic.ended[a.Output] = a.Status
			}
		}
		if err != nil || !succeeded(sum) {
			return sum, false, err
		}
		for _, id := range first {
			if !p.expects(p.Graph.Actions[id]) {
				return sum, true, nil
			}
		}
		rest = slices.DeleteFunc(rest, func(id graph.ActionID) bool { return slices.Contains(first, id) })
	}
	return sum, false, nil
}

// needsOneOf reports whether an action depends on another one of others.
func (p *Project) needsOneOf(id graph.ActionID, others []graph.ActionID) bool {
	return slices.ContainsFunc(p.Graph.Closure([]graph.ActionID{id}), func(dep graph.ActionID) bool {
		return dep != id && slices.Contains(others, dep)
	})
}

// expects reports whether the plan has the files that the command of a wrote.
func (p *Project) expects(a *graph.Action) bool {
	text, err := regular.Read(cache.Absolute(p.Root, a.Outputs[0]))
	if err != nil {
		return false
	}
	names, _ := fileset.ReadList(text)
	var files []string
	for _, n := range names {
		files = append(files, path.Join(a.Work.Collect.Dir, n))
	}
	for _, b := range p.Graph.Actions {
		if len(b.Inputs) > 0 && b.Inputs[0] == a.Outputs[1] {
			return slices.Equal(b.Outputs, files)
		}
	}
	return false
}
