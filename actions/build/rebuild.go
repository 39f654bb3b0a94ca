package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Rebuild implements sched.Runner. It brings a build tree up to date as Runner does, and runs each action again, beside the
// tree: what comes out must have the bytes that the record says. A difference means that the command does not always make the
// same of its inputs, or that it has an input that no key knows of. The tree stays as it was built.
type Rebuild struct {
	r    *Runner
	kept string // folder for outputs that differ

	mu      sync.Mutex
	checked int
	differ  []Difference
}

// Difference is an action that made something else of the same key.
type Difference struct {
	Action  *graph.Action
	Outputs []string // that differ, as the action names them
	Kept    []string // where those of the second run are
	Read    []string // what the second run read and the record does not know, or knows with other content
}

// NewRebuild wraps r. Outputs that differ are kept in a folder.
func NewRebuild(r *Runner, folder string) *Rebuild { return &Rebuild{r: r, kept: folder} }

// Checked is how many actions were run again so far, and Differences are those that made something else.
func (v *Rebuild) Checked() (int, []Difference) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.checked, slices.Clone(v.differ)
}

// Check implements sched.Runner: every action runs.
func (v *Rebuild) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	res, settled := v.r.check(ctx, a)
	if settled && res.Status == sched.Failed {
		return res, true
	}
	return sched.Result{Reason: "to compare"}, false
}

// Execute implements sched.Runner.
func (v *Rebuild) Execute(ctx context.Context, a *graph.Action) (res sched.Result) {
	v.r.mu.Lock()
	_, missing := v.r.pending[a.ID]
	v.r.mu.Unlock()
	defer func() {
		if !res.Short {
			v.r.done(a) // once: it counts who may still read the files of parts
		}
	}()
	if missing {
		if res := v.r.executeChecked(ctx, a); res.Status == sched.Failed {
			return res
		}
	}
	return v.again(ctx, a)
}

// again runs a settled action and compares.
func (v *Rebuild) again(ctx context.Context, a *graph.Action) sched.Result {
	p, err := v.r.key(a)
	if err != nil {
		return failed(err)
	}
	first := v.r.recorded(a, p.key)
	if first == nil { // an input changed while it was built
		return sched.Result{Status: sched.Ran}
	}
	dir, err := v.r.newScratch(a)
	if err != nil {
		return failed(err)
	}
	if dir.name != "" {
		dir.remove(true) // what the first run left
	}
	defer dir.remove(true)
	back, err := v.r.setAside(a, dir)
	if err != nil {
		return failed(err)
	}
	rec, stable, res := v.r.produce(ctx, a, p, dir)
	if res.Status != sched.Failed {
		v.compare(a, first, rec, dir)
		if a.Part && stable && sameContent(first, rec) { // what comes after it may want to read it
			res = v.r.keepPart(ctx, a, rec, res, dir, stable)
		}
	}
	if err := back(); err != nil {
		return failed(err)
	}
	return res
}

// setAside moves what a command that writes its outputs itself has written, and gives back what brings it back.
func (r *Runner) setAside(a *graph.Action, dir scratch) (back func() error, err error) {
	if !a.InPlace {
		return func() error { return nil }, nil
	}
	was := func(i int) string { return dir.file(fmt.Sprintf("was-%d", i)) }
	moved := 0
	back = func() error {
		for i, o := range a.Outputs[:moved] {
			if err := os.Rename(was(i), r.abs(o)); err != nil {
				return fmt.Errorf("bringing %s back: %w", o, err)
			}
			r.written(o)
		}
		return nil
	}
	for i, o := range a.Outputs {
		if err := os.Rename(r.abs(o), was(i)); err != nil {
			return nil, errors.Join(fmt.Errorf("setting the old %s aside: %w", o, err), back())
		}
		moved++
		r.written(o)
	}
	return back, nil
}

func sameContent(a, b *cache.Record) bool {
	return slices.EqualFunc(a.Outputs, b.Outputs, func(a, b cache.Output) bool { return a.Digest == b.Digest && a.Exec == b.Exec })
}

// compare holds a second record against the first, and keeps what is different.
func (v *Rebuild) compare(a *graph.Action, first, second *cache.Record, dir scratch) {
	d := Difference{Action: a, Read: newlyRead(first, second)}
	for i, o := range second.Outputs {
		if was := first.Outputs[i]; o.Digest == was.Digest && o.Exec == was.Exec {
			continue
		}
		file := v.r.abs(o.Path)
		if !a.InPlace {
			file = dir.output(i, o.Path)
		}
		kept := filepath.Join(v.kept, strings.TrimPrefix(o.Path, v.r.Graph.BuildDir+"/"))
		d.Outputs = append(d.Outputs, o.Path)
		if os.MkdirAll(filepath.Dir(kept), 0o777) == nil && copyFile(file, kept) == nil {
			d.Kept = append(d.Kept, kept)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked++
	if len(d.Outputs)+len(d.Read) > 0 {
		v.differ = append(v.differ, d)
	}
}

// newlyRead are the files that the second run read, and the first did not, or not with this content.
func newlyRead(first, second *cache.Record) []string {
	known := map[string]cache.Digest{}
	for _, f := range first.Discovered {
		known[f.Path] = f.Digest
	}
	var out []string
	for _, f := range second.Discovered {
		if d, ok := known[f.Path]; !ok || d != f.Digest {
			out = append(out, f.Path)
		}
	}
	return out
}
