package engine

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// commit stores a view: what the build of a plan observed, and the plan. The next build checks the
// dirty actions again. ok is false if the observations may not be what the plan or an action read.
// Then there is no view.
func (v *view) commit(p *Project, t *Tree, closure, dirty []graph.ActionID) (ok bool) {
	tools, known := probe.Observed(p.request, p.Facts)
	gpus := ""
	if p.request.NeedNative || slices.ContainsFunc(closure, func(id graph.ActionID) bool { return p.Graph.Actions[id].Test().GPU }) {
		gpus = probe.GPUs("/", os.Getenv)
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
	// first, since it needs much memory, which is free again before the observations are collected
	plan, err := v.writePlan(p, t, closure)
	if err != nil {
		return false
	}
	t.giveBack()
	good, packed := split(closure, dirty)
	o := newObserver(v, t)
	o.tree(p.Graph, good, t)
	o.plan(p, tools)
	if o.unsure {
		return false
	}
	n := note{actions: len(closure), dirty: packed, gpus: gpus, cpu: cpu, misparses: string(t.db.Text(misparsesText)), whole: strings.Join(p.Fallbacks(closure), "\n"), cache: p.Cache}
	if len(p.w.diagnosed) > 0 {
		text, err := json.Marshal(p.w.diagnosed)
		if err != nil {
			return false
		}
		n.printed = string(text)
	}
	t.giveBack()
	return t.db.SetView(v.key, n.encode(), plan, o.list) == nil
}

// commitFiles stores the digests of the files that a build read. It is for a build that stores no
// view for its command line.
func commitFiles(p *Project, t *Tree) {
	o := newObserver(&view{root: p.Root, began: p.w.Begun}, t)
	o.files(t)
	t.db.SetView([32]byte{}, nil, nil, o.list)
}

// plan adds all that a plan was made from.
func (l *observer) plan(p *Project, tools []cache.Observation) {
	l.planning = true
	for _, name := range p.Files {
		l.known(name, sha256.Sum256(p.Text(name)))
	}
	for _, o := range p.Observed {
		if _, seen := l.seen[cache.Canonical(l.v.root, o.Path)]; !seen || o.Kind != cache.KindFile {
			l.observe(p, o)
		}
	}
	for _, o := range tools {
		l.observe(p, o)
	}
	switch file, text := p.steps.Remembered(); {
	case text != nil:
		l.known(file, sha256.Sum256(text))
	case file != "":
		l.absent(file)
	}
	// another plan that removed outputs of this one wrote another list
	l.known(p.listFile, p.listDigest)
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

// observer collects observations, one for each path.
type observer struct {
	v      *view
	list   []cache.Observation
	seen   map[string]int // index in list, by path
	unsure bool           // the observations may not be what the build has read

	planning bool // the observations added now belong to the plan
}

// newObserver reserves room for the files whose digests were queried, and some more: a list that
// grows leaves as much garbage.
func newObserver(v *view, t *Tree) *observer {
	n := 0
	t.files.Seen(func(string, *cache.Hashed) { n++ })
	n += n/16 + 64
	return &observer{v: v, list: make([]cache.Observation, 0, n), seen: make(map[string]int, n)}
}

// tree adds all that the actions of ids observed and wrote.
func (l *observer) tree(g *graph.Graph, ids []graph.ActionID, t *Tree) {
	observed, ok := t.Runner.Observed(ids)
	l.unsure = l.unsure || !ok
	for _, id := range ids {
		if a := g.Actions[id]; !a.Intermediate {
			l.made(a, t.db)
		}
	}
	l.files(t)
	for _, o := range observed {
		l.observe(nil, o)
	}
}

// files adds the files that were read.
func (l *observer) files(t *Tree) {
	t.files.Seen(func(path string, h *cache.Hashed) {
		if h != nil {
			l.add(cache.Observation{Path: path, Kind: cache.KindFile, Stat: h.Stat, Digest: h.Digest, Seen: h.At})
		}
	})
}

// merge merges an older entry of the same path into entry k. broken reports that the older one is
// no longer valid.
func (l *observer) merge(k int, old cache.Observation, broken bool) {
	e := &l.list[k]
	e.Plan = e.Plan || old.Plan
	switch {
	case old.Kind == cache.KindFolder && e.Kind == cache.KindGuard:
		*e = old
	case old.Kind == cache.KindGuard && e.Kind == cache.KindGuard:
		for _, name := range old.Absent {
			if broken && exists(l.abs(filepath.Join(e.Path, name))) {
				continue // it appeared, and the actions that would read it have been checked
			}
			e.Absent = append(e.Absent, name)
		}
		slices.Sort(e.Absent)
		e.Absent = slices.Compact(e.Absent)
	case old.Kind == cache.KindFile && e.Kind == cache.KindFile && old.Digest == cache.Digest{}:
		e.Digest = cache.Digest{} // for another action its content was not enough, and is not now
	}
}

// made adds the outputs of an action from its record. An output that was digested has a better
// entry.
func (l *observer) made(a *graph.Action, db *tree.DB) {
	rec := db.LastRun(a.Outputs[0])
	if rec == nil {
		l.unsure = true // not recorded, since an input changed during the run
		return
	}
	for _, o := range rec.Outputs {
		mode := uint32(sIFREG | 0o644)
		if o.Exec {
			mode |= 0o111
		}
		l.add(cache.Observation{Path: o.Path, Kind: cache.KindFile, Digest: o.Digest, Output: true, Young: true, Stat: cache.Stat{Mode: mode}})
	}
}

// add adds an entry, or merges it into the entry of the same path.
func (l *observer) add(e cache.Observation) {
	e.Path = cache.Canonical(l.v.root, e.Path)
	e.Plan = e.Plan || l.planning
	if e.Kind != cache.KindAbsent && e.Stat.Ino != 0 && !e.Stat.Before(l.v.began) {
		// it has no content to compare
		l.unsure = l.unsure || e.Digest == cache.Digest{} && e.Kind != cache.KindGuard
		e.Young = true
	}
	if !e.Young {
		e.Seen = 0
	}
	i, ok := l.seen[e.Path]
	if !ok {
		l.seen[e.Path] = len(l.list)
		l.list = append(l.list, e)
		return
	}
	old := &l.list[i]
	old.Plan = old.Plan || e.Plan
	switch {
	case old.Kind == cache.KindFile && e.Kind == cache.KindFile:
		l.unsure = l.unsure || old.Digest != e.Digest && old.Digest != cache.Digest{} && e.Digest != cache.Digest{}
		if old.Young && !e.Young || old.Stat.Ino == 0 {
			old.Stat, old.Young, old.Seen = e.Stat, e.Young, e.Seen
		}
		if old.Digest == (cache.Digest{}) {
			old.Digest = e.Digest
		}
		if old.ByStat = old.ByStat || e.ByStat; old.ByStat {
			l.unsure = l.unsure || e.Stat.Ino != 0 && e.Stat != old.Stat
			old.Digest = cache.Digest{}
		}
		old.Output = old.Output || e.Output
	case old.Kind == e.Kind, old.Kind == cache.KindFolder && e.Kind == cache.KindGuard:
		old.Absent = append(old.Absent, e.Absent...)
	case old.Kind == cache.KindGuard && e.Kind == cache.KindFolder:
		e.Plan = e.Plan || old.Plan
		*old = e // the list of all names covers those that must be absent
	default:
		l.unsure = true
	}
}

func (l *observer) abs(p string) string { return cache.Absolute(l.v.root, p) }

// present adds a path whose stat must stay as it is.
func (l *observer) present(p string) {
	st, err := cache.StatFile(l.abs(p))
	if err != nil {
		l.unsure = true
		return
	}
	kind := cache.KindFile
	if fs.FileMode(st.Mode)&sIFMT == sIFDIR {
		kind = cache.KindGuard
	}
	l.add(cache.Observation{Path: p, Kind: kind, Stat: st})
}

// known adds a file with the digest of the text that was read, even if the file has changed since.
func (l *observer) known(p string, digest cache.Digest) {
	st, err := cache.StatFile(l.abs(p))
	l.unsure = l.unsure || err != nil
	l.add(cache.Observation{Path: p, Kind: cache.KindFile, Stat: st, Digest: digest})
}

// observe adds what another package observed; p is the project if a folder was listed.
func (l *observer) observe(p *Project, o cache.Observation) {
	switch o.Kind {
	case cache.KindAbsent:
		l.absent(o.Path)
	case cache.KindFolder:
		l.names(p, o.Path)
	case cache.KindFile:
		if st, err := cache.StatFile(l.abs(o.Path)); o.ByStat && (err != nil || !st.Before(l.v.began)) {
			l.unsure = true // its time may have been another one when the command read it
		} else if o.ByStat {
			l.add(cache.Observation{Path: o.Path, Kind: o.Kind, Stat: st, ByStat: true})
			return
		}
		l.present(o.Path)
	default:
		l.present(o.Path)
	}
}

// names adds a folder that was listed, if it has the names that the plan was made from. The build
// tree, which appears in it in the first build, does not count.
func (l *observer) names(p *Project, name string) {
	st, err := cache.StatFile(l.abs(name))
	now, err2 := os.ReadDir(l.abs(name))
	again, err3 := cache.StatFile(l.abs(name))
	if errors.Join(err, err2, err3) != nil || again != st || namesBut(l.abs(name), l.v.state, now) != p.listed[name] {
		l.unsure = true
		return
	}
	l.add(cache.Observation{Path: name, Kind: cache.KindFolder, Stat: st, Digest: tree.NamesDigest(now)})
}

// namesBut digests the names in a folder, without the name that leads to the build tree. The files
// of the build tree are in state.
func namesBut(dir, state string, entries []fs.DirEntry) cache.Digest {
	if below, ok := strings.CutPrefix(state, filepath.Clean(dir)+"/"); ok {
		first, _, _ := strings.Cut(below, "/")
		entries = slices.DeleteFunc(slices.Clone(entries), func(e fs.DirEntry) bool { return e.Name() == first })
	}
	return tree.NamesDigest(entries)
}

// absent adds a path that must stay absent. A folder that did not change has no new names, so many
// such paths cost one stat.
func (l *observer) absent(p string) {
	if _, err := os.Lstat(l.abs(p)); err == nil {
		if _, err := os.Stat(l.abs(p)); err == nil {
			l.unsure = true
			return
		}
		// a dangling link: its target may appear in another folder
		l.add(cache.Observation{Path: p, Kind: cache.KindAbsent})
		return
	}
	dir, base := filepath.Split(p)
	st, err := cache.StatFile(l.abs(dir))
	switch {
	// behind a link, ".." is another folder than the path says
	case dir != "" && filepath.Clean(dir)+"/" != dir:
		l.add(cache.Observation{Path: p, Kind: cache.KindAbsent})
	case err == nil && fs.FileMode(st.Mode)&sIFMT == sIFDIR:
		l.add(cache.Observation{Path: filepath.Clean(dir), Kind: cache.KindGuard, Stat: st, Absent: []string{base}})
	case errors.Is(err, fs.ErrNotExist) && strings.Trim(dir, "./") != "" && !strings.Contains(dir, ".."):
		l.absent(filepath.Clean(dir)) // then all paths in it are absent, too
	default:
		l.add(cache.Observation{Path: p, Kind: cache.KindAbsent})
	}
}

// Types of files in Stat.Mode.
const (
	sIFMT  = 0o170000
	sIFREG = 0o100000
	sIFDIR = 0o040000
)
