package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/snapshot"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// The quick way: a build that left nothing to do leaves a snapshot of everything it looked at and made, and the next one with
// the same command line and environment that finds all of it unchanged has nothing to do. It reads no manifest, makes
// no plan and opens no journal. Any doubt, and the build goes the long way, which decides by itself.
//
// What stat cannot vouch for yet, since it was changed during the build or just before, is in the snapshot with a zero stat: the
// next build settles it by content. That goes for the outputs of the build above all.
//
// What a build looks at: manifests, and folders that glob read (manifest.Look); tools (probe.Looked); every file whose content was
// asked for (cache.Files.Seen) and every path that must stay absent (build.Looked). The journal is not among them: the snapshot itself
// says that these outputs are what this command line makes of these inputs, whatever was built since and is as it was again.

// quick is the quick way for one command line.
type quick struct {
	root, state string
	file        string // the snapshot
	key         [32]byte
	began       time.Time
}

// snapshots is how many command lines have one in a build tree.
const snapshots = 4

// openQuick gives nil for a build that must go the long way: the front wants to tell more than the end.
func (w *Workspace) openQuick(req Request) *quick {
	if !req.Brief || w.DryRun || w.CheckLink != nil || req.Select != nil {
		return nil
	}
	if w.writeOutEnv() != nil {
		return nil // the long way says why
	}
	root, _ := manifest.Locate(w.Manifest)
	q := &quick{root: root, state: w.StateDir(), began: time.Now()}
	if !q.identify(w, req.Targets) {
		return nil
	}
	q.file = filepath.Join(q.state, fmt.Sprintf("snapshot-%x", q.key[:6]))
	return q
}

// identify makes the key of all that decides besides files.
func (q *quick) identify(w *Workspace, targets []string) bool {
	exe, err := os.Executable()
	if err != nil {
		return false
	}
	self, err := cache.StatFile(exe)
	if err != nil {
		return false
	}
	m := w.Manifest
	h := sha256.New()
	fmt.Fprintf(h, "%q %+v %q %q %q %q\n", m.Version, self, exe, q.root, q.state, m.File)
	fmt.Fprintf(h, "%q %q %q %q %v %v\n", m.Arch, m.Vars, m.Profile, w.CacheDir, w.NoCache, w.NoSplit) // maps print sorted
	fmt.Fprintf(h, "%q\n", targets)
	env, _ := environ()
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "KBUILD_") || slices.Contains(placeEnv, name) || slices.Contains(probe.EnvNames[:], name) || slices.Contains(probe.HIPEnvNames[:], name) {
			env = append(env, e)
		}
	}
	slices.Sort(env)
	fmt.Fprintf(h, "%q", env)
	h.Sum(q.key[:0])
	return true
}

// placeEnv are variables that say where the cache is.
var placeEnv = []string{"HOME", "XDG_CACHE_HOME", "TMPDIR"}

// note is what a snapshot keeps besides files.
type note struct {
	actions int              // that the command line stands for
	graph   uint32           // the sum of the packed graph that goes with the snapshot
	dirty   []graph.ActionID // of that graph: not up to date
	moved   []graph.ActionID // of that graph: may depend on other paths than those it was packed with
	gpus    string           // of code = ["native"]: what the plan was made for, see probe.GPUs
	cpu     string           // of -march=native: the same, see probe.CPU
	said    string           // diagnostics of the plan, as JSON
}

func (n note) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(n.actions))
	b = binary.LittleEndian.AppendUint32(b, n.graph)
	for _, ids := range [2][]graph.ActionID{n.dirty, n.moved} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(ids)))
		for _, id := range ids {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	for _, text := range [2]string{n.gpus, n.cpu} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return append(b, n.said...)
}

// decodeNote trusts b: the snapshot has a sum.
func decodeNote(b []byte) note {
	u32 := func() (n uint32) {
		n, b = binary.LittleEndian.Uint32(b), b[4:]
		return n
	}
	n := note{actions: int(u32()), graph: u32()}
	for _, ids := range [2]*[]graph.ActionID{&n.dirty, &n.moved} {
		for range u32() {
			*ids = append(*ids, graph.ActionID(u32()))
		}
	}
	for _, text := range [2]*string{&n.gpus, &n.cpu} {
		size := u32()
		*text, b = string(b[:size]), b[size:]
	}
	n.said = string(b)
	return n
}

// build goes the quick way if it can: done says so.
func (q *quick) build(w *Workspace) (sum sched.Summary, done bool, err error) {
	lock, ok := run.LookLock(filepath.Join(q.state, "lock"))
	if !ok {
		return sum, false, nil
	}
	defer lock.Release()
	s, err := snapshot.Open(q.file)
	if err != nil {
		return sum, false, nil
	}
	defer s.Close()
	if s.Key() != q.key {
		return sum, false, nil
	}
	n := decodeNote(s.Note())
	if n.gpus != "" && n.gpus != probe.GPUs("/", os.Getenv) || n.cpu != "" && n.cpu != probe.CPU("/") {
		return sum, false, nil
	}
	changed, err := s.Changed(q.root)
	if err != nil {
		return sum, false, nil
	}
	fresh, broken := q.settle(s, changed)
	if len(broken) > 0 || len(n.dirty) > 0 {
		lock.Release()
		return q.partial(w, s, n, fresh, broken, lock.Was())
	}
	if len(fresh) > 0 {
		s.Refresh(q.file, fresh) // without it the next build settles again
	}
	n.tell(w)
	w.Front.UpToDate(n.actions)
	return sched.Summary{Actions: n.actions, UpToDate: n.actions}, true, nil
}

// tell shows what the plan of a snapshot had to say.
func (n *note) tell(w *Workspace) {
	w.Front.Enter()
	var diags manifest.Diagnostics
	if n.said != "" && json.Unmarshal([]byte(n.said), &diags) == nil {
		w.Front.Diagnose(diags)
	}
}

// settle decides by content what stat cannot. It gives the new stats of what is as it was, and the entries that are not.
func (q *quick) settle(s *snapshot.Snapshot, changed []int) (fresh map[int]cache.Stat, broken []int) {
	fresh = map[int]cache.Stat{}
	for _, i := range changed {
		switch st, ok := s.Settle(q.root, i); {
		case !ok:
			broken = append(broken, i)
		case st != (cache.Stat{}) && st.Before(q.began):
			fresh[i] = st
		}
	}
	return fresh, broken
}

// save leaves a snapshot of a build after which there is nothing to do, and a packed graph for the next one that has little to do.
func (q *quick) save(p *Project, t *Tree, want []graph.ActionID) {
	e := &looked{q: q, seen: map[string]int{}}
	request := p.w.Request(p.Project)
	facts, absentTools, ok := probe.Looked(request, p.Facts)
	gpus := ""
	if request.NeedNative {
		gpus = probe.GPUs("/", os.Getenv)
		ok = ok && gpus != ""
	}
	cpu := ""
	if request.NativeCPU {
		cpu = probe.CPU("/")
	}
	if !ok {
		return
	}
	closure := p.Graph.Closure(want)
	for _, l := range p.Looks {
		if !l.List && !l.Missing {
			t.files.Digest(l.Path) // now it is among those seen, unless it is a folder
		}
	}
	e.tree(p.Graph, closure, t)
	for _, name := range p.Files {
		e.known(name, p.Text(name))
	}
	for _, l := range p.Looks {
		e.look(l)
	}
	for _, name := range facts {
		e.present(name)
	}
	for _, name := range absentTools {
		e.absent(name)
	}
	switch file, text := p.steps.Remembered(); {
	case text != nil:
		e.known(file, text)
	case file != "":
		e.absent(file)
	}
	if file, text, ok := p.verdictText(); ok {
		e.known(file, text)
	}
	e.known(p.listFile, p.listText) // another plan, which removed what was its own, leaves another
	if e.doubt {
		return
	}
	sum, err := q.pack(p, t, closure, append(facts, absentTools...))
	if err != nil {
		return
	}
	n := note{actions: len(closure), graph: sum, gpus: gpus, cpu: cpu}
	if len(p.w.diagnosed) > 0 {
		text, err := json.Marshal(p.w.diagnosed)
		if err != nil {
			return
		}
		n.said = string(text)
	}
	if snapshot.Write(q.file, q.key, n.encode(), e.entries) == nil {
		q.prune()
	}
}

// prune removes the oldest snapshots.
func (q *quick) prune() {
	names, _ := filepath.Glob(filepath.Join(q.state, "snapshot-????????????"))
	if len(names) <= snapshots {
		return
	}
	age := func(name string) time.Time {
		info, err := os.Stat(name)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(names, func(a, b string) int { return age(a).Compare(age(b)) })
	for _, n := range names[:len(names)-snapshots] {
		snapshot.Remove(n)
		os.Remove(n + graphSuffix)
	}
}

// looked collects the entries of a snapshot.
type looked struct {
	q       *quick
	entries []snapshot.Entry
	seen    map[string]int // index of a path's entry
	doubt   bool
}

// tree takes all that the actions of ids looked at and made.
func (l *looked) tree(g *graph.Graph, ids []graph.ActionID, t *Tree) {
	absent, present, ok := t.Runner.Looked(ids)
	l.doubt = l.doubt || !ok
	for _, id := range ids {
		if a := g.Actions[id]; !a.Part {
			l.made(a, t.journal)
		}
	}
	t.files.Seen(func(path string, st cache.Stat, d *cache.Digest) {
		if d != nil {
			l.add(snapshot.Entry{Path: path, Kind: snapshot.File, Stat: st, Digest: *d})
		}
	})
	for _, p := range present {
		l.present(p)
	}
	for _, p := range absent {
		l.absent(p)
	}
}

// merge adds to entry k what an older one of the same path says. broken is an older one that is not what it was.
func (l *looked) merge(k int, old snapshot.Entry, broken bool) {
	e := &l.entries[k]
	switch {
	case old.Kind == snapshot.Folder && e.Kind == snapshot.Guard:
		*e = old
	case old.Kind == snapshot.Guard && e.Kind == snapshot.Guard:
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
func (l *looked) made(a *graph.Action, j *cache.Journal) {
	rec := j.Last(a.Outputs[0])
	if rec == nil {
		l.doubt = true // it was not recorded, since an input changed meanwhile
		return
	}
	for _, o := range rec.Outputs {
		mode := uint32(sIFREG | 0o644)
		if o.Exec {
			mode |= 0o111
		}
		l.add(snapshot.Entry{Path: o.Path, Kind: snapshot.File, Digest: o.Digest, Output: true, Stat: cache.Stat{Mode: mode}})
	}
}

// add takes an entry over.
func (l *looked) add(e snapshot.Entry) {
	e.Path = cache.Canonical(l.q.root, e.Path)
	if e.Kind != snapshot.Absent && e.Stat.Ino != 0 && !e.Stat.Before(l.q.began) {
		l.doubt = l.doubt || e.Digest == cache.Digest{} && e.Kind != snapshot.Guard // nothing else to settle it by
		e.Stat = cache.Stat{Mode: e.Stat.Mode}
	}
	i, ok := l.seen[e.Path]
	if !ok {
		l.seen[e.Path] = len(l.entries)
		l.entries = append(l.entries, e)
		return
	}
	switch old := &l.entries[i]; {
	case old.Kind == snapshot.File && e.Kind == snapshot.File:
		l.doubt = l.doubt || old.Digest != e.Digest && old.Digest != cache.Digest{} && e.Digest != cache.Digest{}
		if old.Stat.Ino == 0 && e.Stat.Ino != 0 {
			old.Stat = e.Stat
		}
		if old.Digest == (cache.Digest{}) {
			old.Digest = e.Digest
		}
		old.Output = old.Output || e.Output
	case old.Kind == e.Kind, old.Kind == snapshot.Folder && e.Kind == snapshot.Guard:
		old.Absent = append(old.Absent, e.Absent...)
	case old.Kind == snapshot.Guard && e.Kind == snapshot.Folder:
		*old = e // all names hold those that must be absent
	default:
		l.doubt = true
	}
}

func (l *looked) abs(p string) string { return cache.Absolute(l.q.root, p) }

// present takes a path whose stat must stay as it is.
func (l *looked) present(p string) {
	st, err := cache.StatFile(l.abs(p))
	if err != nil {
		l.doubt = true
		return
	}
	kind := snapshot.File
	if fs.FileMode(st.Mode)&sIFMT == sIFDIR {
		kind = snapshot.Guard
	}
	l.add(snapshot.Entry{Path: p, Kind: kind, Stat: st})
}

// known takes a file by the text that was read of it, whatever it holds by now.
func (l *looked) known(p string, text []byte) {
	st, err := cache.StatFile(l.abs(p))
	l.doubt = l.doubt || err != nil
	l.add(snapshot.Entry{Path: p, Kind: snapshot.File, Stat: st, Digest: sha256.Sum256(text)})
}

// look takes what the manifest looked at, but for files, which are among those seen.
func (l *looked) look(k manifest.Look) {
	switch _, seen := l.seen[cache.Canonical(l.q.root, k.Path)]; {
	case k.Missing:
		l.absent(k.Path)
	case k.List:
		l.names(k)
	case !seen:
		l.present(k.Path)
	}
}

// names takes a folder that was listed, if it holds what the plan was made of. The build tree, which appears in it in the first
// build, was not looked at.
func (l *looked) names(k manifest.Look) {
	st, err := cache.StatFile(l.abs(k.Path))
	now, err2 := os.ReadDir(l.abs(k.Path))
	again, err3 := cache.StatFile(l.abs(k.Path))
	without := func(entries []fs.DirEntry) cache.Digest {
		return snapshot.NamesDigest(slices.DeleteFunc(slices.Clone(entries), func(e fs.DirEntry) bool { return l.isBuildTree(filepath.Join(k.Path, e.Name())) }))
	}
	if errors.Join(err, err2, err3) != nil || again != st || without(now) != without(k.Entries) {
		l.doubt = true
		return
	}
	l.add(snapshot.Entry{Path: k.Path, Kind: snapshot.Folder, Stat: st, Digest: snapshot.NamesDigest(now)})
}

// isBuildTree reports whether the build tree is path or below it.
func (l *looked) isBuildTree(path string) bool {
	return strings.HasPrefix(l.q.state, l.abs(path)+"/")
}

// absent takes a path that must stay absent. A folder that did not change got no new names, so many such paths cost one stat.
func (l *looked) absent(p string) {
	if _, err := os.Lstat(l.abs(p)); err == nil {
		if _, err := os.Stat(l.abs(p)); err == nil {
			l.doubt = true
			return
		}
		l.add(snapshot.Entry{Path: p, Kind: snapshot.Absent}) // a link to nothing: its end may appear elsewhere
		return
	}
	dir, base := filepath.Split(p)
	st, err := cache.StatFile(l.abs(dir))
	switch {
	case err == nil && fs.FileMode(st.Mode)&sIFMT == sIFDIR:
		l.add(snapshot.Entry{Path: filepath.Clean(dir), Kind: snapshot.Guard, Stat: st, Absent: []string{base}})
	case errors.Is(err, fs.ErrNotExist) && strings.Trim(dir, "./") != "" && !strings.Contains(dir, ".."):
		l.absent(filepath.Clean(dir)) // and so is all that would be in it
	default:
		l.add(snapshot.Entry{Path: p, Kind: snapshot.Absent})
	}
}

// Types of files in Stat.Mode.
const (
	sIFMT  = 0o170000
	sIFREG = 0o100000
	sIFDIR = 0o040000
)
