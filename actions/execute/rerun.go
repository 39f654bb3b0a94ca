package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// Rerun is a second run of an action beside the build tree, which keeps the first outputs. Its
// files exist until Close.
type Rerun struct {
	Action        *graph.Action
	First, Second *cache.Record

	r     *Runner
	dir   scratch
	moved int // how many outputs of an in-place command were set aside
}

// ExpectReruns prepares for a Rerun of each action after its Check or Execute: the files between
// passes stay until then. It is called before the first Check.
func (r *Runner) ExpectReruns() { r.intermediates.runs = 2 }

// Rerun runs an up-to-date action again. The Rerun is nil if the second run failed, or if there is
// no first one to compare it with because an input changed while it ran. traced runs the commands
// under strace.
func (r *Runner) Rerun(ctx context.Context, a *graph.Action, traced bool) (*Rerun, sched.Result) {
	defer r.intermediates.release(a)
	key, err := r.keys.of(a)
	if err != nil {
		return nil, failed(err)
	}
	first := r.Records.Last(a.Outputs[0])
	if first == nil || first.Command != key.key {
		return nil, sched.Result{Status: sched.Ran}
	}
	dir, err := r.scratches.place(a)
	if err != nil {
		return nil, failed(err)
	}
	if dir.name != "" {
		dir.remove(true) // the files of the first run
	}
	dir.traced = traced
	again := &Rerun{Action: a, First: first, r: r, dir: dir}
	if err := again.setAside(); err != nil {
		return nil, failed(errors.Join(err, again.Close()))
	}
	rec, stable, res := r.attempt(ctx, a, key, dir)
	if res.Status != sched.Failed && a.Intermediate && stable && sameContent(first, rec) {
		// a later action may read it
		res = r.publish(ctx, a, rec, res, dir, stable)
	}
	if res.Status == sched.Failed {
		if err := again.Close(); err != nil {
			res.Err = err
		}
		return nil, res
	}
	again.Second = rec
	return again, res
}

// RunsEachTime reports whether the record need not cover what the command reads.
func (again *Rerun) RunsEachTime() bool { return discover.RunsEachTime(again.First) != "" }

func sameContent(a, b *cache.Record) bool {
	return slices.EqualFunc(a.Outputs, b.Outputs, func(a, b cache.Output) bool {
		return a.Digest == b.Digest && a.Exec == b.Exec
	})
}

// setAside moves the outputs of an in-place command to its scratch folder.
func (again *Rerun) setAside() error {
	if !again.Action.InPlace {
		return nil
	}
	for i, o := range again.Action.Outputs {
		if err := os.Rename(again.r.abs(o), again.aside(i)); err != nil {
			return fmt.Errorf("setting the old %s aside: %w", o, err)
		}
		again.moved++
		again.r.Forget(o)
	}
	return nil
}

func (again *Rerun) aside(i int) string { return again.dir.file(fmt.Sprintf("was-%d", i)) }

// Close moves the first outputs of an in-place command back, and removes the files of the second
// run.
func (again *Rerun) Close() error {
	defer again.dir.remove(true)
	for _, log := range again.Logs() {
		os.Remove(log.File)
	}
	for i, o := range again.Action.Outputs[:again.moved] {
		if err := os.Rename(again.aside(i), again.r.abs(o)); err != nil {
			return fmt.Errorf("bringing %s back: %w", o, err)
		}
		again.r.Forget(o)
	}
	return nil
}

// CopyOutput copies output i of the second run to the file name.
func (again *Rerun) CopyOutput(i int, name string) error {
	return regular.Copy(again.r.outputFile(again.Action, i, again.dir), name)
}

// Log holds the output of strace about a command that ran in a folder.
type Log struct{ File, Dir string }

// Logs returns the logs of the action's commands. A command that did not run has no file.
func (again *Rerun) Logs() (logs []Log) {
	for _, d := range []scratch{again.dir, again.dir.again()} {
		logs = append(logs, Log{d.file(straceFile), d.cwd(again.r.Root, again.Action)})
	}
	return logs
}

// Own returns the folders and prefixes of names that only this run uses, and the paths that lead to
// them.
func (again *Rerun) Own() (own, via []string) {
	dir, short := again.dir, again.r.scratches.short
	own = []string{again.r.abs(filepath.Join(dir.dir, dir.name))}
	if short != "" {
		own, via = append(own, filepath.Dir(short)), []string{short, dir.tmp}
	}
	return own, via
}

// Known returns the paths that the record of the action covers.
func (again *Rerun) Known() (known []string) {
	r, a := again.r, again.Action
	known = slices.Concat(r.discovery.Uses(r.lastRecord(a)), a.Pass().UnkeyedPaths,
		[]string{a.Link().HostRefs})
	if rec := r.Records.Last(a.Outputs[0]); rec != nil {
		known = append(append(known, r.discovery.Shadows(rec)...), rec.Passed...)
	}
	for _, s := range a.Pass().Staged {
		known = append(known, s.From)
	}
	known = slices.DeleteFunc(known, func(p string) bool { return p == "" })
	for i, p := range known {
		known[i] = r.abs(p)
	}
	return known
}
