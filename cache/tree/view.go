package tree

import (
	"errors"
	"os"
	"slices"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
)

// View is the trace of the builds with one command line, and the plan that they carried out. The
// value of the trace is the note of the build. It is invalid after DB.Close.
type View struct {
	*trace.Trace
	db   *DB
	root viewRoot
}

// maxViews limits the number of command lines with a view in a build tree.
const maxViews = 4

// View returns the view with a key, or nil if there is none. The key covers the command line, the
// environment and everything besides files that determines a build.
func (db *DB) View(key [32]byte) *View {
	db.mu.Lock()
	defer db.mu.Unlock()
	for i, v := range db.root.views {
		if v.key == key {
			return db.view(i)
		}
	}
	return nil
}

// view opens a view. It returns nil if the view is damaged.
func (db *DB) view(i int) *View {
	if db.views[i] != nil {
		return db.views[i]
	}
	root := db.root.views[i]
	base, ok := db.blob(root.base)
	if !ok {
		return nil
	}
	var top []byte
	if root.top != 0 {
		if top, ok = db.blob(root.top); !ok {
			return nil
		}
	}
	t, err := trace.Open(base, top)
	if err != nil {
		return nil
	}
	db.views[i] = &View{t, db, root}
	return db.views[i]
}

// Known returns what the most recent view with an observation of this file recorded of it.
func (db *DB) Known(path string) (h cache.Hashed, ok bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for i := range db.root.views {
		v := db.view(i)
		if v == nil {
			continue
		}
		n, found := v.Find(path)
		if !found {
			continue
		}
		o := v.At(n)
		if o.Kind != cache.KindFile || o.Digest.IsZero() || o.Stat.Ino == 0 || o.Young && o.Seen == 0 {
			return h, false
		}
		h = cache.Hashed{Stat: o.Stat, Digest: o.Digest, At: o.Seen}
		if !o.Young {
			h.At = cache.LongAgo
		}
		return h, true
	}
	return h, false
}

// Plan is a plan that was written and does not belong to a view yet.
type Plan struct {
	at, size int64
	file     *os.File // at is an offset in this file, not in a rewritten one
}

// WritePlan writes the plan of a future view, so that it need not stay in memory while the
// observations are collected.
func (db *DB) WritePlan(plan []byte) (*Plan, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return nil, err
	}
	at, err := db.writeBlob(plan)
	if err != nil {
		return nil, err
	}
	db.root.dead += int64(len(plan)) // until SetView uses it
	return &Plan{at, int64(len(plan)), db.file}, nil
}

// SetView stores a view as the most recent one and replaces the one with the same key. It sorts the
// observations. A view without a plan cannot start a build.
func (db *DB) SetView(key [32]byte, note []byte, plan *Plan, list []cache.Observation) error {
	blob, err := trace.Encode(note, list)
	if err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	v := viewRoot{key: key}
	if v.base, err = db.writeBlob(blob); err != nil {
		return err
	}
	if plan != nil {
		if plan.file != db.file {
			return errors.New("another process rewrote the database of the build tree")
		}
		v.plan = plan.at
		db.root.dead -= plan.size
	}
	return db.replaceView(v)
}

// replaceView makes v the first view and drops the views beyond maxViews.
func (db *DB) replaceView(v viewRoot) error {
	views := []viewRoot{v}
	for _, old := range db.root.views {
		switch {
		case old.key == v.key:
			db.lose(old, v)
		case len(views) < maxViews:
			views = append(views, old)
		default:
			db.lose(old, viewRoot{})
		}
	}
	db.root.views, db.views = views, make([]*View, len(views))
	return db.commit()
}

// lose counts the blobs of old as dead, except those that its replacement by shares.
func (db *DB) lose(old, by viewRoot) {
	keep := []int64{0, by.base, by.top, by.plan}
	for _, at := range []int64{old.base, old.top, old.plan} {
		if b, ok := db.blob(at); ok && !slices.Contains(keep, at) {
			db.root.dead += int64(len(b))
		}
	}
}

// Update replaces the observations with the same paths, and the note.
func (v *View) Update(note []byte, list []cache.Observation) error {
	blob, isBase, err := v.Merge(note, list)
	if err != nil {
		return err
	}
	db := v.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	if !slices.Contains(db.root.views, v.root) {
		return errors.New("another process replaced the view in the database of the build tree")
	}
	fresh := v.root
	at, err := db.writeBlob(blob)
	if err != nil {
		return err
	}
	if fresh.top = at; isBase {
		fresh.base, fresh.top = at, 0
	}
	return db.replaceView(fresh)
}

// Refresh replaces the stats of observations.
func (v *View) Refresh(stats map[int]cache.Stat) error {
	var list []cache.Observation
	for i, st := range stats {
		o := v.At(i)
		o.Stat, o.Young, o.Seen = st, false, 0
		list = append(list, o)
	}
	return v.Update(slices.Clone(v.Value()), list)
}

// Plan returns the plan of the view, or nil. It is invalid after DB.Close.
func (v *View) Plan() []byte {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	b, _ := v.db.blob(v.root.plan)
	return b
}
