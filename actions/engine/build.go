package engine

import (
	"context"
	"errors"

	"github.com/kbuild-dev/kbuild/actions/build"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// Request is what a build is asked for.
type Request struct {
	Targets []string                                                       // names of targets, sources and outputs; none are the default ones
	Select  func(*Project) ([]graph.ActionID, error)                       // what to build in place of what Targets stand for
	Brief   bool                                                           // where there is nothing to do, that is all the front wants to tell
	Ran     func(context.Context, *Project, *Tree, []graph.ActionID) error // what else is to be done when the actions have run
	Good    func(*Project, []graph.ActionID) error                         // where all went well, before the end is told
	Done    func(*Project, []graph.ActionID) error                         // where all went well, after the end was told
}

// Build brings targets up to date. The error is of the engine; of actions that failed the summary tells.
func (w *Workspace) Build(req Request) (sched.Summary, error) {
	q := w.openQuick(req)
	if q != nil {
		if sum, done, err := q.build(w); done {
			return sum, err
		}
	}
	return w.buildRetryingUnsplit(func() (sched.Summary, string, error) { return w.build(req, q) })
}

// build builds once. misread asks for another time: it is the compiler that was misread.
func (w *Workspace) build(req Request, q *quick) (sum sched.Summary, misread string, err error) {
	choose := func() (*Project, []graph.ActionID, error) { return w.PlanFor(req.Targets) }
	if req.Select != nil {
		choose = func() (*Project, []graph.ActionID, error) {
			p, err := w.Plan()
			if err != nil {
				return nil, nil, err
			}
			want, err := req.Select(p)
			return p, want, err
		}
	}
	p, tree, want, err := w.openFor(choose)
	if err != nil {
		return sum, "", err
	}
	defer tree.Close()
	return p.build(req, q, tree, want)
}

// build builds want in an open tree.
func (p *Project) build(req Request, q *quick, tree *Tree, want []graph.ActionID) (sum sched.Summary, misread string, err error) {
	w := p.w
	r := w.Front.Begin(tree, want)
	defer r.End()
	tree.Runner.Warn = func(text string) { r.Note("warning", text) }
	var runner sched.Runner = tree.Runner
	if w.DryRun {
		runner = build.NewDryRun(tree.Runner)
	}
	if err := p.sweep(tree, want, r.Note); err != nil {
		return sum, "", err
	}
	sum, err = sched.Run(r.Context, p.Graph, want, r.Options, runner, r.Observer)
	if err == nil && req.Ran != nil && !w.DryRun {
		err = req.Ran(r.Context, p, tree, want)
	}
	misread, noted := p.noteMisread(tree.Runner.Misread())
	err = errors.Join(err, noted)
	good := err == nil && sum.Failed+sum.Skipped == 0 && !sum.Interrupted && misread == ""
	if good && req.Good != nil {
		err = req.Good(p, want)
	}
	r.Finish(sum)
	if good && err == nil {
		if q != nil {
			q.save(p, tree, want)
		}
		if req.Done != nil {
			err = req.Done(p, want)
		}
	}
	if r.Context.Err() != nil {
		misread = ""
	}
	return sum, misread, err
}

// RunAgain builds targets with a runner that runs commands again.
func (w *Workspace) RunAgain(targets []string, with func(context.Context, *Project, *Tree) (sched.Runner, error)) (root string, sum sched.Summary, err error) {
	p, t, want, err := w.Open(targets)
	if err != nil {
		return "", sum, err
	}
	defer t.Close()
	r := w.Front.Begin(t, want)
	defer r.End()
	t.Runner.Warn = func(text string) { r.Note("warning", text) }
	if err := p.sweep(t, want, r.Note); err != nil {
		return "", sum, err
	}
	runner, err := with(r.Context, p, t)
	if err != nil {
		return "", sum, err
	}
	sum, err = sched.Run(r.Context, p.Graph, want, r.Options, runner, r.Observer)
	r.Finish(sum)
	return p.Root, sum, err
}
