package engine

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/snapshot"
	"github.com/kbuild-dev/kbuild/graph"
)

// A partial build is for a few edits among very many files: the snapshot says which files changed, the packed graph which
// actions use them and what needs those, and only that part of the graph is looked at. It is as the long way would be, since
// no other action has anything new to look at.
//
// It is for files that actions use. When a file came to a folder that compilers search, a manifest, a folder that glob read, a tool, a file that is gone or anything else
// is not as it was, a plan must be made, and the build goes the long way.

const graphSuffix = "-graph"

// most is the share of the graph, one in so many, above which the long way is no longer.
const most = 4

// moves is how many actions may have been run since the graph was packed. They may use other files since.
const moves = 256

// packedMeta is what a packed graph keeps besides actions.
type packedMeta struct {
	Key      []byte
	Tools    map[string]string
	Pools    map[string]int
	BuildDir string
	Plan     []string // paths that the plan depends on
	Searched []string // folders that compilers search
}

// shadows reports a path at which a file may be read in place of any header.
func (m *packedMeta) shadows(path string) bool {
	return strings.HasSuffix(path, ".gch") || slices.ContainsFunc(m.Searched, func(dir string) bool {
		return strings.HasPrefix(path, dir+"/") || dir == "." && !filepath.IsAbs(path)
	})
}

// pack writes the graph of a build, and gives its sum.
func (q *quick) pack(p *Project, t *Tree, closure []graph.ActionID, tools []string) (sum uint32, err error) {
	var uses []graph.Use
	for _, id := range closure {
		for _, name := range t.Runner.Uses(p.Graph.Actions[id]) {
			uses = append(uses, graph.Use{Path: cache.Canonical(q.root, name), Action: id})
		}
	}
	meta := packedMeta{Key: q.key[:], Tools: t.Runner.Tools, Pools: p.Graph.Pools, BuildDir: p.Graph.BuildDir}
	for _, l := range p.Looks {
		if l.Missing || l.List {
			tools = append(tools, l.Path)
		}
	}
	file, _ := p.steps.Remembered()
	for _, name := range slices.Concat(tools, p.Files, []string{file}) {
		meta.Plan = append(meta.Plan, cache.Canonical(q.root, name))
	}
	for _, d := range t.Runner.Searched(closure) {
		meta.Searched = append(meta.Searched, cache.Canonical(q.root, d))
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return 0, err
	}
	data, err := p.Graph.Pack(closure, uses, text)
	if err != nil {
		return 0, err
	}
	return graph.Sum(data), cache.ReplaceFile(q.file+graphSuffix, data)
}

// partial builds what the broken entries of the snapshot affect. done is false if that takes the long way, or if the lock has had another
// holder than was since the snapshot was looked at.
func (q *quick) partial(w *Workspace, s *snapshot.Snapshot, n note, fresh map[int]cache.Stat, broken []int, was string) (sum sched.Summary, done bool, err error) {
	data, unmap, err := snapshot.Map(q.file + graphSuffix)
	if err != nil {
		return sum, false, nil
	}
	defer unmap()
	packed, err := graph.Unpack(data)
	if err != nil || graph.Sum(data) != n.graph {
		return sum, false, nil
	}
	var meta packedMeta
	if json.Unmarshal(packed.Meta(), &meta) != nil || string(meta.Key) != string(q.key[:]) {
		return sum, false, nil
	}
	ids, ok := q.affected(s, packed, meta, n, broken)
	if !ok {
		return sum, false, nil
	}
	up, all := packed.Affected(ids)
	if len(all) > packed.Len()/most && packed.Len() > 4*most || len(n.moved)+len(up) > moves {
		return sum, false, nil
	}
	p := &partialBuild{q: q, w: w, s: s, fresh: fresh, broken: broken, packed: packed, note: n, all: all, ended: map[graph.ActionID]sched.Status{},
		graph: &graph.Graph{Pools: meta.Pools, BuildDir: meta.BuildDir}}
	var want []graph.ActionID
	for _, id := range all {
		a := p.graph.Add(packed.Action(id))
		if _, ok := slices.BinarySearch(up, id); ok {
			want = append(want, a.ID)
		}
	}
	if err := p.graph.Seal(); err != nil {
		return sum, false, nil
	}
	lock, err := run.AcquireLock(context.Background(), filepath.Join(q.state, "lock"), nil)
	if err != nil {
		return sum, false, nil // who goes the long way waits
	}
	if lock.Was() != was || tidy(q.state) != nil {
		lock.Release()
		return sum, false, nil
	}
	return p.run(lock, want, meta.Tools)
}

// affected are the actions that must be looked at. ok is false where the plan may be another.
func (q *quick) affected(s *snapshot.Snapshot, packed *graph.Packed, meta packedMeta, n note, broken []int) (ids []graph.ActionID, ok bool) {
	ids = slices.Concat(n.dirty, n.moved)
	for _, i := range broken {
		for _, path := range s.Broken(q.root, i) {
			users := packed.Users(path)
			maker, made := packed.Producer(path)
			if made {
				users = append(users, maker)
			}
			if s.Entry(i).Kind != snapshot.File && meta.shadows(path) {
				return nil, false
			}
			gone := s.Entry(i).Kind == snapshot.File && !exists(cache.Absolute(q.root, path))
			if len(users) == 0 || slices.Contains(meta.Plan, path) || gone && !made {
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

// partialBuild is a run over a part of a graph. It notes how actions end.
type partialBuild struct {
	q      *quick
	w      *Workspace
	s      *snapshot.Snapshot
	fresh  map[int]cache.Stat // entries of s that are what they were, under another stat
	broken []int              // entries that are not
	packed *graph.Packed
	note   note
	graph  *graph.Graph
	all    []graph.ActionID // of the packed graph, by number in graph

	sched.Observer
	ended map[graph.ActionID]sched.Status // by number in graph
}

// Finished implements sched.Observer.
func (p *partialBuild) Finished(a *graph.Action, r sched.Result, done, total int) {
	p.ended[a.ID] = r.Status
	p.Observer.Finished(a, r, done, total)
}

// run builds, and saves what is known after it. done is false if nvcc turns out to have been taken apart wrongly.
func (p *partialBuild) run(lock *run.Lock, want []graph.ActionID, tools map[string]string) (sum sched.Summary, done bool, err error) {
	w := p.w
	p.note.tell(w)
	files := cache.OpenFiles("", p.q.root) // the memo of all files is large, and the snapshot has what is needed of it
	files.Base = func(path string) (cache.Stat, cache.Digest, bool) {
		i, ok := p.s.Find(path)
		if !ok {
			return cache.Stat{}, cache.Digest{}, false
		}
		e := p.s.Entry(i)
		return e.Stat, e.Digest, e.Kind == snapshot.File && e.Digest != cache.Digest{} && e.Stat.Ino != 0
	}
	t, err := w.openTree(lock, p.q.root, p.q.state, p.graph, tools, files, cache.OpenJournalByIndex)
	if err != nil {
		return sum, true, err
	}
	defer t.Close()
	t.Runner.Outer = p.packed
	r := w.Front.Begin(t, want)
	defer r.End()
	t.Runner.Warn = func(text string) { r.Note("warning", text) }
	p.Observer = r.Observer
	sum, err = sched.Run(r.Context, p.graph, want, r.Options, t.Runner, p)
	if rest := p.note.actions - sum.Actions; rest > 0 { // nothing that they look at has changed
		sum.Actions += rest
		sum.UpToDate += rest
	}
	r.Finish(sum)
	if len(t.Runner.Misread()) > 0 && r.Context.Err() == nil {
		return sum, false, nil // the long way finds it again, and tells who must know
	}
	if err == nil && !sum.Interrupted {
		p.save(t)
	}
	return sum, true, err
}

// save brings the snapshot up to what the build left.
func (p *partialBuild) save(t *Tree) {
	n, s := p.note, p.s
	n.dirty = nil
	moved := map[graph.ActionID]bool{}
	for _, id := range n.moved {
		moved[id] = true
	}
	var good []graph.ActionID
	for sub, id := range p.all {
		switch st, seen := p.ended[graph.ActionID(sub)]; {
		case !seen, st == sched.Failed, st == sched.Skipped:
			n.dirty = append(n.dirty, id)
		default:
			good = append(good, graph.ActionID(sub))
			moved[id] = true // also one that is up to date: the journal may know it from another command line
		}
	}
	n.moved = slices.Sorted(maps.Keys(moved))
	e := &looked{q: p.q, seen: map[string]int{}}
	e.tree(p.graph, good, t)
	if e.doubt {
		return
	}
	for k := range e.entries {
		i, ok := s.Find(e.entries[k].Path)
		if !ok {
			continue
		}
		old, was := s.Entry(i), slices.Contains(p.broken, i)
		_, made := p.graph.Producer(old.Path)
		if now := e.entries[k]; old.Kind == snapshot.File && now.Kind == old.Kind && now.Digest != old.Digest && !was && !made {
			return // it changed during the build, and others that read it have not been looked at
		}
		e.merge(k, old, was)
	}
	for i, st := range p.fresh {
		old := s.Entry(i)
		if _, ok := e.seen[old.Path]; !ok {
			old.Stat = st
			e.entries = append(e.entries, old)
		}
	}
	s.Update(p.q.file, n.encode(), e.entries) // without it the next build finds the same again
}
