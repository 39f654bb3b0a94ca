package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/remote"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Tree is a locked build tree. It owns the lock and the database: no other process changes the
// tree until it is closed. It has a Runner when it is open.
type Tree struct {
	Runner *execute.Runner
	Store  *disk.Store // the action cache; nil if there is none

	w     *Workspace
	state string
	lock  *run.Lock
	// When this kbuild started or, if it waited for another one, when it had the lock. Files that
	// were written until then are older than this build.
	begun  time.Time
	db     *tree.DB // nil if it is not needed yet
	runner runner   // Runner, except in tests
	files  *cache.Files
	shared *sharedStore // Store with a remote cache behind it; nil if there is no remote cache
	own    *disk.Store  // store of the build tree, if there is no action cache
}

// runner executes the actions of a graph, and knows what they observed.
type runner interface {
	sched.Runner
	// Observed returns the paths that up-to-date actions observed, except the files whose digests
	// were queried. ok is false if they may not be what the actions have read.
	Observed(ids []graph.ActionID) (observed []cache.Observation, ok bool)
	// Uses packs the paths that actions depend on, except files that other actions write. It
	// returns the folders that compilers searched.
	Uses(ids []graph.ActionID, p *graph.Packer) (searched []string)
	// SplitFailures returns the dry runs that kbuild was found to misparse.
	SplitFailures() []execute.SplitFailure
}

// Large reports whether a build has so many actions that memory counts for more than the time to
// collect it. Compilers have more use for the memory.
func (t *Tree) Large() bool { return len(t.Runner.Graph.Actions) > 20_000 }

// giveBack returns free memory to the system. The collector does so too late for the memory that a
// view needs for a moment.
func (t *Tree) giveBack() {
	if t.Large() {
		debug.FreeOSMemory()
	}
}

// openTree opens the locked build tree for the plan.
func (p *Project) openTree(t *Tree) error {
	tools, failures := map[string]string{}, map[string]bool{}
	for name, tool := range p.Tools() {
		tools[name] = tool.ID
	}
	for question := range p.SplitFailures {
		failures[question] = true
	}
	return t.open(p.Cache, execute.Config{Graph: p.Graph, Root: p.Root, Tools: tools, Unsplit: failures})
}

// open opens the cache and prepares to run c.Graph. named is the remote cache that the manifest
// names.
func (t *Tree) open(named manifest.Cache, c execute.Config) (err error) {
	if t.db == nil {
		if t.db, err = tree.Open(database(t.state)); err != nil {
			return err
		}
	}
	t.files = cache.NewFiles(c.Root, t.db.Known)
	c.State = t.state
	os.RemoveAll(filepath.Join(c.State, "parts"))
	c.Env, c.KeyEnv, c.GPUEnv = run.Environ(t.w.Env, nil), t.w.keyEnv(), run.Select(t.w.Env, run.GPUs)
	c.Begun, c.Files, c.Listing, c.Records = t.begun, t.files, cache.NewListing(c.Root), t.db
	if err = t.w.CacheSizeError; err == nil {
		err = t.openStore(&c, named)
	}
	t.Runner = execute.New(c)
	t.runner = t.Runner
	return err
}

// openStore opens the shared cache. A build tree without it gets a small store of its own, for the
// files between passes.
func (t *Tree) openStore(c *execute.Config, named manifest.Cache) error {
	if t.w.NoCache {
		store, err := disk.Open(filepath.Join(c.State, "cache"))
		if err != nil {
			return fmt.Errorf("the build tree cannot be written: %w", err)
		}
		t.own, c.IntermediateStore = store, store
		return nil
	}
	dir, err := t.w.ActionCache()
	if err != nil {
		return err
	}
	store, err := disk.Open(dir)
	if err != nil {
		return fmt.Errorf("%w; build without it: --no-cache", err)
	}
	t.Store, c.Store, c.IntermediateStore = store, store, store
	if t.w.DryRun {
		return nil
	}
	if t.shared, err = t.w.openRemote(store, named); err != nil {
		return err
	}
	if t.shared != nil {
		c.Store, c.IntermediateStore = t.shared, passes{t.shared}
	}
	switch {
	case !t.w.RemoteExec:
	case t.shared == nil:
		t.w.UI.Note("warning: --remote-exec needs a server, and there is none: name it with --remote, KBUILD_REMOTE or a cache block of the manifest")
	default:
		c.Remote = &remote.Executor{Server: t.shared.remote, Platform: t.w.Platform,
			Estimates: t}
	}
	return nil
}

// Close saves what was learned, and releases the lock. An error costs time in the next run, nothing
// else.
func (t *Tree) Close() {
	defer t.lock.Release()
	if t.db != nil {
		if t.Runner != nil && !t.w.DryRun {
			t.db.Optimize()
		}
		t.db.Close()
	}
	if t.Runner == nil { // it was not opened
		return
	}
	counters := t.Runner.Counters()
	if t.shared != nil {
		s := t.shared.remote.Close()
		t.w.tell(s)
		counters.Remote, counters.Received, counters.Sent = t.shared.taken.Load(), s.Received, s.Sent
	}
	if t.Store != nil && !t.w.DryRun {
		t.Store.Count(counters)
		t.collect(t.Store)
	}
	if t.own != nil && !t.w.DryRun {
		t.collect(t.own)
	}
	os.RemoveAll(filepath.Join(t.Runner.State, "parts"))
	t.Runner.RemoveTemp()
}

// collect evicts entries to keep a store below its limit, as far as it can.
func (t *Tree) collect(s *disk.Store) {
	if res, err := s.MaybeGC(context.Background(), t.w.CacheSize); err == nil {
		t.w.SayOver(res)
	}
}

// SayOver shows that a collection could not reach its limit.
func (w *Workspace) SayOver(res disk.GCResult) {
	if res.Over > 0 {
		w.UI.Note(fmt.Sprintf("the cache is %s above its limit: what was written within the last hour may belong to a build that is running, and stays", Size(res.Over)))
	}
}

// Size formats a number of bytes.
func Size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// Only one process at a time changes a build tree. A second process waits, and reads its inputs
// when it has the lock. An earlier plan may be out of date: the first process may have changed the
// manifest, archives or the answers of drivers. Without a build tree kbuild plans first, so that a
// faulty or missing manifest creates no folder.

// Open locks the build tree, plans for names, and opens the tree. The caller closes the tree.
func (w *Workspace) Open(names []string) (*Project, *Tree, []graph.ActionID, error) {
	t, err := w.lockAny(w.StateDir(), false)
	if err != nil {
		return nil, nil, nil, err
	}
	return (&build{Workspace: w, req: Request{Targets: names}}).open(t)
}

// open plans and opens the tree. t is the locked tree, or nil before the first build. open closes
// the tree after an error, and if planning panics.
func (b *build) open(t *Tree) (p *Project, open *Tree, want []graph.ActionID, err error) {
	defer func() {
		if open == nil && t != nil {
			t.Close()
		}
	}()
	for planned := false; !planned; {
		if p, want, err = b.plan(); err != nil {
			return nil, nil, nil, err
		}
		if planned = t != nil; !planned {
			if t, err = b.lockAny(b.StateDir(), true); err != nil {
				return nil, nil, nil, err
			}
			// otherwise another process made the tree concurrently, and has built
			planned = t.lock.Was() == ""
		}
	}
	if err = p.openTree(t); err != nil {
		return nil, nil, nil, err
	}
	return p, t, want, nil
}

// lockAny locks a build tree. If it is missing, lockAny creates it or returns nil.
func (w *Workspace) lockAny(state string, create bool) (*Tree, error) {
	for {
		if create {
			if err := os.MkdirAll(state, 0o777); err != nil {
				return nil, fmt.Errorf("the build tree cannot be written: %w; choose another with --build-dir", err)
			}
		} else if !isDir(state) {
			return nil, nil
		}
		t, err := w.lockTree(state)
		_, dangles := os.Readlink(filepath.Join(state, "lock"))
		if !errors.Is(err, fs.ErrNotExist) || dangles == nil {
			return t, err
		} // else the process that we waited for removed the folder
	}
}

// lockTree locks a build tree, and removes what a killed kbuild has left of its commands. It waits
// while another process has the lock, unless --no-wait is given.
func (w *Workspace) lockTree(state string) (*Tree, error) {
	t := &Tree{w: w, state: state, begun: w.Begun}
	ctx := context.Background()
	var wait func(*run.Busy)
	if !w.NoWait {
		if run.IsCommand(filepath.Join(state, "tmp")) {
			return nil, errors.New("a command of this build calls kbuild in the same build tree, where it would wait for itself; give it another --build-dir")
		}
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		wait = func(b *run.Busy) {
			w.UI.Say(fmt.Sprintf("waiting for another kbuild in this build tree%s", b.Parenthesis()))
			t.begun = time.Time{}
		}
	}
	var err error
	t.lock, err = run.AcquireLock(ctx, filepath.Join(state, "lock"), wait)
	if ctx.Err() != nil {
		if err == nil {
			t.lock.Release()
		}
		return nil, InterruptedError{"waiting for another kbuild"}
	}
	if err == nil {
		if err = tidy(state); err != nil {
			t.lock.Release()
		}
	}
	if err != nil {
		return nil, err
	}
	if t.begun.IsZero() { // it waited
		t.begun = time.Now()
	}
	return t, nil
}

// tidy removes what a killed kbuild has left of its commands.
func tidy(state string) error {
	tmp := filepath.Join(state, "tmp")
	if cache.Exists(tmp) { // a build removes it at its end
		if err := run.EndOrphans(tmp); err != nil {
			return err
		}
	}
	run.RemoveTemp(tmp, "")
	regular.RemoveTemporary(state, 0)
	return nil
}

// removeState removes what kbuild knows of a locked build tree, the lock last. Then it removes the
// folder if that is empty. A process that comes concurrently creates another tree, or waits for one
// that is complete.
func removeState(dir, state string) error {
	entries, err := os.ReadDir(state)
	for _, e := range entries {
		if e.Name() != "lock" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(state, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	names := []string{filepath.Join(state, "lock"), state, dir}
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		names = names[:2] // a link, which kbuild did not create
	}
	for _, name := range names {
		if err = os.Remove(name); err != nil {
			break
		}
	}
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return nil // files that are not kbuild's, or another build has started
	}
	return err
}

// Memory estimates the peak memory of an action, in bytes. 0 means none. It is part of
// sched.Estimates and remote.Estimates.
//
// The estimate is the peak of the last run or the hint in the manifest, whichever is larger. A
// record covers the largest process only, and is older than the edit that made a link outgrow the
// machine. A hint becomes outdated as the code grows. An action without either has the usual peak
// of its kind.
func (t *Tree) Memory(a *graph.Action) int64 {
	if a.Kind.InProcess() {
		return 0
	}
	n := a.Memory
	if a.Kind.Info().IgnoresManifestMemory {
		n = 0 // the manifest's is about the largest step of a target
	}
	if rec := t.db.Last(a.Outputs[0]); rec != nil {
		n = max(n, rec.MaxRSS)
	}
	if n > 0 {
		return n
	}
	return Usual(a)
}

// Usual returns the peak in the table of kinds.
func Usual(a *graph.Action) int64 {
	info := a.Kind.Info()
	if a.Link().LTO { // it optimises a whole program
		return max(info.Memory, info.LTOMemory)
	}
	return info.Memory
}

// Expected returns how long an action took the last time.
func (t *Tree) Expected(a *graph.Action) (time.Duration, bool) {
	if rec := t.db.Last(a.Outputs[0]); rec != nil && rec.Elapsed > 0 {
		return rec.Elapsed, true
	}
	return 0, false
}

// Cost estimates how long an action takes: long ones start first. It is part of
// sched.Estimates and remote.Estimates.
func (t *Tree) Cost(a *graph.Action) time.Duration {
	if d, ok := t.Expected(a); ok {
		return d
	}
	info := a.Kind.Info()
	if info.PerArch {
		return info.Cost * time.Duration(max(1, len(a.Archs)))
	}
	return info.Cost
}
