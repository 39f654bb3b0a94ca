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
	t, err := w.lockExisting(w.StateDir())
	if err != nil {
		return nil, nil, nil, err
	}
	return (&build{Workspace: w, req: Request{Targets: names}}).open(t)
}

// open plans, and opens the tree. t is the locked tree, or nil if there is none yet. The tree is
// closed if there is an error, or if planning panics.
func (b *build) open(t *Tree) (p *Project, open *Tree, want []graph.ActionID, err error) {
	defer func() {
		if open == nil && t != nil {
			t.Close()
		}
	}()
	for planned := false; !planned; {
		if p, want, err = b.plan(t); err != nil {
			return nil, nil, nil, err
		}
		if planned = t != nil; !planned {
			if t, err = b.lockNew(b.StateDir()); err != nil {
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

// lockExisting locks a build tree, or returns nil if there is none.
func (w *Workspace) lockExisting(state string) (*Tree, error) {
	if info, err := os.Stat(state); err != nil || !info.IsDir() {
		return nil, nil
	}
	t, err := w.lockTree(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the process that we waited for removed it
	}
	return t, err
}

// lockNew locks a build tree, which it creates if it is missing.
func (w *Workspace) lockNew(state string) (*Tree, error) {
	for {
		if err := os.MkdirAll(state, 0o777); err != nil {
			return nil, fmt.Errorf("the build tree cannot be written: %w; choose another with --build-dir", err)
		}
		t, err := w.lockTree(state)
		if !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
}

// lockTree locks a build tree, and removes what a killed kbuild has left of its commands. It waits
// while another process has the lock, unless --no-wait is given.
func (w *Workspace) lockTree(state string) (*Tree, error) {
	t := &Tree{w: w, state: state, begun: w.Begun}
	ctx, takeBack := context.Background(), func() {}
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
			takeBack, t.begun = w.lendSlot(ctx), time.Time{}
		}
	}
	var err error
	t.lock, err = run.AcquireLock(ctx, filepath.Join(state, "lock"), wait)
	takeBack()
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
	if exists(tmp) { // a build removes it at its end
		if err := run.EndOrphans(tmp); err != nil {
			return err
		}
	}
	run.RemoveTemp(tmp, "")
	regular.RemoveTemporary(state)
	return nil
}

// lendSlot lends the slot of this process to another job of make while the process waits. The
// process that it waits for can use the slot. takeBack takes a slot again.
func (w *Workspace) lendSlot(ctx context.Context) (takeBack func()) {
	client, err := jobserver.FromEnviron(w.Env.Get("MAKEFLAGS"))
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
