package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// What a build leaves for the next one. A build with the same command line and environment that
// finds everything it would look at as it was has nothing to do. So each leaves a view in the
// database of the tree: all that it looked at and made, with the stat of each file, and its plan.
// The next one compares stats. Where none differs it ends: it reads no manifest, makes no plan and
// asks for no record. Where a few files differ it looks at the actions that use them. Where the
// plan may be another it plans, and looks at all actions. In any case what is looked at runs the
// same way, and what is left then is left in the same form.
//
// What stat cannot vouch for yet, since it was changed during the build or just before, is young:
// the next build settles it by content. That goes for the outputs of the build above all.
//
// What a build looks at, all of it cache.Observation: manifests, and folders that glob read
// (manifest.Project.Observed); tools (probe.Observed); every file whose content was asked for
// (cache.Files.Seen) and every path that must stay absent (execute.Runner.Observed). The records
// are not among them: the view itself says that these outputs are what this command line makes of
// these inputs, whatever was built since and is as it was again.

// view is a build tree as one command line sees it.
type view struct {
	root, state string
	key         [32]byte
	began       time.Time
}

// database is the database of the build tree with its files in the folder state.
func database(state string) string { return filepath.Join(state, "tree.db") }

// view gives nil for a build that changes nothing, or is of other actions than names stand for.
func (w *Workspace) view(req Request) *view {
	if w.DryRun || w.CheckLink != nil || req.Select != nil {
		return nil
	}
	if w.writeOutEnv() != nil {
		return nil // reading the manifest says why
	}
	root, _ := manifest.Locate(w.Manifest)
	v := &view{root: root, state: w.StateDir(), began: time.Now()}
	if !v.identify(w, req.Targets) {
		return nil
	}
	return v
}

// identify makes the key of all that decides besides files.
func (v *view) identify(w *Workspace, targets []string) bool {
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
	fmt.Fprintf(h, "%q %+v %q %q %q %q\n", m.Version, self, exe, v.root, v.state, m.File)
	fmt.Fprintf(h, "%q %q %q %q %v %v %v\n", m.Arch, m.Vars, m.Profile, w.CacheDir, w.NoCache, w.NoSplit, w.RequireSplit) // maps print sorted
	fmt.Fprintf(h, "%q\n", targets)
	env, _ := environ()
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "KBUILD_") || slices.Contains(placeEnv, name) || slices.Contains(probe.EnvNames[:], name) || slices.Contains(run.HIPNames[:], name) {
			env = append(env, e)
		}
	}
	slices.Sort(env)
	fmt.Fprintf(h, "%q%q", env, run.GPUEnviron(os.Environ()))
	h.Sum(v.key[:0])
	return true
}

// placeEnv are variables that say where the cache is.
var placeEnv = []string{"HOME", "XDG_CACHE_HOME", "TMPDIR"}

// note is what a view keeps besides observations and the plan.
type note struct {
	actions   int              // that the command line stands for
	dirty     []graph.ActionID // of that graph: not up to date
	moved     []graph.ActionID // of that graph: may depend on other paths than those it was packed with
	gpus      string           // of code = ["native"]: what the plan was made for, see probe.GPUs
	cpu       string           // of -march=native: the same, see probe.CPU
	said      string           // diagnostics of the plan, as JSON
	misparses string           // the verdicts that the plan was made with, see misparse.go
	whole     string           // fallbacks, a line each
	cache     manifest.Cache   // of the manifest, which a build of a part does not read
}

func (n note) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(n.actions))
	for _, ids := range [2][]graph.ActionID{n.dirty, n.moved} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(ids)))
		for _, id := range ids {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	for _, text := range [7]string{n.gpus, n.cpu, n.said, n.misparses, n.whole, n.cache.Remote, strconv.FormatBool(n.cache.ReadOnly)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return b
}

// decodeNote trusts b, which has a sum.
func decodeNote(b []byte) note {
	u32 := func() (n uint32) {
		n, b = binary.LittleEndian.Uint32(b), b[4:]
		return n
	}
	n := note{actions: int(u32())}
	for _, ids := range [2]*[]graph.ActionID{&n.dirty, &n.moved} {
		for range u32() {
			*ids = append(*ids, graph.ActionID(u32()))
		}
	}
	var readOnly string
	for _, text := range [7]*string{&n.gpus, &n.cpu, &n.said, &n.misparses, &n.whole, &n.cache.Remote, &readOnly} {
		size := u32()
		*text, b = string(b[:size]), b[size:]
	}
	n.cache.ReadOnly = readOnly != "false"
	return n
}

// tell shows what the plan of a view had to say.
func (n *note) tell(w *Workspace) {
	var diags manifest.Diagnostics
	if n.said != "" && json.Unmarshal([]byte(n.said), &diags) == nil {
		w.Front.Diagnose(diags)
	}
}

// scan is what the last build with this command line left, and what is not as it was.
type scan struct {
	*view
	note
	db     *tree.DB
	seen   *tree.View
	fresh  map[int]cache.Stat // observations that are what they were, under another stat
	broken []int              // observations that are not
	was    string             // who had built in the tree last
}

// scan looks at the tree; nil if nothing is known of it, or somebody builds in it now. It must be
// closed.
func (v *view) scan() *scan {
	if v == nil {
		return nil
	}
	lock, ok := run.LookLock(filepath.Join(v.state, "lock"))
	if !ok {
		return nil
	}
	defer lock.Release()
	db, err := tree.Open(database(v.state))
	if err != nil {
		return nil
	}
	s := &scan{view: v, db: db, seen: db.View(v.key), was: lock.Was()}
	if s.seen == nil || !s.look() {
		db.Close()
		return nil
	}
	return s
}

// look compares what was observed with what is there. ok is false where that cannot tell.
func (s *scan) look() (ok bool) {
	s.note = decodeNote(s.seen.Note())
	if s.misparses != string(s.db.Text(misparsesText)) {
		return false
	}
	if s.gpus != "" && s.gpus != probe.GPUs("/", os.Getenv) || s.cpu != "" && s.cpu != probe.CPU("/") {
		return false
	}
	changed, err := s.seen.Changed(s.root)
	if err != nil {
		return false
	}
	s.fresh = map[int]cache.Stat{}
	for _, i := range changed { // what stat cannot decide, content does
		switch st, ok := s.seen.Rehash(s.root, i); {
		case !ok:
			s.broken = append(s.broken, i)
		case st != (cache.Stat{}) && st.Before(s.began):
			s.fresh[i] = st
		}
	}
	if len(s.fresh) > 0 && s.upToDate() {
		s.refresh()
	}
	return true
}

// refresh keeps the new stats; without it the next build looks at contents again. Nobody builds in
// the tree as long as it is looked at, but others may look, and want to do the same.
func (s *scan) refresh() {
	if only, ok := run.TryLock(database(s.state)); ok {
		s.seen.Refresh(s.fresh)
		only.Release()
	}
}

// upToDate reports that all actions of the command line are.
func (s *scan) upToDate() bool { return s != nil && len(s.broken) == 0 && len(s.dirty) == 0 }

func (s *scan) close() {
	if s != nil {
		s.db.Close()
	}
}
