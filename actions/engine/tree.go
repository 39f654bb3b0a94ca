package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// Tree is an open build tree. Nobody else builds in it until it is closed.
type Tree struct {
	Runner *execute.Runner
	Store  *disk.Store // the action cache; nil without one

	w     *Workspace
	lock  *run.Lock
	db    *tree.DB
	files *cache.Files
	own   *disk.Store // of the build tree, where there is no action cache
	limit int64       // of either, in bytes
}

// openTree opens the database and the cache of the build tree that is locked.
func (p *Project) openTree(lock *run.Lock) (*Tree, error) {
	tools := map[string]string{}
	for name, tool := range p.Tools() {
		tools[name] = tool.ID
	}
	state := State(p.Project, "")
	db, err := tree.Open(database(state))
	if err != nil {
		lock.Release()
		return nil, err
	}
	t, err := p.w.openTree(lock, db, p.Root, state, p.Graph, tools)
	if err == nil {
		t.Runner.Distrusted = p.w.distrustedQuestions()
	}
	return t, err
}

// openTree opens the build tree with its files in the folder state. The lock and the database go with the tree, or are released.
func (w *Workspace) openTree(lock *run.Lock, db *tree.DB, root, state string, g *graph.Graph, tools map[string]string) (*Tree, error) {
	t := &Tree{w: w, lock: lock, db: db, files: cache.NewFiles(root, db.Known)}
	os.RemoveAll(filepath.Join(state, "parts"))
	env, keyEnv := environ()
	t.Runner = execute.New(execute.Config{
		Graph: g, Root: root, State: filepath.Clean(state), Files: t.files, Tools: tools,
		Begun: w.Begun, Listing: cache.NewListing(root), Journal: db, Env: env, KeyEnv: keyEnv,
	})
	var err error
	if t.limit, err = w.CacheSize(); err == nil && w.NoCache {
		err = t.openParts(state)
	} else if err == nil {
		err = t.openStore()
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Tree) openStore() error {
	dir, err := t.w.ActionCache()
	if err != nil {
		return err
	}
	store, err := disk.Open(dir)
	if err != nil {
		return fmt.Errorf("%w; build without it: --no-cache", err)
	}
	t.Store, t.Runner.Store, t.Runner.Keep = store, store, store
	return nil
}

// openParts gives a build tree without the shared cache a small one of its own, for what stands between the
// passes of nvcc.
func (t *Tree) openParts(state string) error {
	store, err := disk.Open(filepath.Join(state, "cache"))
	if err != nil {
		return fmt.Errorf("the build tree cannot be written: %w", err)
	}
	t.own, t.Runner.Keep = store, store
	return nil
}

// Close saves what was learned. Trouble here costs the next run time, nothing else.
func (t *Tree) Close() {
	t.db.Close()
	if t.Store != nil && !t.w.DryRun {
		t.Store.Count(t.Runner.Counters())
		t.collect(t.Store)
	}
	if t.own != nil && !t.w.DryRun {
		t.collect(t.own)
	}
	os.RemoveAll(filepath.Join(t.Runner.State, "parts"))
	t.Runner.RemoveTemp()
	t.lock.Release()
}

// collect keeps a store below its limit, as far as it can.
func (t *Tree) collect(s *disk.Store) {
	if res, err := s.MaybeGC(context.Background(), t.limit); err == nil {
		t.w.SayOver(res)
	}
}

// SayOver tells of a collection that could not reach its limit.
func (w *Workspace) SayOver(res disk.GCResult) {
	if res.Over > 0 {
		w.Front.Note(fmt.Sprintf("the cache is %s above its limit: what was written within the last hour may belong to a build that is running, and stays", Size(res.Over)))
	}
}

// Size spells a number of bytes.
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
