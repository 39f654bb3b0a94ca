package execute

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// rerun implements sched.Runner. It brings a build tree up to date as Runner does, and runs each
// action again beside the tree. The tree keeps the first outputs.
type rerun struct {
	r *Runner
	// commands run under strace, and actions without a command do not run again
	traced bool
	// compares the second run, which is in dir, with the first
	compare func(a *graph.Action, first, second *cache.Record, dir scratch) error
}

// Check implements sched.Runner: every action runs.
func (v *rerun) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	res, settled := v.r.check(ctx, a)
	if settled && res.Status == sched.Failed {
		return res, true
	}
	return sched.Result{Reason: "to compare"}, false
}

// Execute implements sched.Runner.
func (v *rerun) Execute(ctx context.Context, a *graph.Action) (res sched.Result) {
	v.r.mu.Lock()
	_, missing := v.r.pending[a.ID]
	v.r.mu.Unlock()
	defer func() {
		if !res.Short {
			// only once: it counts the remaining readers of the files between passes
			v.r.intermediates.release(a)
		}
	}()
	if missing {
		if res := v.r.executeChecked(ctx, a, nil); res.Status == sched.Failed {
			return res
		}
	}
	if v.traced && a.Kind.InProcess() {
		return sched.Result{Status: sched.UpToDate}
	}
	return v.again(ctx, a)
}

// again runs an up-to-date action again, and compares the two runs.
func (v *rerun) again(ctx context.Context, a *graph.Action) sched.Result {
	key, err := v.r.keys.of(a)
	if err != nil {
		return failed(err)
	}
	first := v.r.recorded(a, key.key)
	if first == nil { // an input changed while it was built
		return sched.Result{Status: sched.Ran}
	}
	dir, err := v.r.scratches.place(a)
	if err != nil {
		return failed(err)
	}
	if dir.name != "" {
		dir.remove(true) // the files of the first run
	}
	defer dir.remove(true)
	dir.traced = v.traced
	back, err := v.r.tree.setAside(a, dir)
	if err != nil {
		return failed(err)
	}
	rec, stable, res := v.r.produce(ctx, a, key, dir)
	if res.Status != sched.Failed {
		if err := v.compare(a, first, rec, dir); err != nil {
			return failed(errors.Join(err, back()))
		}
		if a.Intermediate && stable && sameContent(first, rec) { // a later action may read it
			res = v.r.publish(ctx, a, rec, res, dir, stable)
		}
	}
	if err := back(); err != nil {
		return failed(err)
	}
	return res
}

// setAside moves the outputs of an in-place command to dir. back moves them back.
func (t buildTree) setAside(a *graph.Action, dir scratch) (back func() error, err error) {
	if !a.InPlace {
		return func() error { return nil }, nil
	}
	was := func(i int) string { return dir.file(fmt.Sprintf("was-%d", i)) }
	moved := 0
	back = func() error {
		for i, o := range a.Outputs[:moved] {
			if err := os.Rename(was(i), t.abs(o)); err != nil {
				return fmt.Errorf("bringing %s back: %w", o, err)
			}
			t.written(o)
		}
		return nil
	}
	for i, o := range a.Outputs {
		if err := os.Rename(t.abs(o), was(i)); err != nil {
			return nil, errors.Join(fmt.Errorf("setting the old %s aside: %w", o, err), back())
		}
		moved++
		t.written(o)
	}
	return back, nil
}
