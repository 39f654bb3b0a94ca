package execute

import (
	"context"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
)

// A host compile ends before its compiler where that would see nothing of what has changed: see discover.Unseen. Most often that is known without a process. Where
// a macro came or went whose name some words could be joined to, gcc's preprocessor is asked whether that happens, in the place of the compile.

// unseen is the record of the build tree by which an action is settled as it is today.
type unseen struct {
	record *cache.Record
	ask    []string // macros of which the compiler has to say that it uses none
}

// settles reports that no compiler has to be asked.
func (u *unseen) settles() bool { return u != nil && len(u.ask) == 0 }

// unseen looks for what settles a without its command; nil if there is nothing.
func (r *Runner) unseen(a *graph.Action, key cache.Key) *unseen {
	rec := r.recorded(a, key)
	if rec == nil || rec.Outputs[0].Path != a.Outputs[0] || !r.hasOutputs(rec) {
		return nil
	}
	today, ask, ok := r.discovery.Unseen(a, rec)
	if !ok || r.generated.undeclared(a, today.Discovered) != nil {
		return nil
	}
	return &unseen{today, ask}
}

// settleUnseen makes the record of today that of a.
func (r *Runner) settleUnseen(ctx context.Context, a *graph.Action, u *unseen) sched.Result {
	if err := r.Records.Append(u.record); err != nil {
		return failed(err)
	}
	r.share(ctx, a, u.record)
	r.provenance.settled(a, u.record)
	return sched.Result{Status: sched.UpToDate}
}

// usesNone asks the preprocessor of a whether it uses macros. Whatever is wrong, it may.
func (r *Runner) usesNone(ctx context.Context, a *graph.Action, p *pending) bool {
	dir, err := r.scratches.place(a)
	if err != nil {
		return false
	}
	defer dir.remove(true)
	start := r.stability.start(a)
	question := host.AskUses(a.Argv, dir.seen().output(0, a.Outputs[0]), p.unseen.ask)
	if out, err := r.processes.runHere(ctx, a, question, dir); err != nil || out.ExitCode != 0 || len(out.Output) > 0 {
		return false
	}
	text, err := regular.Read(dir.output(0, a.Outputs[0]))
	return err == nil && discover.UsesNone(text, p.unseen.ask) && r.stability.inputs(a, p.inputs, start) && r.stability.discovered(p.unseen.record.Discovered, start)
}
