package engine

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph"
)

// commit stores a view: what the build of a plan observed, and the plan. The next build checks the
// dirty actions again. ok is false if the observations may not be what the plan or an action read.
// Then there is no view.
func (b *build) commit(p *Project, t *Tree, closure, dirty []graph.ActionID) (ok bool) {
	if b.viewKey == nil {
		return false
	}
	known, gpus := p.hostSeen != nil, ""
	if p.request.NeedNative || slices.ContainsFunc(closure, func(id graph.ActionID) bool { return p.Graph.Actions[id].Test().GPU }) {
		gpus = probe.GPUs("/", b.env.Get)
		known = known && gpus != ""
	}
	cpu := ""
	if p.request.NativeCPU {
		cpu = probe.CPU("/")
	}
	if !known || slices.ContainsFunc(closure, func(id graph.ActionID) bool { return p.Graph.Actions[id].Test().Each }) {
		return false
	}
	for _, o := range p.Observed {
		if o.Kind == cache.KindFile {
			t.files.Digest(o.Path) // adds the file to those seen, unless it is a folder
		}
	}
	t.giveBack()
	good, packed := split(closure, dirty)
	o := newObserver(p.Root, b.began, t.files)
	observeActions(o, p.Graph, good, t)
	observePlan(o, p)
	list, ok := o.List()
	if !ok {
		return false
	}
	text, err := json.Marshal(note{Actions: len(closure), Dirty: packed, GPUs: gpus, CPU: cpu, Printed: p.printed,
		SplitFailures: string(t.db.Text(splitFailuresText)), Fallbacks: p.Fallbacks(closure), Cache: p.Cache})
	if err != nil {
		return false
	}
	t.giveBack()
	if t.db.SetView(*b.viewKey, text, list) != nil {
		return false
	}
	list, o = nil, nil // the plan needs as much memory
	t.giveBack()
	return b.writePlan(p, t, closure) == nil
}

// commitFiles stores the digests of the files that a build read. It is for a build that stores no
// view for its command line.
func (b *build) commitFiles(t *Tree) {
	o := newObserver(t.Runner.Root, b.began, t.files)
	o.Files(t.files)
	list, _ := o.List()
	t.db.SetView([32]byte{}, nil, list)
}

// observePlan adds all that a plan was made from.
func observePlan(l *trace.Observer, p *Project) {
	l.ForPlan = true
	for _, name := range p.Files {
		l.Text(name, sha256.Sum256(p.Text(name)))
	}
	for _, o := range p.Observed {
		switch {
		case o.Kind == cache.KindFolder:
			l.Folder(o.Path, p.listed[o.Path], p.w.StateDir())
		case o.Kind != cache.KindFile || !l.Has(o.Path):
			l.Observe(o)
		}
	}
	answers, ok := p.steps.Observed()
	if !ok {
		l.Doubt()
	}
	for _, o := range slices.Concat(p.hostSeen, answers) {
		l.Observe(o)
	}
	// another plan that removed outputs of this one wrote another list
	l.Text(p.listFile, p.listDigest)
}

// split splits ids into those that are not dirty, and the others. The others are returned by their
// index in ids, which is their number in the packed graph.
func split(ids, dirty []graph.ActionID) (good, packed []graph.ActionID) {
	is := map[graph.ActionID]bool{}
	for _, id := range dirty {
		is[id] = true
	}
	for i, id := range ids {
		if is[id] {
			packed = append(packed, graph.ActionID(i))
		} else {
			good = append(good, id)
		}
	}
	return good, packed
}

// newObserver returns an Observer with room for the files whose digests were queried, and some
// more.
func newObserver(root string, began time.Time, files *cache.Files) *trace.Observer {
	n := 0
	files.Seen(func(string, *cache.Hashed) { n++ })
	return trace.NewObserver(root, began, n+n/16+64)
}

// Observed returns all paths that the actions of r's graph observed, and others that the plan
// depends on. It is for a caller that keeps them without a build tree. began is when the first of
// them was observed. ok is false if they may not be what the actions have read.
func Observed(r *execute.Runner, others []cache.Observation, began time.Time) (
	list []cache.Observation, ok bool,
) {
	o := newObserver(r.Root, began, r.Files)
	var ids []graph.ActionID
	for _, a := range r.Graph.Actions {
		ids = append(ids, a.ID)
	}
	observed, ok := r.Observed(ids)
	o.Files(r.Files)
	for _, e := range append(observed, others...) {
		o.Observe(e)
	}
	list, sure := o.List()
	return list, ok && sure
}

// observeActions adds all that the actions of ids observed and wrote.
func observeActions(l *trace.Observer, g *graph.Graph, ids []graph.ActionID, t *Tree) {
	observed, ok := t.runner.Observed(ids)
	if !ok {
		l.Doubt()
	}
	for _, id := range ids {
		a := g.Actions[id]
		if a.Intermediate {
			continue
		}
		rec := t.db.LastRun(a.Outputs[0])
		if rec == nil {
			l.Doubt() // not recorded, since an input changed during the run
			continue
		}
		for _, o := range rec.Outputs {
			l.Output(o)
		}
	}
	l.Files(t.files)
	for _, o := range observed {
		l.Observe(o)
	}
}
