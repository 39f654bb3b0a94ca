package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/actions/jobserver"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// Only one process at a time changes a build tree. A second process waits, and reads its inputs
// when it has the lock. An earlier plan may be of a manifest, of archives or of answers that the
// first process has changed. If there is no build tree yet, the plan comes first, so that a faulty
// or missing manifest creates no folder.

// Open locks the build tree, plans for names, and opens the tree. The caller closes the tree.
func (w *Workspace) Open(names []string) (*Project, *Tree, []graph.ActionID, error) {
	state := w.StateDir()
	lock, err := w.lockExisting(state)
	if err != nil {
		return nil, nil, nil, err
	}
	return w.openLocked(state, lock, func() (*Project, []graph.ActionID, error) { return w.PlanFor(names) })
}

// openLocked plans, and opens the tree that lock locks. lock is nil if the tree does not exist yet.
func (w *Workspace) openLocked(state string, lock *run.Lock, plan func() (*Project, []graph.ActionID, error)) (p *Project, t *Tree, want []graph.ActionID, err error) {
	defer func() {
		if t == nil && lock != nil { // also if planning panics
			lock.Release()
		}
	}()
	p, want, err = plan()
	if err == nil && lock == nil {
		lock, err = w.lockNew(state)
		// another process made the tree concurrently, and has built
		if err == nil && lock.Was() != "" {
			p, want, err = plan()
		}
	}
	if err == nil {
		t, err = p.openTree(lock)
	}
	return p, t, want, err
}

// lockExisting locks a build tree, or returns nil if there is none.
func (w *Workspace) lockExisting(state string) (*run.Lock, error) {
	if info, err := os.Stat(state); err != nil || !info.IsDir() {
		return nil, nil
	}
	lock, err := w.lockTree(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the process that we waited for removed it
	}
	return lock, err
}

// lockNew locks a build tree, which it creates if it is missing.
func (w *Workspace) lockNew(state string) (*run.Lock, error) {
	for {
		if err := os.MkdirAll(state, 0o777); err != nil {
			return nil, fmt.Errorf("the build tree cannot be written: %w; choose another with --build-dir", err)
		}
		lock, err := w.lockTree(state)
		if !errors.Is(err, fs.ErrNotExist) {
			return lock, err
		}
	}
}

// lockTree locks a build tree as soon as no other process has it. It removes what a killed kbuild
// has left of its commands.
func (w *Workspace) lockTree(state string) (*run.Lock, error) {
	lock, err := w.waitForLock(filepath.Join(state, "lock"))
	if err != nil {
		return nil, err
	}
	if err := tidy(state); err != nil {
		lock.Release()
		return nil, err
	}
	return lock, nil
}

// tidy removes what a killed kbuild has left of its commands.
func tidy(state string) error {
	tmp := filepath.Join(state, "tmp")
	if exists(tmp) { // a build removes it at its end
		if err := run.EndOrphans(tmp); err != nil {
			return err
		}
	}
	run.RemoveTemp(tmp, "")
	regular.RemoveTemporary(state)
	return nil
}

// waitForLock takes a lock, and waits for it unless --no-wait is given.
func (w *Workspace) waitForLock(name string) (*run.Lock, error) {
	if w.NoWait {
		return run.AcquireLock(context.Background(), name, nil)
	}
	if run.IsCommand(filepath.Join(filepath.Dir(name), "tmp")) {
		return nil, errors.New("a command of this build calls kbuild in the same build tree, where it would wait for itself; give it another --build-dir")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	takeBack, waited := func() {}, false
	lock, err := run.AcquireLock(ctx, name, func(b *run.Busy) {
		w.sayf("waiting for another kbuild in this build tree%s", b.Parenthesis())
		takeBack, waited = lendSlot(ctx), true
	})
	takeBack()
	if waited {
		w.Begun = time.Now() // files written until now are older than this build
	}
	if ctx.Err() == nil {
		return lock, err
	}
	if err == nil {
		lock.Release()
	}
	return nil, InterruptedError{"waiting for another kbuild"}
}

// lendSlot lends the slot of this process to another job of make while the process waits. The
// process that it waits for can use the slot. takeBack takes a slot again.
func lendSlot(ctx context.Context) (takeBack func()) {
	client, err := jobserver.FromEnviron(os.Getenv("MAKEFLAGS"))
	if err != nil || client == nil {
		return func() {} // reported when it matters
	}
	if client.Lend() != nil {
		client.Close()
		return func() {}
	}
	return func() {
		client.TakeBack(ctx)
		client.Close()
	}
}

// removeState removes what kbuild knows of a locked build tree, the lock last. Then it removes the
// folder if that is empty. A process that comes concurrently creates another tree, or waits for one
// that is complete.
func removeState(dir, state string) error {
	if err := removeBut(state, "lock"); err != nil {
		return err
	}
	names := []string{filepath.Join(state, "lock"), state, dir}
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		names = names[:2] // a link, which kbuild did not create
	}
	for _, name := range names {
		err := os.Remove(name)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return nil // files that are not kbuild's, or another build has started
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeBut removes all names in a folder except one.
func removeBut(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != keep {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
