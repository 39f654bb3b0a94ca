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

// One process at a time changes a build tree. Who comes second waits, and looks at the world when
// it has the lock: a plan that was made before may be of a manifest, of archives or of answers that
// the first has changed. Only where there is no build tree yet the plan comes first, so that a
// manifest with a mistake, or none, makes no folder.

// Open locks the build tree, plans for names, and opens the tree, which the caller closes.
func (w *Workspace) Open(names []string) (*Project, *Tree, []graph.ActionID, error) {
	state := w.StateDir()
	lock, err := w.lockExisting(state)
	if err != nil {
		return nil, nil, nil, err
	}
	return w.openLocked(state, lock, func() (*Project, []graph.ActionID, error) { return w.PlanFor(names) })
}

// openLocked plans, and opens the tree whose lock is held, or which is not there yet: lock is nil
// then.
func (w *Workspace) openLocked(state string, lock *run.Lock, plan func() (*Project, []graph.ActionID, error)) (p *Project, t *Tree, want []graph.ActionID, err error) {
	defer func() {
		if t == nil && lock != nil { // also where planning panics
			lock.Release()
		}
	}()
	p, want, err = plan()
	if err == nil && lock == nil {
		lock, err = w.lockNew(state)
		if err == nil && lock.Was() != "" { // another made the tree meanwhile, and has built
			p, want, err = plan()
		}
	}
	if err == nil {
		t, err = p.openTree(lock)
	}
	return p, t, want, err
}

// lockExisting locks a build tree; nil if there is none.
func (w *Workspace) lockExisting(state string) (*run.Lock, error) {
	if info, err := os.Stat(state); err != nil || !info.IsDir() {
		return nil, nil
	}
	lock, err := w.lockTree(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed by the one we waited for
	}
	return lock, err
}

// lockNew locks a build tree, which it makes if need be.
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

// lockTree locks a build tree, as soon as nobody else has it, and removes what a kbuild that was
// killed has left of its commands.
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

// tidy removes what a kbuild that was killed has left of its commands.
func tidy(state string) error {
	tmp := filepath.Join(state, "tmp")
	if exists(tmp) { // it goes when a build ends
		if err := run.EndOrphans(tmp); err != nil {
			return err
		}
	}
	run.RemoveTemp(tmp, "")
	regular.RemoveTemporary(state)
	return nil
}

// waitForLock takes a lock, and waits for it unless --no-wait forbids.
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
		w.Begun = time.Now() // what was written until now was there before
	}
	if ctx.Err() == nil {
		return lock, err
	}
	if err == nil {
		lock.Release()
	}
	return nil, InterruptedError{"waiting for another kbuild"}
}

// lendSlot lets another job of make have the slot in which this process would only wait: the one
// that is waited for can use it. It gives what takes a slot back.
func lendSlot(ctx context.Context) (takeBack func()) {
	client, err := jobserver.FromEnviron(os.Getenv("MAKEFLAGS"))
	if err != nil || client == nil {
		return func() {} // said when it matters
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

// removeState removes what kbuild knows of a build tree that is locked, then its folder if nothing
// else is in it, and the lock last: who comes meanwhile makes another tree, or waits for one that
// is whole.
func removeState(dir, state string) error {
	if err := removeBut(state, "lock"); err != nil {
		return err
	}
	names := []string{filepath.Join(state, "lock"), state, dir}
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		names = names[:2] // a link, which kbuild did not make
	}
	for _, name := range names {
		err := os.Remove(name)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return nil // what is not kbuild's, or somebody builds here again
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeBut removes all that is in a folder but one name.
func removeBut(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != keep {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
