package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/actions/jobserver"
	"github.com/kbuild-dev/kbuild/actions/machine"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
)

// running is what stands around a run of the scheduler over an open build tree.
type running struct {
	ctx      context.Context // until somebody interrupts
	opts     sched.Options
	progress *term.Progress
	observer sched.Observer // the progress, or it and the trace
	start    time.Time
	ends     []func()
}

// begin makes ready to build want.
func (c *cli) begin(start time.Time, t *tree, want []graph.ActionID) *running {
	r := &running{start: start}
	opts, closeJobs := c.schedule(t)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	r.ctx, r.opts, r.ends = ctx, opts, []func(){stop, closeJobs}
	r.progress, r.observer = c.progress(t.runner.Graph, want, opts, t)
	t.runner.Warn = func(text string) { r.progress.Diagnostic(term.Diagnostic{Severity: "warning", Summary: text}) }
	return r
}

// finish says how it went.
func (r *running) finish(sum sched.Summary) { r.progress.Finish(sum, time.Since(r.start)) }

func (r *running) end() {
	for _, f := range r.ends {
		f()
	}
}

func status(sum sched.Summary) error {
	switch {
	case sum.Interrupted:
		return exitError{status: exitInterrupted}
	case sum.Failed > 0:
		return exitError{status: exitFailed}
	}
	return nil
}

// schedule gives the bounds of a run. Under make's jobserver tokens bound it, and -j only if given.
func (c *cli) schedule(t *tree) (sched.Options, func()) {
	o := sched.Options{Jobs: int(c.Jobs), KeepGoing: 1, MaxLoad: float64(c.Load), Pools: t.runner.Graph.Pools, Budget: c.budget(), Memory: t.peaks().of}
	if c.Keep != nil {
		o.KeepGoing = int(*c.Keep)
	}
	o.Cost = func(a *graph.Action) time.Duration {
		if d, ok := t.expected(a); ok {
			return d
		}
		return defaultCost(a)
	}
	closeJobs := func() {}
	client, err := jobserver.FromEnviron(os.Getenv("MAKEFLAGS"))
	switch {
	case err != nil:
		c.say("kbuild: warning: %v; running one process at a time", err)
		o.Jobs = 1
	case client != nil:
		o.Jobserver = client
		closeJobs = func() { client.Close() }
		if o.Jobs == 0 {
			o.Jobs = 256
		}
	}
	if o.Jobs <= 0 {
		o.Jobs = machine.Processors("/")
	}
	return o, closeJobs
}

// expected is how long an action took the last time.
func (t *tree) expected(a *graph.Action) (time.Duration, bool) {
	if rec := t.last(a); rec != nil && rec.Elapsed > 0 {
		return rec.Elapsed, true
	}
	return 0, false
}

// last is the record of the last time; nil if there is none.
func (t *tree) last(a *graph.Action) *cache.Record {
	if len(a.Outputs) == 0 {
		return nil
	}
	return t.journal.Last(a.Outputs[0])
}

// defaultCost orders actions that never ran here: long ones first.
func defaultCost(a *graph.Action) time.Duration {
	info := a.Kind.Info()
	if info.PerArch {
		return info.Cost * time.Duration(max(1, len(a.Archs)))
	}
	return info.Cost
}

// progress makes what the user sees of a build; observer is it, or it and the trace.
func (c *cli) progress(g *graph.Graph, want []graph.ActionID, o sched.Options, t *tree) (p *term.Progress, observer sched.Observer) {
	opts := term.Options{Err: c.err, Mode: term.Mode(c.Progress), Color: c.Color, Verbose: c.Verbose || c.DryRun, DryRun: c.DryRun, Quiet: c.Quiet,
		Jobs: o.Jobs, Expected: t.expected, Env: os.Getenv}
	if c.JSON {
		opts.JSON = c.out
	}
	for _, id := range g.Closure(want) {
		opts.Actions = append(opts.Actions, g.Actions[id])
	}
	p = term.New(opts)
	if c.Trace == "" {
		return p, p
	}
	c.trace = term.NewTrace(c.Trace)
	return p, term.Tee{p, c.trace}
}

// finishTrace writes the trace, also of a build that failed or was interrupted.
func (c *cli) finishTrace() error {
	if c.trace == nil {
		return nil
	}
	return c.trace.Finish()
}
