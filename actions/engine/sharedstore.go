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
	"sync/atomic"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// sharedStore is the store of this machine with a cache on another one behind it. Content comes
// from there when something reads it: what passes hand to each other never does, if all that is
// made of it is there.
type sharedStore struct {
	*disk.Store
	remote *remote.Cache

	taken atomic.Int64 // hits by records from there

	mu    sync.Mutex
	other map[recordName]int // how often this machine's store has lacked a record that is there, and was not yet used
}

var _ cache.Distant = (*sharedStore)(nil)

// recordName tells records apart: one id may stand under many keys.
type recordName struct{ command, id cache.Key }

func nameOf(r *cache.Record) recordName { return recordName{r.Command, r.ID()} }

// openRemote starts what speaks to the remote cache; nil if there is none.
func (w *Workspace) openRemote(store *disk.Store, named manifest.Cache) (*sharedStore, error) {
	r := w.remoteCache(named)
	if r.address == "" {
		return nil, nil
	}
	warn := func(text string) { w.Front.Note("warning: " + text) }
	program, err := remoteProgram()
	if err == nil {
		var c *remote.Cache
		if c, err = remote.Start(remote.Options{Program: program, Address: r.address, Dir: store.Folder(), ReadOnly: r.readOnly, Anonymous: r.anonymous, Execute: w.RemoteExec,
			Patience: w.Patience, Server: r.server, Warn: warn}); err == nil {
			return &sharedStore{Store: store, remote: c, other: map[recordName]int{}}, nil
		}
	}
	if w.Remote != nil {
		return nil, err
	}
	warn(err.Error()) // who builds has not asked for it
	return nil, nil
}

// remoteCache is the cache on another machine that a build has.
type remoteCache struct {
	address   string // "" is none
	server    string // of the address, HOST:PORT
	readOnly  bool
	anonymous bool // the server is not to learn who asks
}

// remoteCache is what the command line, the environment and the manifest say together. The address
// is that of the first of them that names one, if only an empty one. Nothing is sent where any of
// them says so: what a project forbids to all who build it, one of them may not want back.
//
// Credentials are the user's, and an address of the manifest is not: any project could have them
// sent to a server of its choice. So a server that the manifest names gets them only where the user
// has listed it. Where there is a list, it holds for other addresses too: those may be of a script
// of the project.
func (w *Workspace) remoteCache(named manifest.Cache) remoteCache {
	r := remoteCache{address: named.Remote, readOnly: w.ReadOnly || named.ReadOnly, anonymous: w.Remote == nil || len(w.RemoteHosts) > 0}
	if w.Remote != nil {
		r.address = *w.Remote
	}
	u, err := cache.ParseAddress(r.address)
	if err != nil {
		return r // which is told when it is used
	}
	r.server = cache.ServerOf(u)
	if slices.ContainsFunc(w.RemoteHosts, func(host string) bool { return strings.EqualFold(host, r.server) }) {
		r.anonymous = false
	}
	return r
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
		return "", errors.New("the remote cache needs the program kbuild-remote, which is neither beside kbuild nor in PATH: install both of one version, or build without it: --remote=''")
	}
	return program, nil
}

// Elsewhere implements cache.Distant.
func (s *sharedStore) Elsewhere(ctx context.Context, command cache.Key) []*cache.Record {
	return slices.DeleteFunc(s.remote.Records(ctx, command), (*cache.Record).Suspect)
}

// Confirm implements cache.Distant.
func (s *sharedStore) Confirm(ctx context.Context, r *cache.Record) bool {
	if !s.remote.Has(ctx, r) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other[nameOf(r)]++
	return true
}

// Missed implements cache.Distant.
func (s *sharedStore) Missed() { s.remote.Missed() }

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
		s.mu.Lock()
		delete(s.other, nameOf(r)) // it is here now
		s.mu.Unlock()
		s.remote.Store(r)
	}
	return err
}

// passes is the store for what passes hand to each other. A record of a pass is of use without what
// the pass made: by it others are found, and as a rule all of them, so that nothing needs the
// content.
type passes struct{ *sharedStore }

// Used implements cache.Store.
func (p passes) Used(r *cache.Record) { p.used(r, p.Store.KeepWithout) }

// Used implements cache.Store.
func (s *sharedStore) Used(r *cache.Record) { s.used(r, s.Store.Keep) }

// used notes that r was used. Without keeping one that came, this machine would ask again.
func (s *sharedStore) used(r *cache.Record, keep func(*cache.Record) error) {
	name := nameOf(r)
	s.mu.Lock()
	other := s.other[name] > 0
	if other {
		s.other[name]--
	}
	s.mu.Unlock()
	if other {
		s.taken.Add(1)
		keep(r)
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

// overdue is after how long an action elsewhere is waited for no longer, if it matters more than
// what runs here.
func (t *Tree) overdue(a *graph.Action) time.Duration { return max(2*time.Second, 4*t.cost(a)) }
