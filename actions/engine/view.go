package engine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// What a build stores for the next one. If all that a build with the same command line and
// environment would observe is unchanged, the build has nothing to do. So each build stores a view
// in the database of the tree: all that it observed and wrote, with the stat of each file, and its
// plan. The next build compares stats. If none differs, it ends: it reads no manifest, makes no
// plan and looks up no record. If a few files differ, it checks the actions that use them. If the
// plan may have changed, it plans, and checks all actions. In each case the checked actions run in
// the same way, and the build stores a view of the same form.
//
// A file that was changed during the build or just before is too recent for a comparison by stat:
// it is young. The next build compares it by content. This concerns the outputs of the build above
// all.
//
// All that a build observes is a cache.Observation. That is manifests, and folders that glob read
// (manifest.Project.Observed); tools (probe.Collect); every file that was digested
// (cache.Files.Seen); and every path that must stay absent (execute.Runner.Observed). Records are
// not among them. The view itself states that this command line builds these outputs from these
// inputs. That stays true if other builds have changed the files and changed them back.

// database returns the database of the build tree with its files in the folder state.
func database(state string) string { return filepath.Join(state, "tree.db") }

// newBuild returns a build that nothing has been done for yet. It stores no view if it is a dry run
// or a link check, or if its actions are not selected by target name.
func (w *Workspace) newBuild(req Request) *build {
	b := &build{Workspace: w, req: req, began: time.Now(), splitFailures: map[string]string{},
		dynamic: dynamicOutputs{ended: map[string]sched.Status{}}}
	// if the environment is invalid, reading the manifest reports why
	if !w.DryRun && w.CheckLink == nil && req.Command == nil && w.checkEnv() == nil {
		b.viewKey = w.viewKey(req.Targets)
	}
	return b
}

// viewKey returns the key of all that determines a build besides files, or nil if it is not known.
func (w *Workspace) viewKey(targets []string) *[32]byte {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	self, err := cache.StatFile(exe)
	if err != nil {
		return nil
	}
	m := w.Manifest
	root, _ := manifest.Locate(m)
	h := sha256.New()
	fmt.Fprintf(h, "%q %+v %q %q %q %q\n", m.Version, self, exe, root, w.StateDir(), m.File)
	// maps print sorted
	fmt.Fprintf(h, "%q %q %q %q %v %v %v\n", m.Arch, m.Vars, m.Profile, w.CacheDir, w.NoCache, w.NoSplit, w.RequireSplit)
	fmt.Fprintf(h, "%q\n", targets)
	env := run.Environ(w.Env, nil)
	for _, e := range w.Env {
		if strings.HasPrefix(e, "KBUILD_") || run.Matters(e, run.Folders|run.Probed|run.AMD) {
			env = append(env, e)
		}
	}
	slices.Sort(env)
	fmt.Fprintf(h, "%q%q", env, run.Select(w.Env, run.GPUs))
	return (*[32]byte)(h.Sum(nil))
}

// note is the data of a view besides observations and the plan, as JSON.
type note struct {
	Actions int              // number of actions that the command line selects
	Dirty   []graph.ActionID `json:",omitempty"` // of the packed graph: not up to date
	// of the packed graph: may depend on other paths than it was packed with
	RanSincePacked []graph.ActionID `json:"Moved,omitempty"`
	// for code = ["native"]: the GPUs that the plan was made for, see probe.GPUs
	GPUs string `json:",omitempty"`
	// for -march=native: the same, see probe.CPU
	CPU           string               `json:",omitempty"`
	Printed       manifest.Diagnostics `json:",omitempty"` // of the plan
	SplitFailures string               `json:",omitempty"` // of the plan, see split.go
	Fallbacks     []string             `json:",omitempty"` // lines, see Fallbacks
	// of the manifest, which a build of a part does not read
	Cache manifest.Cache `json:",omitzero"`
}

// lastView is the view that the last build with this command line stored, and what has changed
// since.
type lastView struct {
	note
	root   string
	began  time.Time // of this build
	db     *tree.DB
	seen   *tree.View
	fresh  map[int]cache.Stat // unchanged observations that have another stat
	broken []int              // changed observations
	was    string             // the last process that built in the tree
}

// load compares the tree with the view of the last build. It returns nil if there is no view, or if
// another process is building in the tree. The caller closes the database.
func (b *build) load() *lastView {
	if b.viewKey == nil {
		return nil
	}
	state := b.StateDir()
	lock, ok := run.LookLock(filepath.Join(state, "lock"))
	if !ok {
		return nil
	}
	defer lock.Release()
	db, err := tree.Open(database(state))
	if err != nil {
		return nil
	}
	root, _ := manifest.Locate(b.Manifest)
	v := &lastView{root: root, began: b.began, db: db, seen: db.View(*b.viewKey), was: lock.Was()}
	if v.seen == nil || json.Unmarshal(v.seen.Value(), &v.note) != nil || v.SplitFailures != b.splitFailuresText() ||
		v.GPUs != "" && v.GPUs != probe.GPUs("/", b.Env.Get) || v.CPU != "" && v.CPU != probe.CPU("/") {
		db.Close()
		return nil
	}
	if v.fresh, v.broken, err = v.seen.Check(root); err != nil {
		db.Close()
		return nil
	}
	maps.DeleteFunc(v.fresh, func(_ int, st cache.Stat) bool {
		return st == (cache.Stat{}) || !st.Before(b.began)
	})
	if len(v.fresh) > 0 && v.upToDate() {
		// Without the new stats the next build compares contents again. No process builds in the
		// tree now, but other builds may want to do the same.
		if only, ok := run.TryLock(database(state), syscall.LOCK_EX); ok {
			v.seen.Refresh(v.fresh)
			only.Release()
		}
	}
	return v
}

// upToDate reports whether all actions of the command line are up to date.
func (v *lastView) upToDate() bool { return v != nil && len(v.broken) == 0 && len(v.Dirty) == 0 }

func (v *lastView) close() {
	if v != nil {
		v.db.Close()
	}
}

// commit stores a view: what the build of a plan observed, and the plan. The next build checks the
// dirty actions again. ok is false if the observations may not be what the plan or an action read.
// Then there is no view.
func (b *build) commit(p *Project, t *Tree, closure, dirty []graph.ActionID) (ok bool) {
	if b.viewKey == nil {
		return false
	}
	known, gpus := p.hostSeen != nil, ""
	if p.request.NeedNative || slices.ContainsFunc(closure, func(id graph.ActionID) bool { return p.Graph.Actions[id].Test().GPU }) {
		gpus = probe.GPUs("/", b.Env.Get)
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
	var good, packed []graph.ActionID // packed: dirty, by their numbers in the packed graph
	for i, id := range closure {
		if _, is := slices.BinarySearch(dirty, id); is {
			packed = append(packed, graph.ActionID(i))
		} else {
			good = append(good, id)
		}
	}
	o := newObserver(p.Root, b.began, t.files)
	observeActions(o, p.Graph, good, t)
	observePlan(o, p)
	list, ok := o.List()
	if !ok {
		return false
	}
	text, err := json.Marshal(note{Actions: len(closure), Dirty: packed, GPUs: gpus, CPU: cpu, Printed: p.printed,
		SplitFailures: b.splitFailuresText(), Fallbacks: p.Fallbacks(closure), Cache: p.Cache})
	if err != nil {
		return false
	}
	t.giveBack()
	if t.db.SetView(*b.viewKey, text, list) != nil {
		return false
	}
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

// A build of a part of a plan is for a few edits among very many files. The view shows which files
// changed. The stored plan shows which actions use them, and which actions depend on those. Only
// that part is checked, since no other action has a changed input.
//
// This works for files that actions use. A new plan is needed if a file appeared in a folder that
// compilers search, or if a source is gone. It is also needed if a manifest, a folder that glob
// read, a tool or anything else changed.

// Above this part of the actions of a graph a new plan takes no longer. A graph of few actions has
// no such limit. Actions that ran since the graph was packed may use other files since.
const (
	maxAffected        = 4  // one in so many actions
	fewActions         = 16 // or so many
	maxRunsSincePacked = 256
)

// packedMeta is the data of a packed graph besides its actions.
type packedMeta struct {
	Tools    map[string]string
	Pools    map[string]int
	BuildDir string
	Searched []string // folders that compilers search
}

// shadows reports whether a file at path may be read in place of any header.
func (m *packedMeta) shadows(path string) bool {
	for _, dir := range m.Searched {
		if strings.HasPrefix(path, dir+"/") || dir == "." && !filepath.IsAbs(path) {
			return true
		}
	}
	return strings.HasSuffix(path, ".gch")
}

// writePlan stores the graph of a build, so that later builds can run parts of it.
func (b *build) writePlan(p *Project, t *Tree, closure []graph.ActionID) error {
	meta := packedMeta{Tools: t.Runner.Tools, Pools: p.Graph.Pools, BuildDir: p.Graph.BuildDir}
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
// needed: the part is most of the graph, or the plan may have changed. t is the locked tree. It
// takes over the database of the view, if no other process has built since.
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
	if json.Unmarshal(packed.Meta(), &p.meta) != nil {
		return nil
	}
	ids := slices.Concat(p.Dirty, p.RanSincePacked)
	for _, i := range p.broken {
		o := p.seen.At(i)
		for _, path := range p.seen.Broken(p.root, i) {
			users := slices.Clone(packed.Users(path))
			maker, made := packed.Producer(path)
			if made {
				users = append(users, maker)
			}
			file := o.Kind == cache.KindFile
			gone := file && !made && !cache.Exists(cache.Absolute(p.root, path))
			if o.Plan || gone || len(users) == 0 || !file && p.meta.shadows(path) {
				return nil
			}
			ids = append(ids, users...)
		}
	}
	up, all := packed.Affected(ids)
	if packed.Len() > fewActions && len(all) > packed.Len()/maxAffected ||
		len(p.RanSincePacked)+len(up) > maxRunsSincePacked {
		return nil
	}
	p.all = all
	p.graph = &graph.Graph{Pools: p.meta.Pools, BuildDir: p.meta.BuildDir}
	for _, id := range all {
		a := p.graph.Add(packed.Action(id))
		if _, ok := slices.BinarySearch(up, id); ok {
			if a.Work.Collect != nil {
				return nil // it may need another plan
			}
			p.want = append(p.want, a.ID)
		}
	}
	if p.graph.Seal() != nil {
		return nil
	}
	return p
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
			n.RanSincePacked = append(n.RanSincePacked, id) // also if up to date: its record may be of another command line
		}
	}
	slices.Sort(n.RanSincePacked)
	n.RanSincePacked = slices.Compact(n.RanSincePacked)
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
