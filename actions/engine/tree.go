package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/remote"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
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
	db     *tree.DB // nil if it is not needed yet: see openDatabase
	runner runner   // Runner, except in tests
	files  *cache.Files
	shared *sharedStore // Store with a remote cache behind it; nil if there is no remote cache
	own    *disk.Store  // store of the build tree, if there is no action cache
	peaks  peaks
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
	tools, plain, failures := map[string]string{}, map[string]bool{}, map[string]bool{}
	for name, tool := range p.Tools() {
		tools[name] = tool.ID
		if tool.Plain {
			plain[name] = true
		}
	}
	for question := range p.SplitFailures {
		failures[question] = true
	}
	return t.open(p.Cache, execute.Config{Graph: p.Graph, Root: p.Root, Tools: tools, Plain: plain, Unsplit: failures})
}

// openDatabase opens the database, unless it is open.
func (t *Tree) openDatabase() (err error) {
	if t.db == nil {
		t.db, err = tree.Open(database(t.state))
	}
	return err
}

// open opens the cache and prepares to run c.Graph. named is the remote cache that the manifest
// names.
func (t *Tree) open(named manifest.Cache, c execute.Config) (err error) {
	if err := t.openDatabase(); err != nil {
		return err
	}
	t.files = cache.NewFiles(c.Root, t.db.Known)
	c.State = t.state
	os.RemoveAll(filepath.Join(c.State, "parts"))
	c.Env, c.KeyEnv, c.GPUEnv = run.Environ(t.w.env, nil), t.w.keyEnv(), run.Select(t.w.env, run.GPUs)
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
		c.Remote = remote.New(remote.Config{Server: t.shared.remote, Platform: t.w.Platform,
			Estimates: t, Root: c.Root, Env: c.Env, KeyEnv: c.KeyEnv, Files: c.Files})
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
