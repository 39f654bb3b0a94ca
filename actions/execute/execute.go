package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// execute runs a. It retries once if an input's time is too recent to rule out a race: see
// stability.early. If local is not nil, a runs remotely first, and locally as well once local is
// closed.
func (r *Runner) execute(ctx context.Context, a *graph.Action, key actionKey, local <-chan struct{}) sched.Result {
	res, early := r.attempt(ctx, a, key, local, true)
	if early {
		// wait until files from before this kbuild are no longer too recent
		r.stability.clock.after(r.stability.begun.Add(cache.FileTick))
		res, _ = r.attempt(ctx, a, key, local, false)
	}
	return res
}

// attempt executes a once. If repeatable is set, early reports that the caller must retry: see
// stability.early.
func (r *Runner) attempt(ctx context.Context, a *graph.Action, key actionKey, local <-chan struct{}, repeatable bool) (res sched.Result, early bool) {
	dir, err := r.scratches.place(a)
	if err != nil {
		return failed(err), false
	}
	dir.local = local
	defer func() { dir.remove(res.Status == sched.Failed || early) }()
	if a.InPlace {
		if err := r.tree.clear(a); err != nil {
			return failed(err), false
		}
		if err := r.tree.empty(a.Work.Collect, true); err != nil {
			return failed(err), false
		}
	}
	rec, stable, res := r.produce(ctx, a, key, dir)
	if res.Status == sched.Failed {
		return res, false
	}
	if repeatable && !stable && r.stability.early(rec.Made) {
		return res, true
	}
	r.provenance.settled(a, rec)
	return r.publish(ctx, a, rec, res, dir, stable), false
}

// produce performs a in dir, or in place, and builds its record. stable is false if an input
// changed during the run.
func (r *Runner) produce(ctx context.Context, a *graph.Action, key actionKey, dir scratch) (rec *cache.Record, stable bool, res sched.Result) {
	start := r.stability.start(a)
	before := r.generated.beside(a)
	res, functions := r.perform(ctx, a, dir)
	err := r.takeDepfile(a, res, dir)
	if err == nil {
		err = r.collect(a, res)
	}
	if err == nil && a.Work.Collect == nil {
		err = r.generated.onlyOutputs(a, before)
	}
	if err == nil && res.Status != sched.Failed {
		err = lostCode(r.Root, a, dir)
		if err == nil {
			err = r.checkOwnVariables(ctx, a, dir)
		}
		if err == nil {
			rec, stable, err = r.record(ctx, a, key, len(res.Output) > 0, dir, start)
		}
	}
	if res.Status == sched.Failed {
		return nil, false, res
	}
	if err != nil {
		res.Status, res.Err = sched.Failed, err
		return nil, false, res
	}
	rec.Text, rec.Functions = string(res.Output), functions
	if stable {
		rec.Forms = r.discovery.NormalForms(a, rec)
	}
	rec.Elapsed, rec.CPU, rec.MaxRSS = res.Elapsed, res.CPU, res.MaxRSS
	return rec, stable, res
}

// perform does the work of an action. functions are those that ptxas reported.
func (r *Runner) perform(ctx context.Context, a *graph.Action, dir scratch) (res sched.Result, functions []cache.Function) {
	if s := r.keys.steps[a.Kind]; s != nil {
		err := r.intermediates.materialize(ctx, a, a.Argv)
		if err == nil {
			err = s.run(work{a, r.Root, dir})
		}
		if err != nil {
			return failed(err), nil
		}
		return sched.Result{Status: sched.Ran}, nil
	}
	res, functions = r.command(ctx, a, a.Argv, dir)
	if a.Step().Gate && res.Status != sched.Failed {
		if err := copyFile(r.tree.abs(a.Inputs[0]), dir.output(0, a.Outputs[0])); err != nil {
			return failed(err), nil
		}
	}
	if a.Kind == graph.Test && res.Status != sched.Failed {
		if err := os.WriteFile(dir.output(0, a.Outputs[0]), res.Output, 0o666); err != nil {
			return failed(err), nil
		}
		res.Output = nil // a test that passes prints nothing
	}
	var e *ended
	if a.Step().DiagnosticArgv == nil || len(res.Output) == 0 && res.Status != sched.Failed || errors.As(res.Err, &e) || errors.Is(res.Err, ErrLost) {
		return res, functions
	}
	return r.performAgain(ctx, a, res, dir)
}

// performAgain runs an action that printed something again, on the text with the true line numbers.
// The outputs stay those of the canonical text, which is the same wherever the lines are. They are
// replaced only if the first run failed and the second succeeded.
func (r *Runner) performAgain(ctx context.Context, a *graph.Action, res sched.Result, dir scratch) (sched.Result, []cache.Function) {
	second := dir.again()
	if err := second.makeFolders(a); err != nil {
		return failed(err), nil
	}
	again, functions := r.command(ctx, a, a.Step().DiagnosticArgv, second)
	if res.Status == sched.Failed && again.Status != sched.Failed {
		for i, o := range a.Outputs {
			if err := os.Rename(second.output(i, o), dir.output(i, o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return failed(err), nil
			}
		}
	}
	again.CPU += res.CPU
	again.Elapsed += res.Elapsed
	return again, functions
}

// record builds the record of what the command wrote and read. said reports whether the command
// printed something. stable is false if an input changed during the run: then the outputs are used
// but not recorded.
func (r *Runner) record(ctx context.Context, a *graph.Action, key actionKey, printed bool, dir scratch, start cache.Moment) (rec *cache.Record, stable bool, err error) {
	if k := a.Work.Keep; k != nil {
		for i, kept := range k.Files {
			if err := os.Rename(filepath.Join(dir.file("keep"), kept), dir.output(i, a.Outputs[i])); err != nil {
				return nil, false, fmt.Errorf("the command ended well and did not leave %s: %w", kept, err)
			}
		}
	}
	if d := a.Step().DepfileOutput; d != "" {
		if err := copyFile(dir.depfile(), dir.output(slices.Index(a.Outputs, d), d)); err != nil {
			return nil, false, fmt.Errorf("the command ended well and did not write its dependency file: %w", err)
		}
	}
	if err := r.takeTraces(a, dir); err != nil {
		return nil, false, err
	}
	texts, err := r.canonical.of(a, dir)
	if err != nil {
		return nil, false, fmt.Errorf("the command ended well and did not write its output: %w", err)
	}
	rec = &cache.Record{Command: key.key, Fields: r.keys.fields(a, key), Made: start.Time}
	for i, o := range a.Outputs {
		out, ok := texts.outputs[o]
		if !ok {
			if out, err = digestOutput(r.outputFile(a, i, dir), o); err != nil {
				return nil, false, fmt.Errorf("the command ended well and did not write %s: %w", o, err)
			}
		}
		rec.Outputs = append(rec.Outputs, out)
	}
	stable = r.stability.inputs(a, key.inputs, start)
	found, err := r.discovery.Find(ctx, discover.Ran{
		Action: a, Depfile: dir.depfile(), Trace: dir.traceFile(), Scratch: dir.file("expanded"), Folders: []string{dir.tmp, dir.dir}, Staged: dir.rel,
		Changed: func(file string, was cache.Digest) bool { return !r.Files.Unchanged(file, was, start) },
	}, rec)
	if err == nil {
		err = r.generated.undeclared(a, rec.Discovered)
	}
	for _, f := range texts.incbins {
		discover.Add(rec, f)
	}
	rec.Discovered = append(rec.Discovered, r.discovery.Conditions(a, rec.Discovered, texts.used, printed)...)
	return rec, stable && found, err
}

// takeTraces moves the time traces of clang's passes to the last outputs of a: one for the host and
// one for each architecture. clang writes the host trace beside the object, if it writes the
// object. It writes the others among its temporary files, under random names. No option sets these
// paths, so another version of clang may use other ones. A missing trace does not fail the compile:
// its output is an empty trace.
func (r *Runner) takeTraces(a *graph.Action, dir scratch) error {
	if slices.Contains(a.Tools, "nvcc") || a.Kind != graph.Compile || !toolchain.IsTimeTrace(a, a.Outputs[len(a.Outputs)-1]) {
		return nil
	}
	patterns := []string{"*.json"}
	for _, arch := range a.Archs {
		patterns = append(patterns, "*/*-"+arch+".json")
	}
	for i, output := range a.Outputs[len(a.Outputs)-len(patterns):] {
		file := r.tree.abs(output)
		if _, err := os.Lstat(file); err == nil {
			continue
		}
		text := []byte(`{"traceEvents":[]}`)
		left, _ := fs.Glob(os.DirFS(dir.tmp), patterns[i])
		if len(left) > 0 {
			var err error
			if text, err = regular.Read(filepath.Join(dir.tmp, left[0])); err != nil {
				return err
			}
		}
		if err := os.WriteFile(file, text, 0o666); err != nil {
			return err
		}
		r.tree.written(output)
	}
	return nil
}

// outputFile returns the file that the command of a writes output i to.
func (r *Runner) outputFile(a *graph.Action, i int, dir scratch) string {
	if a.InPlace {
		return r.tree.abs(a.Outputs[i])
	}
	return dir.output(i, a.Outputs[i])
}
