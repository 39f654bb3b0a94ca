package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
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
// (manifest.Project.Observed); tools (probe.Observed); every file that was digested
// (cache.Files.Seen); and every path that must stay absent (execute.Runner.Observed). Records are
// not among them. The view itself states that this command line builds these outputs from these
// inputs. That stays true if other builds have changed the files and changed them back.

// view is a build tree as one command line sees it.
type view struct {
	root, state string
	key         [32]byte
	began       time.Time
}

// database returns the database of the build tree with its files in the folder state.
func database(state string) string { return filepath.Join(state, "tree.db") }

// view returns nil for dry runs, for link checks, and for builds whose actions were not selected by
// target name.
func (w *Workspace) view(req Request) *view {
	if w.DryRun || w.CheckLink != nil || req.Select != nil {
		return nil
	}
	if w.writeOutEnv() != nil {
		return nil // reading the manifest reports why
	}
	root, _ := manifest.Locate(w.Manifest)
	v := &view{root: root, state: w.StateDir(), began: time.Now()}
	if !v.identify(w, req.Targets) {
		return nil
	}
	return v
}

// identify computes the key of all that determines a build besides files.
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
	// maps print sorted
	fmt.Fprintf(h, "%q %q %q %q %v %v %v\n", m.Arch, m.Vars, m.Profile, w.CacheDir, w.NoCache, w.NoSplit, w.RequireSplit)
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

// placeEnv lists the variables that determine where the cache is.
var placeEnv = []string{"HOME", "XDG_CACHE_HOME", "TMPDIR"}

// note is the data of a view besides observations and the plan.
type note struct {
	actions int              // number of actions that the command line selects
	dirty   []graph.ActionID // of the packed graph: not up to date
	// of the packed graph: may depend on other paths than it was packed with
	moved []graph.ActionID
	// for code = ["native"]: the GPUs that the plan was made for, see probe.GPUs
	gpus      string
	cpu       string         // for -march=native: the same, see probe.CPU
	printed   string         // diagnostics of the plan, as JSON
	misparses string         // the verdicts that the plan was made with, see misparse.go
	whole     string         // fallbacks, one per line
	cache     manifest.Cache // of the manifest, which a build of a part does not read
}

func (n note) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(n.actions))
	for _, ids := range [2][]graph.ActionID{n.dirty, n.moved} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(ids)))
		for _, id := range ids {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	for _, text := range [7]string{n.gpus, n.cpu, n.printed, n.misparses, n.whole, n.cache.Remote, strconv.FormatBool(n.cache.ReadOnly)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return b
}

// decodeNote decodes b without checks, since b has a checksum.
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
	for _, text := range [7]*string{&n.gpus, &n.cpu, &n.printed, &n.misparses, &n.whole, &n.cache.Remote, &readOnly} {
		size := u32()
		*text, b = string(b[:size]), b[size:]
	}
	n.cache.ReadOnly = readOnly != "false"
	return n
}

// tell shows the diagnostics of the plan in a view.
func (n *note) tell(w *Workspace) {
	var diags manifest.Diagnostics
	if n.printed != "" && json.Unmarshal([]byte(n.printed), &diags) == nil {
		w.UI.Diagnose(diags)
	}
}

// scan is what the last build with this command line stored, and what has changed since.
type scan struct {
	*view
	note
	db     *tree.DB
	seen   *tree.View
	fresh  map[int]cache.Stat // unchanged observations that have another stat
	broken []int              // changed observations
	was    string             // the last process that built in the tree
}

// scan compares the tree with the view of the last build. It returns nil if there is no view, or if
// another process is building in the tree. The caller closes it.
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

// look compares the observations with the files. ok is false if the view is not valid.
func (s *scan) look() (ok bool) {
	s.note = decodeNote(s.seen.Value())
	if s.misparses != string(s.db.Text(misparsesText)) {
		return false
	}
	if s.gpus != "" && s.gpus != probe.GPUs("/", os.Getenv) || s.cpu != "" && s.cpu != probe.CPU("/") {
		return false
	}
	fresh, broken, err := s.seen.Check(s.root)
	if err != nil {
		return false
	}
	s.broken = broken
	s.fresh = fresh
	maps.DeleteFunc(s.fresh, func(_ int, st cache.Stat) bool { return st == (cache.Stat{}) || !st.Before(s.began) })
	if len(s.fresh) > 0 && s.upToDate() {
		s.refresh()
	}
	return true
}

// refresh stores the new stats. Without them the next build compares contents again. No process
// builds in the tree during a scan, but other scans may want to do the same.
func (s *scan) refresh() {
	if only, ok := run.TryLock(database(s.state)); ok {
		s.seen.Refresh(s.fresh)
		only.Release()
	}
}

// upToDate reports whether all actions of the command line are up to date.
func (s *scan) upToDate() bool { return s != nil && len(s.broken) == 0 && len(s.dirty) == 0 }

func (s *scan) close() {
	if s != nil {
		s.db.Close()
	}
}
