package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// outputsOf returns the outputs of rec under the names that a uses, or nil if they do not fit. Two
// parts with one key share a record, whatever their files are called, and so does a pass in two
// build trees.
func outputsOf(a *graph.Action, rec *cache.Record) []cache.Output {
	if len(rec.Outputs) != len(a.Outputs) {
		return nil
	}
	if !sharesRecords(a) {
		return rec.Outputs
	}
	out := slices.Clone(rec.Outputs)
	for i := range out {
		out[i].Path = a.Outputs[i]
	}
	return out
}

// renamed returns rec with its outputs under the names that a uses.
func renamed(a *graph.Action, rec *cache.Record) *cache.Record {
	mine := *rec
	mine.Outputs = outputsOf(a, rec)
	return &mine
}

// sharesRecords reports whether the outputs of a are the same under any name. That is true for a
// pass and for a copy of a pass's output. It is also true for device code that is a target's
// output, such as a cubin.
func sharesRecords(a *graph.Action) bool { return a.Intermediate || a.Kind.Info().Unnamed }

// storeOf returns the store that keeps the outputs of a, or nil.
func (r *Runner) storeOf(a *graph.Action) cache.Store {
	if a.Intermediate {
		return r.IntermediateStore
	}
	return r.Store
}

// stored returns a valid record of the shared cache, or nil.
func (r *Runner) stored(ctx context.Context, a *graph.Action, key cache.Key) *cache.Record {
	store := r.storeOf(a)
	if store == nil || a.Test().Each || r.discovery.CommandTellsTime(a) {
		return nil
	}
	recs, err := store.Records(ctx, key)
	if err != nil {
		r.warn(fmt.Sprintf("the cache cannot be read: %v", err))
	}
	rec := r.firstToHold(a, recs)
	if distant, ok := store.(cache.Distant); ok && rec == nil {
		rec = r.firstToHold(a, distant.Elsewhere(ctx, key))
		if rec == nil {
			distant.Missed()
		} else if !distant.Confirm(ctx, rec) {
			rec = nil
		}
	}
	if rec == nil || a.Intermediate {
		return rec
	}
	return renamed(a, rec)
}

// firstToHold returns the first valid record of a, or nil.
func (r *Runner) firstToHold(a *graph.Action, recs []*cache.Record) *cache.Record {
	for _, rec := range recs {
		if r.discovery.Holds(a, rec) && sameOutputs(rec, a) {
			return rec
		}
	}
	return nil
}

// sameOutputs reports whether a record writes exactly the outputs of a. Keys cover the names of
// outputs. So this only guards the build tree against a record that does not belong to its key.
func sameOutputs(rec *cache.Record, a *graph.Action) bool {
	return slices.EqualFunc(rec.Outputs, a.Outputs, func(o cache.Output, name string) bool { return o.Path == name || sharesRecords(a) })
}

// restore restores the outputs of rec unless they exist already. ok is false if a blob is missing
// or damaged: then the action runs.
func (r *Runner) restore(ctx context.Context, a *graph.Action, rec *cache.Record, status sched.Status) (res sched.Result, ok bool) {
	start := time.Now()
	res = sched.Result{Status: status}
	mine := renamed(a, rec)
	switch {
	case a.Intermediate: // its files are restored when an action reads them
		r.intermediates.setOutputs(mine.Outputs)
	case status == sched.UpToDate:
	case r.hasOutputs(rec):
		res.Status = sched.UpToDate
	default:
		ok, err := r.restoreFiles(ctx, rec)
		if err != nil {
			return failed(err), true
		}
		if !ok {
			return sched.Result{}, false
		}
		res.Elapsed = time.Since(start)
	}
	// the record is new here, or of another action with the same key
	if status == sched.Cached || rec.Outputs[0].Path != a.Outputs[0] {
		mine.Forms = r.discovery.NormalForms(a, mine)
		if err := r.Records.Append(mine); err != nil {
			return failed(err), true
		}
	}
	if res.Status == sched.Cached {
		res.Output = []byte(rec.Text)
		r.storeOf(a).Used(rec)
		r.hit(a, rec, res.Elapsed)
	}
	return res, true
}

// restoreFiles restores the outputs of rec. ok is false if the cache does not have them.
func (r *Runner) restoreFiles(ctx context.Context, rec *cache.Record) (ok bool, err error) {
	if err := r.scratches.open(); err != nil {
		return false, err
	}
	for i, o := range rec.Outputs {
		if err := r.Store.Restore(ctx, o, r.scratches.file(o.Path)); err != nil {
			for _, done := range rec.Outputs[:i] {
				os.Remove(r.scratches.file(done.Path))
			}
			switch {
			case errors.Is(err, cache.ErrCorrupt):
				r.warn(fmt.Sprintf("the cache has a damaged entry for %s, which is built instead: %v", o.Path, err))
			// trouble at the destination, such as a full disk
			case !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil:
				r.warn(fmt.Sprintf("%s cannot be taken from the cache, and is built instead: %v", o.Path, err))
			}
			return false, nil
		}
	}
	for _, o := range rec.Outputs {
		if err := r.tree.place(r.scratches.file(o.Path), o); err != nil {
			return false, err
		}
	}
	return true, nil
}

// hit counts a hit of the cache. A pass without a dependency file reads the outputs of other
// passes.
func (r *Runner) hit(a *graph.Action, rec *cache.Record, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Intermediate && a.Depfile == "" {
		r.counters.Stage++
	} else {
		r.counters.Direct++
	}
	r.counters.Saved += max(0, rec.Elapsed-took)
	if a.Intermediate {
		return // no file was copied
	}
	for _, o := range rec.Outputs {
		r.counters.Bytes += o.Size
	}
}

// publish moves the outputs into place and records the run.
func (r *Runner) publish(ctx context.Context, a *graph.Action, rec *cache.Record, res sched.Result, dir scratch, stable bool) sched.Result {
	err := r.placeOutputs(a, rec, dir)
	switch {
	case err != nil:
	case !stable:
		r.Records.Remove(a.Outputs[0])
		if !a.Intermediate {
			res.Output = append(res.Output, []byte("kbuild: "+a.Name+": an input changed while it was being built; it will be built again next time\n")...)
		}
	default:
		if err = r.Records.Append(rec); err != nil {
			err = fmt.Errorf("recording the action: %w", err)
			break
		}
		r.share(ctx, a, rec)
	}
	if err != nil {
		res.Status, res.Err = sched.Failed, err
	}
	return res
}

// placeOutputs moves the files that a command wrote into place.
func (r *Runner) placeOutputs(a *graph.Action, rec *cache.Record, dir scratch) error {
	if a.Intermediate {
		return r.intermediates.publish(a, rec, dir)
	}
	for i, o := range rec.Outputs {
		if a.InPlace {
			r.tree.written(o.Path)
		} else if err := r.tree.place(dir.output(i, o.Path), o); err != nil {
			return err
		}
	}
	return nil
}

// share puts a record and its outputs into the store, if there is one. It does not share an output
// that contains the time.
func (r *Runner) share(ctx context.Context, a *graph.Action, rec *cache.Record) {
	store := r.storeOf(a)
	if store == nil || r.discovery.TellsTime(a, rec.Discovered) || discover.RunsEachTime(rec) != "" {
		return
	}
	if err := store.Put(ctx, rec, func(o cache.Output) string { return r.tree.abs(o.Path) }); err != nil && ctx.Err() == nil {
		r.warn(fmt.Sprintf("the cache cannot be written, building goes on without: %v", err))
	}
}
