package engine

import (
	"context"
	"errors"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Request describes a build.
type Request struct {
	// names of targets, sources and outputs; none means the default targets
	Targets []string
	Select  func(*Project) ([]graph.ActionID, error) // selects what to build, in place of Targets
	// the build may end early, without a complete plan, if nothing or little changed
	Brief bool
	// is called after the actions have run
	Ran func(context.Context, *Project, *Tree, []graph.ActionID) error
	// is called after every action succeeded, before the summary is printed
	Good func(*Project, []graph.ActionID) error
	// is called after every action succeeded and the summary was printed
	Done func(*Project, []graph.ActionID) error
}

// Build brings targets up to date. The error is the engine's; the summary reports the actions that
// failed.
func (w *Workspace) Build(req Request) (sched.Summary, error) {
	if fault := manifest.Untrusted(w.Manifest); fault != nil {
		w.diagnose(manifest.Diagnostics{*fault})
		return sched.Summary{}, ErrDiagnosed
	}
	v := w.view(req)
	w.UI.Enter()
	w.chosen = chosenFiles{building: true, mayRun: !w.DryRun}
	defer func() { w.chosen = chosenFiles{} }()
	return w.retry(func(anew bool) (sched.Summary, string, error) { return w.build(req, v, anew) })
}

// mostTurns limits how often a build is retried because a dry run was misparsed. Each retry finds a
// dry run that this process did not know to be misparsed, so the retries end by themselves. The
// limit is for cases that we did not foresee.
const mostTurns = 32

// planAgain is returned by a build of a part of the last plan, in place of the misparsed compiler.
// Only a full plan identifies that compiler.
const planAgain = "the last plan"

// retry builds. It builds again if a dry run was misparsed, with that compiler unsplit, or if
// commands wrote other files than the plan expects.
func (w *Workspace) retry(build func(anew bool) (sum sched.Summary, misparsed string, err error)) (sched.Summary, error) {
	anew := false
	for turn := 1; ; turn++ {
		sum, misparsed, err := build(anew)
		if misparsed == "" || turn == mostTurns {
			return sum, err
		}
		if anew = true; misparsed != planAgain && misparsed != otherFiles {
			w.sayf("warning: kbuild misparsed the dry run of %[1]s; building again with %[1]s as one command (please report this; `kbuild why` says more)", misparsed)
		}
	}
}

// build builds once. It scans the tree, locks it, and runs the part of the last plan that changes
// affect, or else makes a plan and runs that. It stores what the next build needs. anew forces a
// new plan.
func (w *Workspace) build(req Request, v *view, anew bool) (sum sched.Summary, misparsed string, err error) {
	var last *scan
	if !anew && req.Brief {
		last = v.scan()
		defer last.close()
	}
	if last.upToDate() {
		last.tell(w)
		for _, line := range last.fallbacks() {
			w.UI.Note(line)
		}
		w.UI.UpToDate(last.actions)
		return sched.Summary{Actions: last.actions, UpToDate: last.actions}, "", nil
	}
	state := w.StateDir()
	lock, err := w.lockExisting(state)
	if err != nil {
		return sum, "", err
	}
	if last != nil && lock != nil && lock.Was() == last.was {
		if part := last.partialPlan(); part != nil {
			return w.buildPart(part, lock)
		}
	}
	p, t, want, err := w.openLocked(state, lock, func() (*Project, []graph.ActionID, error) { return w.choose(req) })
	if err != nil {
		return sum, "", err
	}
	defer t.Close()
	return p.build(req, v, t, want)
}

// choose plans, and selects what to build.
func (w *Workspace) choose(req Request) (*Project, []graph.ActionID, error) {
	if req.Select == nil {
		return w.PlanFor(req.Targets)
	}
	return w.planWith(req.Select)
}

// buildPart builds a part of the last plan.
func (w *Workspace) buildPart(part *partialPlan, lock *run.Lock) (sum sched.Summary, misparsed string, err error) {
	part.tell(w)
	t, err := part.openTree(w, lock)
	if err != nil {
		return sum, "", err
	}
	defer t.Close()
	r := w.begin(t, part.want)
	defer r.End()
	sum, dirty, err := r.run(part.graph, part.want, t.Runner)
	if rest := part.actions - sum.Actions; rest > 0 { // no input of these has changed
		sum.Actions += rest
		sum.UpToDate += rest
	}
	r.tell(part.fallbacks(), sum)
	r.last.Total = sum.Actions
	r.last.write(part.graph, part.want, w.StateDir())
	r.Finish(sum)
	if len(t.Runner.Misparses()) > 0 && r.Context.Err() == nil {
		return sum, planAgain, nil
	}
	if err == nil && !sum.Interrupted {
		part.commit(t, dirty)
	}
	return sum, "", err
}

// build builds want in an open tree.
func (p *Project) build(req Request, v *view, t *Tree, want []graph.ActionID) (sum sched.Summary, misparsed string, err error) {
	w := p.w
	r := w.begin(t, want)
	defer r.End()
	var runner sched.Runner = t.Runner
	if w.DryRun {
		runner = execute.NewDryRun(t.Runner)
	}
	if err := p.sweep(t, want, r.Diagnose); err != nil {
		return sum, "", err
	}
	sum, again, ok, err := p.settle(r, want, runner)
	if again {
		commitFiles(p, t)
		return sum, otherFiles, nil
	}
	var dirty []graph.ActionID
	if ok {
		sum, dirty, err = r.run(p.Graph, want, runner)
		w.chosen.count(&sum, p.Graph, want)
	}
	if err == nil && req.Ran != nil && !w.DryRun {
		err = req.Ran(r.Context, p, t, want)
	}
	misparsed, noted := p.noteMisparses(t.db, t.Runner.Misparses())
	err = errors.Join(err, noted)
	good := err == nil && sum.Failed+sum.Skipped == 0 && !sum.Interrupted && misparsed == ""
	if good && req.Good != nil {
		err = req.Good(p, want)
	}
	if misparsed == "" {
		r.tell(p.Fallbacks(p.Graph.Closure(want)), sum)
	}
	if r.last.Total = sum.Actions; !w.DryRun {
		r.last.write(p.Graph, want, w.StateDir())
	}
	r.Finish(sum)
	switch {
	case w.DryRun:
	case !ok || v == nil || err != nil || misparsed != "" || sum.Interrupted || !v.commit(p, t, p.Graph.Closure(want), dirty):
		commitFiles(p, t)
	}
	if good && err == nil && req.Done != nil {
		err = req.Done(p, want)
	}
	if r.Context.Err() != nil {
		misparsed = ""
	}
	return sum, misparsed, err
}

// watched is a run of the scheduler that the engine observes.
type watched struct {
	*Run
	sched.Observer
	ended  []bool // whether an action ended well, by its ID
	last   LastBuild
	chosen *chosenFiles // set while commands with dynamic outputs run
}

// begin has the UI prepare a run, and adds the engine's options.
func (w *Workspace) begin(t *Tree, want []graph.ActionID) *watched {
	r := w.UI.Begin(t, want)
	r.Options.Pools, r.Options.Memory, r.Options.Cost = t.Runner.Graph.Pools, t.peaks().of, t.cost
	if t.Runner.Remote != nil {
		r.Options.Elsewhere, r.Options.Overdue = w.RemoteJobs, t.overdue
	}
	if t.shared != nil {
		r.Options.Checks = remote.Checks // they wait for the server most of the time
	}
	t.Runner.Warn = func(text string) { r.Diagnose(manifest.Diagnostic{Severity: manifest.Warning, Summary: text}) }
	return &watched{Run: r, Observer: r.Observer, ended: make([]bool, len(t.Runner.Graph.Actions)), last: LastBuild{Began: w.Begun}}
}

// Finished implements sched.Observer.
func (r *watched) Finished(a *graph.Action, res sched.Result, done, total int) {
	r.ended[a.ID] = res.Status != sched.Failed && res.Status != sched.Skipped
	r.last.note(a, res)
	if r.chosen != nil {
		r.chosen.note(a, res.Status)
	}
	r.Observer.Finished(a, res, done, total)
}

// tell shows lines at the end of a run. It shows none if an action failed or the user interrupted
// the run.
func (r *watched) tell(lines []string, sum sched.Summary) {
	if sum.Failed > 0 || sum.Interrupted {
		return
	}
	for _, line := range lines {
		r.Diagnose(manifest.Diagnostic{Severity: manifest.Note, Summary: line})
	}
}

// run runs what want needs. dirty are the actions that are not up to date afterwards.
func (r *watched) run(g *graph.Graph, want []graph.ActionID, runner sched.Runner) (sum sched.Summary, dirty []graph.ActionID, err error) {
	sum, err = sched.Run(r.Context, g, want, r.Options, runner, r)
	for _, id := range g.Closure(want) {
		if !r.ended[id] {
			dirty = append(dirty, id)
		}
	}
	return sum, dirty, err
}

// RunAgain builds targets with a runner that runs commands again.
func (w *Workspace) RunAgain(targets []string, with func(context.Context, *Project, *Tree) (sched.Runner, error)) (root string, sum sched.Summary, err error) {
	p, t, want, err := w.Open(targets)
	if err != nil {
		return "", sum, err
	}
	defer t.Close()
	r := w.begin(t, want)
	defer r.End()
	if err := p.sweep(t, want, r.Diagnose); err != nil {
		return "", sum, err
	}
	runner, err := with(r.Context, p, t)
	if err != nil {
		return "", sum, err
	}
	sum, _, err = r.run(p.Graph, want, runner)
	r.Finish(sum)
	return p.Root, sum, err
}
