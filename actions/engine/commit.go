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
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// commit leaves a view of what the build of a plan has looked at, and the plan. In the next build the dirty actions are looked at again.
// ok is false where what was observed may not be what the plan or an action was made of: there is no view then.
func (v *view) commit(p *Project, t *Tree, closure, dirty []graph.ActionID) (ok bool) {
	facts, absentTools, known := probe.Looked(p.request, p.Facts)
	gpus := ""
	if p.request.NeedNative {
		gpus = probe.GPUs("/", os.Getenv)
		known = known && gpus != ""
	}
	cpu := ""
	if p.request.NativeCPU {
		cpu = probe.CPU("/")
	}
	if !known {
		return false
	}
	for _, l := range p.Looks {
		if !l.List && !l.Missing {
			t.files.Digest(l.Path) // now it is among those seen, unless it is a folder
		}
	}
	plan, err := v.pack(p, t, closure) // first: what it takes to make is large, and free again before the observations are collected
	if err != nil {
		return false
	}
	good, packed := split(closure, dirty)
	e := newLooked(v, t)
	e.tree(p.Graph, good, t)
	e.plan(p, facts, absentTools)
	if e.doubt {
		return false
	}
	n := note{actions: len(closure), dirty: packed, gpus: gpus, cpu: cpu, doubts: string(t.db.Text(doubtsText)), whole: strings.Join(p.Fallbacks(closure), "\n")}
	if len(p.w.diagnosed) > 0 {
		text, err := json.Marshal(p.w.diagnosed)
		if err != nil {
			return false
		}
		n.said = string(text)
	}
	return t.db.SetView(v.key, n.encode(), plan, e.entries) == nil
}

// commitFiles leaves the digests of the files that a build has read, where it leaves no view that builds with its command line could start from.
func commitFiles(p *Project, t *Tree) {
	l := newLooked(&view{root: p.Root, began: p.w.Begun}, t)
	l.files(t)
	t.db.SetView([32]byte{}, nil, nil, l.entries)
}

// plan takes all that a plan was made of: facts are paths of tools that are there.
func (l *looked) plan(p *Project, facts, absentTools []string) {
	l.planning = true
	for _, name := range p.Files {
		l.known(name, sha256.Sum256(p.Text(name)))
	}
	for _, k := range p.Looks {
		l.look(p, k)
	}
	for _, name := range facts {
		l.present(name)
	}
	for _, name := range absentTools {
		l.absent(name)
	}
	switch file, text := p.steps.Remembered(); {
	case text != nil:
		l.known(file, sha256.Sum256(text))
	case file != "":
		l.absent(file)
	}
	l.known(p.listFile, p.listDigest) // another plan, which removed what was its own, leaves another
}

// split parts ids into those that are not dirty, and the numbers that the others have where ids are packed.
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

// looked collects observations.
type looked struct {
	v       *view
	entries []tree.Observation
	seen    map[string]int // index of a path's observation
	doubt   bool

	planning bool // what is added now is of the plan
}

// newLooked has room for the files that a tree was asked for, and some more: growing leaves as much again behind.
func newLooked(v *view, t *Tree) *looked {
	n := 0
	t.files.Seen(func(string, *cache.Hashed) { n++ })
	n += n/16 + 64
	return &looked{v: v, entries: make([]tree.Observation, 0, n), seen: make(map[string]int, n)}
}

// tree takes all that the actions of ids looked at and made.
func (l *looked) tree(g *graph.Graph, ids []graph.ActionID, t *Tree) {
	absent, present, ok := t.Runner.Watched(ids)
	l.doubt = l.doubt || !ok
	for _, id := range ids {
		if a := g.Actions[id]; !a.Intermediate {
			l.made(a, t.db)
		}
	}
	l.files(t)
	for _, p := range present {
		l.present(p)
	}
	for _, p := range absent {
		l.absent(p)
	}
}

// files takes the files that were read.
func (l *looked) files(t *Tree) {
	t.files.Seen(func(path string, h *cache.Hashed) {
		if h != nil {
			l.add(tree.Observation{Path: path, Kind: tree.File, Stat: h.Stat, Digest: h.Digest, Seen: h.At})
		}
	})
}

// merge adds to entry k what an older one of the same path says. broken is an older one that is not what it was.
func (l *looked) merge(k int, old tree.Observation, broken bool) {
	e := &l.entries[k]
	e.Plan = e.Plan || old.Plan
	switch {
	case old.Kind == tree.Folder && e.Kind == tree.Guard:
		*e = old
	case old.Kind == tree.Guard && e.Kind == tree.Guard:
		for _, name := range old.Absent {
			if broken && exists(l.abs(filepath.Join(e.Path, name))) {
				continue // it came, and whoever would read it has been looked at
			}
			e.Absent = append(e.Absent, name)
		}
		slices.Sort(e.Absent)
		e.Absent = slices.Compact(e.Absent)
	}
}

// made takes the outputs of an action, as their record has them. One whose content was asked for is known better.
func (l *looked) made(a *graph.Action, db *tree.DB) {
	rec := db.LastRun(a.Outputs[0])
	if rec == nil {
		l.doubt = true // it was not recorded, since an input changed meanwhile
		return
	}
	for _, o := range rec.Outputs {
		mode := uint32(sIFREG | 0o644)
		if o.Exec {
			mode |= 0o111
		}
		l.add(tree.Observation{Path: o.Path, Kind: tree.File, Digest: o.Digest, Output: true, Young: true, Stat: cache.Stat{Mode: mode}})
	}
}

// add takes an entry over.
func (l *looked) add(e tree.Observation) {
	e.Path = cache.Canonical(l.v.root, e.Path)
	e.Plan = e.Plan || l.planning
	if e.Kind != tree.Absent && e.Stat.Ino != 0 && !e.Stat.Before(l.v.began) {
		l.doubt = l.doubt || e.Digest == cache.Digest{} && e.Kind != tree.Guard // nothing else to settle it by
		e.Young = true
	}
	if !e.Young {
		e.Seen = 0
	}
	i, ok := l.seen[e.Path]
	if !ok {
		l.seen[e.Path] = len(l.entries)
		l.entries = append(l.entries, e)
		return
	}
	old := &l.entries[i]
	old.Plan = old.Plan || e.Plan
	switch {
	case old.Kind == tree.File && e.Kind == tree.File:
		l.doubt = l.doubt || old.Digest != e.Digest && old.Digest != cache.Digest{} && e.Digest != cache.Digest{}
		if old.Young && !e.Young || old.Stat.Ino == 0 {
			old.Stat, old.Young, old.Seen = e.Stat, e.Young, e.Seen
		}
		if old.Digest == (cache.Digest{}) {
			old.Digest = e.Digest
		}
		old.Output = old.Output || e.Output
	case old.Kind == e.Kind, old.Kind == tree.Folder && e.Kind == tree.Guard:
		old.Absent = append(old.Absent, e.Absent...)
	case old.Kind == tree.Guard && e.Kind == tree.Folder:
		e.Plan = e.Plan || old.Plan
		*old = e // all names hold those that must be absent
	default:
		l.doubt = true
	}
}

func (l *looked) abs(p string) string { return cache.Absolute(l.v.root, p) }

// present takes a path whose stat must stay as it is.
func (l *looked) present(p string) {
	st, err := cache.StatFile(l.abs(p))
	if err != nil {
		l.doubt = true
		return
	}
	kind := tree.File
	if fs.FileMode(st.Mode)&sIFMT == sIFDIR {
		kind = tree.Guard
	}
	l.add(tree.Observation{Path: p, Kind: kind, Stat: st})
}

// known takes a file by the digest of the text that was read of it, whatever it holds by now.
func (l *looked) known(p string, digest cache.Digest) {
	st, err := cache.StatFile(l.abs(p))
	l.doubt = l.doubt || err != nil
	l.add(tree.Observation{Path: p, Kind: tree.File, Stat: st, Digest: digest})
}

// look takes what the manifest looked at, but for files, which are among those seen.
func (l *looked) look(p *Project, k manifest.Look) {
	switch _, seen := l.seen[cache.Canonical(l.v.root, k.Path)]; {
	case k.Missing:
		l.absent(k.Path)
	case k.List:
		l.names(p, k)
	case !seen:
		l.present(k.Path)
	}
}

// names takes a folder that was listed, if it holds what the plan was made of. The build tree, which appears in it in the first
// build, was not looked at.
func (l *looked) names(p *Project, k manifest.Look) {
	st, err := cache.StatFile(l.abs(k.Path))
	now, err2 := os.ReadDir(l.abs(k.Path))
	again, err3 := cache.StatFile(l.abs(k.Path))
	if errors.Join(err, err2, err3) != nil || again != st || namesBut(l.abs(k.Path), l.v.state, now) != p.listed[k.Path] {
		l.doubt = true
		return
	}
	l.add(tree.Observation{Path: k.Path, Kind: tree.Folder, Stat: st, Digest: tree.NamesDigest(now)})
}

// namesBut digests the names in a folder but the one that leads to the build tree, whose files are in state.
func namesBut(dir, state string, entries []fs.DirEntry) cache.Digest {
	if below, ok := strings.CutPrefix(state, filepath.Clean(dir)+"/"); ok {
		first, _, _ := strings.Cut(below, "/")
		entries = slices.DeleteFunc(slices.Clone(entries), func(e fs.DirEntry) bool { return e.Name() == first })
	}
	return tree.NamesDigest(entries)
}

// absent takes a path that must stay absent. A folder that did not change got no new names, so many such paths cost one stat.
func (l *looked) absent(p string) {
	if _, err := os.Lstat(l.abs(p)); err == nil {
		if _, err := os.Stat(l.abs(p)); err == nil {
			l.doubt = true
			return
		}
		l.add(tree.Observation{Path: p, Kind: tree.Absent}) // a link to nothing: its end may appear elsewhere
		return
	}
	dir, base := filepath.Split(p)
	st, err := cache.StatFile(l.abs(dir))
	switch {
	case err == nil && fs.FileMode(st.Mode)&sIFMT == sIFDIR:
		l.add(tree.Observation{Path: filepath.Clean(dir), Kind: tree.Guard, Stat: st, Absent: []string{base}})
	case errors.Is(err, fs.ErrNotExist) && strings.Trim(dir, "./") != "" && !strings.Contains(dir, ".."):
		l.absent(filepath.Clean(dir)) // and so is all that would be in it
	default:
		l.add(tree.Observation{Path: p, Kind: tree.Absent})
	}
}

// Types of files in Stat.Mode.
const (
	sIFMT  = 0o170000
	sIFREG = 0o100000
	sIFDIR = 0o040000
)
