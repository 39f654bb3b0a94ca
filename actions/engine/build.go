package engine

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A build brings targets up to date. It goes through these states:
//
//   - load: read what the last build with this command line stored in the tree (view.go), and
//     compare it with the files. If nothing changed, the build ends here: it takes
//     a shared lock for a moment (run.LookLock), reads no manifest and makes no plan.
//   - lock: from here on, this process alone changes the tree (tree.go).
//   - plan: if few files changed and the plan cannot have, take the part of the last plan that they
//     affect (view.go). Otherwise read the manifest, probe the host environment and plan.
//   - run: the scheduler checks the actions and executes those that are not up to date. Actions
//     whose outputs the plan cannot know run first (runDynamicOutputs).
//   - commit: store what the build observed, for the next build (view.go).
//
// A run may show that the plan was wrong. Then the build plans and runs again: see outcome. Such a
// round is a whole one, since only a full plan repairs what was wrong.
//
// The lock protects all that is in the build tree: outputs, records, views, and the lists of
// outputs. A plan is made under the lock too, since another process may change what it reads:
// generated manifests, dynamic outputs, answers of compilers. Only loading does without it. A
// build that finds a change must therefore check, once it has the lock, that no other process has
// built in the meantime; otherwise it plans in full.

// Request describes a build.
type Request struct {
	// names of targets, sources and outputs; none means the default targets
	Targets []string
	// the build may end early, without a complete plan, if nothing or little changed
	AllowIncremental bool
	KeepCode         []string // kinds of device code that --keep requests, see keep.go
	Command          Command  // nil if the outputs are all that is wanted
	SummaryFirst     bool     // the summary is printed before Command uses the outputs
}

// Command is a command that builds, and uses the outputs while the tree is locked.
type Command interface {
	// Select returns the actions to build, in place of those that Request.Targets names.
	Select(p *Project) (want []graph.ActionID, err error)
	// OnSuccess is called after every action succeeded.
	OnSuccess(p *Project, want []graph.ActionID) error
}

// build is the state of one build, over all its rounds.
type build struct {
	*Workspace
	req     Request
	running bool // actions may run; false for commands that only plan
	began   time.Time
	viewKey *[32]byte // see view.go; nil for a build that stores no view

	splitFailures map[string]string // found by this build: explanations by key of the dry run
	dynamic       dynamicOutputs
}

// outcome reports how a round of a build ended.
type outcome struct {
	reason reason
	tool   string // for splitFailed: the compiler
}

// reason is why a build must plan and run again.
type reason int

const (
	done reason = iota // it need not
	// A pass failed only because kbuild misparsed the dry run of its compiler. The new plan runs
	// that command unsplit.
	splitFailed
	// The same happened in a part of the last plan. Only a full plan identifies the compiler.
	needsFullPlan
	// Actions with dynamic outputs wrote other files than the plan expects.
	outputsChanged
)

// maxRounds limits the rounds of a build. Each round after a split failure found a dry run that the
// build did not know to be misparsed, so the rounds end by themselves. The limit is for cases that
// we did not foresee.
const maxRounds = 32

// Build brings targets up to date. The error is the engine's; the summary reports the actions that
// failed.
func (w *Workspace) Build(req Request) (sched.Summary, error) {
	if fault := manifest.Untrusted(w.Manifest); fault != nil {
		w.UI.Diagnose(manifest.Diagnostics{*fault})
		return sched.Summary{}, ErrDiagnosed
	}
	b := w.newBuild(req)
	b.running, b.dynamic.mayRun = true, !w.DryRun
	w.UI.Enter()
	var last *lastView
	if req.AllowIncremental {
		last = b.load()
	}
	if last.upToDate() {
		defer last.close()
		w.UI.Diagnose(last.Printed)
		for _, line := range last.Fallbacks {
			w.UI.Note(line)
		}
		w.UI.UpToDate(last.Actions)
		return sched.Summary{Actions: last.Actions, UpToDate: last.Actions}, nil
	}
	for round := 1; ; round++ {
		t, err := w.lockAny(w.StateDir(), false)
		if err != nil {
			last.close()
			return sched.Summary{}, err
		}
		var sum sched.Summary
		var out outcome
		if part := last.partialPlan(t); part != nil {
			sum, out, err = b.runPart(part, t)
		} else {
			sum, out, err = b.runPlan(t)
		}
		if out.reason == done || round == maxRounds {
			return sum, err
		}
		if out.reason == splitFailed {
			w.UI.Say(fmt.Sprintf("warning: kbuild misparsed the dry run of %[1]s; building again with %[1]s as one command (please report this; `kbuild why` says more)", out.tool))
		}
		last = nil
	}
}

// runPart runs a part of the last plan in a locked tree, and commits.
func (b *build) runPart(part *partialPlan, t *Tree) (sum sched.Summary, out outcome, err error) {
	defer t.Close()
	b.UI.Diagnose(part.Printed)
	config := execute.Config{Graph: part.graph, Outer: part.packed, Root: part.root, Tools: part.meta.Tools}
	if err := t.open(part.Cache, config); err != nil {
		return sum, out, err
	}
	r := t.begin(part.want)
	defer r.Close()
	sum, dirty, err := r.run(part.graph, part.want, t.runner)
	if rest := part.Actions - sum.Actions; rest > 0 { // no input of these has changed
		sum.Actions += rest
		sum.UpToDate += rest
	}
	r.finish(sum, part.graph, part.want, part.Fallbacks)
	if len(t.runner.SplitFailures()) > 0 && r.Context.Err() == nil {
		return sum, outcome{reason: needsFullPlan}, nil
	}
	if err == nil && !sum.Interrupted {
		part.commit(t, dirty)
	}
	return sum, out, err
}

// runPlan plans, runs what the request selects, and commits. t is nil if there is no build tree
// yet.
func (b *build) runPlan(t *Tree) (sum sched.Summary, out outcome, err error) {
	p, t, want, err := b.open(t)
	if err != nil {
		return sum, out, err
	}
	defer t.Close()
	r := t.begin(want)
	defer r.Close()
	var runner sched.Runner = t.runner
	if b.DryRun {
		runner = execute.NewDryRun(t.Runner)
	}
	if err := p.sweep(r, want); err != nil {
		return sum, out, err
	}
	sum, changed, err := b.runDynamicOutputs(p, r, want, runner)
	if changed {
		b.commitFiles(t)
		return sum, outcome{reason: outputsChanged}, nil
	}
	var dirty []graph.ActionID
	ready := err == nil && succeeded(sum)
	if ready {
		sum, dirty, err = r.run(p.Graph, want, runner)
		b.dynamic.count(&sum, p.Graph, want)
	}
	if err == nil && len(b.req.KeepCode) > 0 && !b.DryRun {
		err = p.keepCode(r.Context, t, want, b.req.KeepCode)
	}
	out, noted := b.noteSplitFailures(p, t)
	err = errors.Join(err, noted)
	use := b.req.Command != nil && err == nil && succeeded(sum) && out.reason == done
	if use && !b.req.SummaryFirst {
		err = b.req.Command.OnSuccess(p, want)
	}
	closure := p.Graph.Closure(want)
	var fallbacks []string
	if out.reason == done {
		fallbacks = p.Fallbacks(closure)
	}
	r.finish(sum, p.Graph, want, fallbacks)
	if !b.DryRun {
		complete := ready && err == nil && out.reason == done && !sum.Interrupted
		if !complete || !b.commit(p, t, closure, dirty) {
			b.commitFiles(t)
		}
	}
	if use && b.req.SummaryFirst {
		err = b.req.Command.OnSuccess(p, want)
	}
	if r.Context.Err() != nil {
		out = outcome{}
	}
	return sum, out, err
}

// succeeded reports whether every action of a run is up to date.
func succeeded(sum sched.Summary) bool { return sum.Failed+sum.Skipped == 0 && !sum.Interrupted }

// schedulerRun is a run of the scheduler that the engine observes.
type schedulerRun struct {
	*Run
	tree  *Tree
	ended []bool // whether an action ended well, by its ID
	last  LastBuild
}

// begin has the UI prepare a run, and adds the engine's options.
func (t *Tree) begin(want []graph.ActionID) *schedulerRun {
	r := t.w.UI.Begin(t, want)
	g := t.Runner.Graph
	r.Options.Pools, r.Options.Estimates = g.Pools, t
	if t.Runner.Remote != nil {
		r.Options.Remote, r.Options.Elsewhere = t.shared.remote, t.w.RemoteJobs
	}
	if t.shared != nil {
		r.Options.Checks = remote.Checks // they wait for the server most of the time
	}
	t.Runner.Warn = func(text string) {
		r.Diagnose(manifest.Diagnostic{Severity: manifest.Warning, Summary: text})
	}
	return &schedulerRun{r, t, make([]bool, len(g.Actions)), LastBuild{Began: t.begun}}
}

// Finished implements sched.Observer.
func (r *schedulerRun) Finished(a *graph.Action, res sched.Result, done, total int) {
	r.ended[a.ID] = res.Status != sched.Failed && res.Status != sched.Skipped
	r.last.note(a, res)
	r.Display.Finished(a, res, done, total)
}

// run runs what want needs. dirty are the actions that are not up to date afterwards.
func (r *schedulerRun) run(g *graph.Graph, want []graph.ActionID, runner sched.Runner) (
	sum sched.Summary, dirty []graph.ActionID, err error,
) {
	sum, err = sched.Run(r.Context, g, want, r.Options, runner, r)
	for _, id := range g.Closure(want) {
		if !r.ended[id] {
			dirty = append(dirty, id)
		}
	}
	return sum, dirty, err
}

// finish shows the end of a run of want, and stores what it did for `kbuild why`. Notes are shown
// only if no action failed and the user did not interrupt the run.
func (r *schedulerRun) finish(sum sched.Summary, g *graph.Graph, want []graph.ActionID, notes []string) {
	if sum.Failed == 0 && !sum.Interrupted {
		for _, line := range notes {
			r.Diagnose(manifest.Diagnostic{Severity: manifest.Note, Summary: line})
		}
	}
	r.last.Total = sum.Actions
	if w := r.tree.w; !w.DryRun {
		r.last.write(g, want, w.StateDir())
	}
	r.Finish(sum)
}

// Run runs want in an open tree, with a runner that runs commands again.
func (p *Project) Run(t *Tree, want []graph.ActionID, runner sched.Runner) (sched.Summary, error) {
	r := t.begin(want)
	defer r.Close()
	if err := p.sweep(r, want); err != nil {
		return sched.Summary{}, err
	}
	sum, _, err := r.run(p.Graph, want, runner)
	r.Finish(sum)
	return sum, err
}

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
	waiting := p.collects(p.Graph.Closure(want))
	for len(waiting) > 0 {
		b.dynamic.mayRun = false
		var first, later []graph.ActionID
		for _, id := range waiting {
			if slices.ContainsFunc(waiting, func(other graph.ActionID) bool { return p.Graph.Needs(id, other) }) {
				later = append(later, id)
			} else {
				first = append(first, id)
			}
		}
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
		waiting = later
	}
	return sum, false, nil
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
