package engine

import (
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// A command may choose the names of the files that it writes (graph.Collect): it has dynamic
// outputs. A plan is made with the names of the command's last run. So such commands run before all
// other actions of a build. If a command then chooses other names, or had none before, the engine
// reads the manifest and plans again.

// otherFiles is returned by a build whose commands wrote other files than the plan expects.
const otherFiles = "other files"

// chosenFiles tracks the commands with dynamic outputs of a build, over all its plans.
type chosenFiles struct {
	building bool
	mayRun   bool                    // they have not run in this build, and may run
	ended    map[string]sched.Status // of actions that ran before the rest, by first output
}

// note stores how an action ended, if it ran or was restored.
func (c *chosenFiles) note(a *graph.Action, status sched.Status) {
	if c.ended == nil {
		c.ended = map[string]sched.Status{}
	}
	if status == sched.Ran || status == sched.Cached {
		c.ended[a.Outputs[0]] = status
	}
}

// count adjusts the summary of a run of want. In that run the actions that had run before the rest
// are up to date.
func (c *chosenFiles) count(sum *sched.Summary, g *graph.Graph, want []graph.ActionID) {
	if len(c.ended) == 0 {
		return
	}
	for _, id := range g.Closure(want) {
		switch c.ended[g.Actions[id].Outputs[0]] {
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

// settle runs the actions with dynamic outputs that want needs. again reports that their outputs
// changed, so that the caller must plan again. ok reports that the rest can run.
func (p *Project) settle(r *watched, want []graph.ActionID, runner sched.Runner) (sum sched.Summary, again, ok bool, err error) {
	if p.w.DryRun || len(p.Chosen) == 0 {
		return sum, false, true, nil
	}
	r.chosen = &p.w.chosen
	defer func() { r.chosen = nil }()
	rest := p.collects(p.Graph.Closure(want))
	for len(rest) > 0 {
		p.w.chosen.mayRun = false
		first := slices.DeleteFunc(slices.Clone(rest), func(id graph.ActionID) bool { return p.needsOneOf(id, rest) })
		sum, _, err = r.run(p.Graph, first, runner)
		if err != nil || sum.Failed+sum.Skipped > 0 || sum.Interrupted {
			return sum, false, false, err
		}
		if slices.ContainsFunc(first, func(id graph.ActionID) bool { return !p.hasChosen(p.Graph.Actions[id]) }) {
			return sum, true, true, nil
		}
		rest = slices.DeleteFunc(rest, func(id graph.ActionID) bool { return slices.Contains(first, id) })
	}
	return sum, false, true, nil
}

// needsOneOf reports whether an action depends on another one of others.
func (p *Project) needsOneOf(id graph.ActionID, others []graph.ActionID) bool {
	return slices.ContainsFunc(p.Graph.Closure([]graph.ActionID{id}), func(d graph.ActionID) bool { return d != id && slices.Contains(others, d) })
}

// hasChosen reports whether the plan has the files that the command of a wrote.
func (p *Project) hasChosen(a *graph.Action) bool {
	text, err := regular.Read(cache.Absolute(p.Root, a.Outputs[0]))
	if err != nil {
		return false
	}
	names, _ := graph.ReadFileList(text)
	var files []string
	for _, n := range names {
		files = append(files, path.Join(a.Work.Collect.Dir, n))
	}
	for _, b := range p.Graph.Actions {
		if b.Kind == graph.Extract && b.Inputs[0] == a.Outputs[1] {
			return slices.Equal(b.Outputs, files)
		}
	}
	return false
}
