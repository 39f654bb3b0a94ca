package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph"
)

// A build of a part of a plan is for a few edits among very many files. The view shows which files
// changed. The stored plan shows which actions use them, and which actions depend on those. Only
// that part is checked, since no other action has a changed input.
//
// This works for files that actions use. A new plan is needed if a file appeared in a folder that
// compilers search, or if a source is gone. It is also needed if a manifest, a folder that glob
// read, a tool or anything else changed.

// most is the share of the graph, one in so many, above which a new plan takes no longer.
const most = 4

// moves is how many actions may have run since the graph was packed. They may use other files
// since.
const moves = 256

// packedMeta is the data of a packed graph besides its actions.
type packedMeta struct {
	Tools    map[string]string
	Plain    map[string]bool
	Pools    map[string]int
	BuildDir string
	Searched []string // folders that compilers search
}

// shadows reports whether a file at path may be read in place of any header.
func (m *packedMeta) shadows(path string) bool {
	return strings.HasSuffix(path, ".gch") || slices.ContainsFunc(m.Searched, func(dir string) bool {
		return strings.HasPrefix(path, dir+"/") || dir == "." && !filepath.IsAbs(path)
	})
}

// writePlan stores the graph of a build, so that later builds can run parts of it.
func (b *build) writePlan(p *Project, t *Tree, closure []graph.ActionID) error {
	meta := packedMeta{Tools: t.Runner.Tools, Plain: t.Runner.Plain, Pools: p.Graph.Pools, BuildDir: p.Graph.BuildDir}
	packer := p.Graph.Packer(closure)
	for _, d := range t.runner.Uses(closure, packer) {
		meta.Searched = append(meta.Searched, cache.Canonical(p.Root, d))
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	packed, err := packer.Pack(text)
	if err != nil {
		return err
	}
	return t.db.SetPlan(*b.viewKey, packed)
}

// partialPlan is the part of a stored plan that changes affect, as a graph of its own.
type partialPlan struct {
	*lastView
	packed *graph.Packed
	meta   packedMeta
	graph  *graph.Graph
	want   []graph.ActionID
	all    []graph.ActionID // number in the packed graph, by number in graph
}

// partialPlan returns the part of the last plan that changes affect, or nil if a new plan is
// needed. t is the locked tree. It takes over the database of the view, if no other process has
// built since.
func (v *lastView) partialPlan(t *Tree) *partialPlan {
	if v == nil || t == nil || t.lock.Was() != v.was {
		v.close()
		return nil
	}
	t.db = v.db
	packed, err := graph.Unpack(v.seen.Plan())
	if err != nil {
		return nil
	}
	p := &partialPlan{lastView: v, packed: packed}
	if json.Unmarshal(packed.Meta(), &p.meta) != nil || !p.choose() {
		return nil
	}
	return p
}

// choose selects the actions to check, and those that depend on them. ok is false if they are most
// of the graph, or if the plan may have changed.
func (p *partialPlan) choose() (ok bool) {
	ids, ok := p.affected()
	if !ok {
		return false
	}
	up, all := p.packed.Affected(ids)
	if len(all) > p.packed.Len()/most && p.packed.Len() > 4*most || len(p.Moved)+len(up) > moves {
		return false
	}
	p.all = all
	p.graph = &graph.Graph{Pools: p.meta.Pools, BuildDir: p.meta.BuildDir}
	for _, id := range all {
		a := p.graph.Add(p.packed.Action(id))
		if _, ok := slices.BinarySearch(up, id); ok {
			if a.Work.Collect != nil {
				return false // it may need another plan
			}
			p.want = append(p.want, a.ID)
		}
	}
	return p.graph.Seal() == nil
}

// affected returns the actions to check. ok is false if the plan may have changed.
func (p *partialPlan) affected() (ids []graph.ActionID, ok bool) {
	ids = slices.Concat(p.Dirty, p.Moved)
	for _, i := range p.broken {
		o := p.seen.At(i)
		if o.Plan {
			return nil, false
		}
		for _, path := range p.seen.Broken(p.root, i) {
			users := p.packed.Users(path)
			maker, made := p.packed.Producer(path)
			if made {
				users = append(users, maker)
			}
			if o.Kind != cache.KindFile && p.meta.shadows(path) {
				return nil, false
			}
			gone := o.Kind == cache.KindFile && !exists(cache.Absolute(p.root, path))
			if len(users) == 0 || gone && !made {
				return nil, false
			}
			ids = append(ids, users...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// open opens the locked build tree for the part.
func (p *partialPlan) open(t *Tree) error {
	return t.open(p.Cache, execute.Config{Graph: p.graph, Outer: p.packed, Root: p.root, Tools: p.meta.Tools, Plain: p.meta.Plain})
}

// commit updates the view after the part was built.
func (p *partialPlan) commit(t *Tree, dirty []graph.ActionID) {
	n, s := p.note, p.seen
	n.Dirty = nil
	var good []graph.ActionID
	for sub, id := range p.all {
		if sub := graph.ActionID(sub); slices.Contains(dirty, sub) {
			n.Dirty = append(n.Dirty, id)
		} else {
			good = append(good, sub)
			n.Moved = append(n.Moved, id) // also if up to date: its record may be of another command line
		}
	}
	slices.Sort(n.Moved)
	n.Moved = slices.Compact(n.Moved)
	o := newObserver(p.root, p.began, t.files)
	observeActions(o, p.graph, good, t)
	list, ok := o.List()
	if !ok {
		return
	}
	for k := range list {
		i, ok := s.Find(list[k].Path)
		if !ok {
			continue
		}
		old, was := s.At(i), slices.Contains(p.broken, i)
		_, made := p.graph.Producer(old.Path)
		switch now := &list[k]; {
		case old.Kind != cache.KindFile || now.Kind != old.Kind:
		case now.Digest.IsZero() && !now.ByStat && now.Stat == old.Stat:
			now.Digest = old.Digest // the part knows it by stat only, the plan by content
		case now.Digest != old.Digest && !was && !made:
			return // it changed during the build, and other actions that read it were not checked
		}
		trace.Supersede(p.root, &list[k], old, was)
	}
	for i, st := range p.fresh {
		old := s.At(i)
		if !o.Has(old.Path) {
			old.Stat = st
			list = append(list, old)
		}
	}
	if text, err := json.Marshal(n); err == nil {
		s.Update(text, list) // if this fails, the next build finds the same changes again
	}
}
