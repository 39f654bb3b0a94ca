package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
)

// sharedStore is the store of this machine with a cache on another one behind it. Content comes from there when something reads it: what
// passes hand to each other never does, if all that is made of it is there.
type sharedStore struct {
	*disk.Store
	remote *remote.Cache

	mu    sync.Mutex
	other map[cache.Key]bool // ids of records from there that this machine's store lacks
}

// openRemote starts what speaks to the remote cache.
func (w *Workspace) openRemote(store *disk.Store) (*sharedStore, error) {
	program, err := remoteProgram()
	if err != nil {
		return nil, err
	}
	c, err := remote.Start(remote.Options{Program: program, Address: w.Remote, Dir: store.Folder(), ReadOnly: w.ReadOnly, Execute: w.RemoteExec,
		Warn: func(text string) { w.Front.Note("warning: " + text) }})
	if err != nil {
		return nil, err
	}
	return &sharedStore{Store: store, remote: c, other: map[cache.Key]bool{}}, nil
}

// remoteProgram is kbuild-remote, beside kbuild or in PATH.
func remoteProgram() (string, error) {
	if exe, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(exe), "kbuild-remote"); exists(beside) {
			return beside, nil
		}
	}
	program, err := exec.LookPath("kbuild-remote")
	if err != nil {
		return "", errors.New("--remote needs the program kbuild-remote, which is neither beside kbuild nor in PATH: install both of one version, or build without --remote")
	}
	return program, nil
}

// Elsewhere implements cache.Distant.
func (s *sharedStore) Elsewhere(ctx context.Context, command cache.Key) []*cache.Record {
	return slices.DeleteFunc(s.remote.Records(ctx, command), (*cache.Record).Suspect)
}

// Confirm implements cache.Distant.
func (s *sharedStore) Confirm(ctx context.Context, r *cache.Record) bool {
	if r == nil {
		s.remote.Missed()
		return false
	}
	if !s.remote.Has(ctx, r) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other[r.ID()] = true
	return true
}

// Restore implements cache.Store.
func (s *sharedStore) Restore(ctx context.Context, o cache.Output, name string) error {
	err := s.Store.Restore(ctx, o, name)
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, cache.ErrCorrupt)) && s.remote.Fetch(ctx, o) {
		return s.Store.Restore(ctx, o, name)
	}
	return err
}

// Put implements cache.Store.
func (s *sharedStore) Put(ctx context.Context, r *cache.Record, file func(cache.Output) string) error {
	err := s.Store.Put(ctx, r, file)
	if err == nil {
		s.remote.Store(r)
	}
	return err
}

// Used implements cache.Store.
func (s *sharedStore) Used(r *cache.Record) {
	id := r.ID()
	s.mu.Lock()
	other := s.other[id]
	delete(s.other, id)
	s.mu.Unlock()
	if other {
		s.Store.Keep(r) // without it this machine asks again
		return
	}
	s.Store.Used(r)
}

// tell says what a build had of the remote cache.
func (w *Workspace) tell(s remote.Stats) {
	if s.Server == "" { // it was never there, which was said
		return
	}
	text := []string{fmt.Sprintf("%d of %d found, %s received", s.Hits, s.Hits+s.Misses, Size(s.Received))}
	if s.Stored > 0 {
		text = append(text, fmt.Sprintf("%d stored, %s sent", s.Stored, Size(s.Sent)))
	}
	if s.Unsent > 0 {
		text = append(text, fmt.Sprintf("%d not stored", s.Unsent))
	}
	if s.Off {
		text = append(text, "given up")
	}
	w.Front.Note("remote cache: " + strings.Join(text, "; "))
	if s.Executed+s.Lost+s.Beaten > 0 {
		w.tellExecuted(s)
	}
}

// tellExecuted says what ran on other machines.
func (w *Workspace) tellExecuted(s remote.Stats) {
	text := fmt.Sprintf("remote execution: %d actions, %s sent, %s received", s.Executed, Size(s.Submitted), Size(s.Returned))
	if s.Beaten > 0 {
		text += fmt.Sprintf("; %d were done here first", s.Beaten)
	}
	if s.Lost > 0 {
		text += fmt.Sprintf("; %d were lost and ran here", s.Lost)
	}
	w.Front.Note(text)
}

// overdue is after how long an action elsewhere is waited for no longer, if it matters more than what runs here.
func (t *Tree) overdue(a *graph.Action) time.Duration { return max(2*time.Second, 4*t.cost(a)) }
