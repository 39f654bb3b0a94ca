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
	"time"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
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
	if !w.DryRun && w.CheckLink == nil && req.Command == nil && w.envError == nil {
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
	env := run.Environ(w.env, nil)
	for _, e := range w.env {
		if strings.HasPrefix(e, "KBUILD_") || run.Matters(e, run.Folders|run.Probed|run.AMD) {
			env = append(env, e)
		}
	}
	slices.Sort(env)
	fmt.Fprintf(h, "%q%q", env, run.Select(w.env, run.GPUs))
	return (*[32]byte)(h.Sum(nil))
}

// note is the data of a view besides observations and the plan, as JSON.
type note struct {
	Actions int              // number of actions that the command line selects
	Dirty   []graph.ActionID `json:",omitempty"` // of the packed graph: not up to date
	// of the packed graph: may depend on other paths than it was packed with
	Moved []graph.ActionID `json:",omitempty"`
	// for code = ["native"]: the GPUs that the plan was made for, see probe.GPUs
	GPUs string `json:",omitempty"`
	// for -march=native: the same, see probe.CPU
	CPU           string               `json:",omitempty"`
	Printed       manifest.Diagnostics `json:",omitempty"` // of the plan
	SplitFailures string               `json:",omitempty"` // of the plan, see splitfailure.go
	Fallbacks     []string             `json:",omitempty"` // lines, see fallbacks.go
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
	if v.seen == nil || json.Unmarshal(v.seen.Value(), &v.note) != nil || v.SplitFailures != string(db.Text(splitFailuresText)) ||
		v.GPUs != "" && v.GPUs != probe.GPUs("/", b.env.Get) || v.CPU != "" && v.CPU != probe.CPU("/") {
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
		if only, ok := run.TryLock(database(state)); ok {
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
