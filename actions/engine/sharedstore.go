package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/inprocess"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// sharedStore is the local store with a remote cache behind it. It fetches content when an action
// reads it. It never fetches what passes hand to each other, if all that is built from that is
// available.
type sharedStore struct {
	*disk.Store
	remote *remote.Cache

	taken atomic.Int64 // remote records that were used
}

var _ cache.Distant = (*sharedStore)(nil)

// openRemote starts the client of the remote cache. It returns nil if there is none.
func (w *Workspace) openRemote(store *disk.Store, named manifest.Cache) (*sharedStore, error) {
	o := w.remoteOptions(named)
	if o.Address == "" {
		return nil, nil
	}
	o.Dir, o.Execute, o.Patience = store.Folder(), w.RemoteExec, w.Patience
	o.Warn = func(text string) { w.UI.Note("warning: " + text) }
	program, err := remoteProgram()
	if err == nil {
		o.Program = program
		var c *remote.Cache
		if c, err = remote.Start(o); err == nil {
			return &sharedStore{Store: store, remote: c}, nil
		}
	}
	if w.Remote != nil {
		return nil, err
	}
	o.Warn(err.Error()) // the user has not asked for it
	return nil, nil
}

// remoteOptions combines the command line, the environment and the manifest. The address is that of
// the first of them that names one, even an empty one. Nothing is sent if any of them forbids it: a
// single user must not lift what a project forbids to all.
//
// Credentials are the user's, and an address in the manifest is not: any project could have them
// sent to a server of its choice. So a server that the manifest names gets them only if the user
// has listed it. If there is a list, it applies to other addresses too: those may come from a
// script of the project.
func (w *Workspace) remoteOptions(named manifest.Cache) remote.Options {
	o := remote.Options{Address: named.Remote, ReadOnly: w.ReadOnly || named.ReadOnly, Anonymous: w.Remote == nil || len(w.RemoteHosts) > 0}
	if w.Remote != nil {
		o.Address = *w.Remote
	}
	// an error is reported when the address is used
	if u, err := cache.ParseAddress(o.Address); err == nil {
		o.Server = cache.ServerOf(u)
		for _, host := range w.RemoteHosts {
			o.Anonymous = o.Anonymous && !strings.EqualFold(host, o.Server)
		}
	}
	return o
}

// remoteProgram returns kbuild-remote, which is beside kbuild or in PATH.
func remoteProgram() (string, error) {
	if exe, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(exe), "kbuild-remote"); cache.Exists(beside) {
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
func (s *sharedStore) Confirm(ctx context.Context, r *cache.Record) bool { return s.remote.Has(ctx, r) }

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
		s.remote.Store(r)
	}
	return err
}

// passes is the store for what passes hand to each other. A record of a pass is useful without the
// outputs of the pass. It leads to other records, and as a rule all of them exist, so that no
// action needs the content.
type passes struct{ *sharedStore }

// Used implements cache.Store.
func (p passes) Used(r *cache.Record) {
	if p.Store.Has(r) {
		p.Store.Used(r)
		return
	}
	p.taken.Add(1)
	p.Store.KeepWithout(r)
}

// Used implements cache.Store. It keeps a record that came from the remote cache. Otherwise this
// machine would query for it again.
func (s *sharedStore) Used(r *cache.Record) {
	if s.Store.Has(r) {
		s.Store.Used(r)
		return
	}
	s.taken.Add(1)
	s.Store.Keep(r)
}

// tell shows what a build received from the remote cache and sent to it, and what ran remotely.
func (w *Workspace) tell(s remote.Stats) {
	if s.Server == "" { // it was never reached, which was reported
		return
	}
	text := fmt.Sprintf("remote cache: %d of %d found, %s received", s.Hits, s.Hits+s.Misses, Size(s.Received))
	if s.Stored > 0 {
		text += fmt.Sprintf("; %d stored, %s sent", s.Stored, Size(s.Sent))
	}
	if s.Unsent > 0 {
		text += fmt.Sprintf("; %d not stored", s.Unsent)
	}
	if s.Off {
		text += "; given up"
	}
	w.UI.Note(text)
	if s.Executed+s.Lost+s.Beaten == 0 {
		return
	}
	text = fmt.Sprintf("remote execution: %s, %s sent, %s received", graph.Count(s.Executed, "action"), Size(s.Submitted), Size(s.Returned))
	if s.Beaten > 0 {
		text += fmt.Sprintf("; %d were done here first", s.Beaten)
	}
	if s.Lost > 0 {
		text += fmt.Sprintf("; %d were lost and ran here", s.Lost)
	}
	w.UI.Note(text)
}

// Overdue is part of sched.Estimates.
func (t *Tree) Overdue(a *graph.Action) time.Duration { return max(2*time.Second, 4*t.Cost(a)) }

// Fingerprint returns what keys contain besides the project, with tools by the names that actions
// use for them. If any of it differs, no entry of the cache fits.
func (p *Project) Fingerprint() []cache.Field {
	tools := p.Tools()
	fields := []cache.Field{
		{Name: "key version", Value: cache.KeyVersion + "." + inprocess.Method},
		{Name: "platform", Value: runtime.GOOS + "/" + runtime.GOARCH},
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		fields = append(fields, cache.Field{Name: name, Value: strings.TrimSpace(tools[name].Version + " " + tools[name].ID)})
	}
	return append(fields, cache.Field{Name: "environment", Value: strings.Join(p.w.keyEnv(), " ")})
}

// alwaysFingerprint lists the fields of an identity that every bundle has. The other fields are the
// tools that its actions use.
var alwaysFingerprint = []string{"key version", "platform", "environment"}

// Bundle describes a bundle of the records in entries. missing are the actions without a record.
func (p *Project) Bundle(entries []execute.Entry) (m disk.Manifest, missing []*graph.Action) {
	fields := slices.Clone(alwaysFingerprint)
	var actions []*graph.Action
	for _, h := range entries {
		actions, fields = append(actions, h.Action), append(fields, h.Action.Tools...)
		m.Targets = append(m.Targets, h.Action.Target)
		if h.Record == nil {
			missing = append(missing, h.Action)
		} else {
			m.Entries = append(m.Entries, disk.Entry(h.Action.Outputs[0], h.Record))
		}
	}
	slices.Sort(m.Targets)
	m.Archs, m.Targets = shipped(actions), slices.Compact(m.Targets)
	m.Fingerprint = slices.DeleteFunc(p.Fingerprint(), func(f cache.Field) bool { return !slices.Contains(fields, f.Name) })
	return m, missing
}

// shipped returns the architectures of actions, except those whose outputs are only for the next
// pass.
func shipped(actions []*graph.Action) (archs []string) {
	for _, a := range actions {
		if !a.Intermediate {
			archs = append(archs, a.Archs...)
		}
	}
	slices.Sort(archs)
	return slices.Compact(archs)
}

// Unlike is a field of the identity of a bundle that has another value locally.
type Unlike struct{ Name, Bundle, Here string }

// Compare compares a bundle with the project. If differ has fields, none of the bundle's entries
// would be found. lacking lists the architectures that the project ships and the bundle lacks. The
// error reports a damaged bundle.
func (p *Project) Compare(m disk.Manifest) (differ []Unlike, lacking []string, err error) {
	here, named := map[string]string{}, map[string]bool{}
	for _, f := range p.Fingerprint() {
		here[f.Name] = f.Value
	}
	for _, f := range m.Fingerprint {
		named[f.Name] = true
		if is := here[f.Name]; is != f.Value {
			differ = append(differ, Unlike{f.Name, f.Value, is})
		}
	}
	for _, name := range alwaysFingerprint {
		if !named[name] {
			return nil, nil, fmt.Errorf("the manifest of the bundle is damaged: it does not name its %s", name)
		}
	}
	lacking = slices.DeleteFunc(shipped(p.Graph.Actions), func(a string) bool { return slices.Contains(m.Archs, a) })
	return differ, lacking, nil
}

// Bundles is the records of the imported bundles.
type Bundles struct {
	store *disk.Store
	names map[string]string // of records, by the first outputs of actions
}

// Imported returns the imported bundles.
func (t *Tree) Imported() (b Bundles) {
	if t.Store != nil {
		b = Bundles{t.Store, t.Store.Imported()}
	}
	return b
}

// Record returns the record of an action by its first output, or nil.
func (b Bundles) Record(output string) *cache.Record {
	if b.names[output] == "" {
		return nil
	}
	r, _ := b.store.Named(b.names[output]) // nil if gc removed it
	return r
}

// Covered returns what the fingerprints of the plan's tools cover: the files of each tool, and the
// paths that make kbuild query the tools again when they change.
func (p *Project) Covered(ctx context.Context) (files map[string][]string, queried []string) {
	byID, queried := probe.Covered(ctx, p.request)
	files = map[string][]string{}
	for name, tool := range p.Tools() {
		files[name] = byID[tool.ID]
	}
	return files, queried
}
