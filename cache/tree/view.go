package tree

import (
	"errors"
	"os"
	"slices"
	"sort"

	"github.com/kbuild-dev/kbuild/cache"
)

// View holds what builds with one command line observed, and the plan that they carried out.
//
// Rewriting many observations after a small change would cost more than checking all files. So
// Update writes changes to a second blob of the same format, the top. An observation in the top
// replaces the one with the same path in the base. A top that has grown too large becomes the new
// base.
type View struct {
	db     *DB
	root   viewRoot
	base   *observations
	top    *observations // or nil
	hidden map[int]bool  // observations of base that one in top replaces
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
	v := &View{db: db, root: db.root.views[i]}
	if v.base = db.observations(v.root.base); v.base == nil {
		return nil
	}
	if v.root.top != 0 {
		if v.top = db.observations(v.root.top); v.top == nil {
			return nil
		}
		v.hide()
	}
	db.views[i] = v
	return v
}

func (db *DB) observations(at int64) *observations {
	b, ok := db.blob(at)
	if !ok {
		return nil
	}
	s, err := parse(b)
	if err != nil {
		return nil
	}
	return s
}

func (v *View) hide() {
	v.hidden = map[int]bool{}
	for i := range v.top.entries {
		if k, ok := sort.Find(len(v.base.entries), func(k int) int { return compare(v.top.path(i), v.base.path(k)) }); ok {
			v.hidden[k] = true
		}
	}
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
	blob, err := encode(note, list)
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
			return errors.New("the database of the build tree was made anew meanwhile")
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
	given := map[string]bool{}
	for _, o := range list {
		given[o.Path] = true
	}
	merged := slices.Clone(list)
	if v.top != nil {
		merged = v.top.without(given, merged)
	}
	whole := len(merged) > len(v.base.entries)/8
	if whole {
		for _, o := range merged {
			given[o.Path] = true
		}
		merged = v.base.without(given, merged)
	}
	blob, err := encode(note, merged)
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
		return errors.New("the database of the build tree has another view by now")
	}
	fresh := v.root
	at, err := db.writeBlob(blob)
	if err != nil {
		return err
	}
	if fresh.top = at; whole {
		fresh.base, fresh.top = at, 0
	}
	return db.replaceView(fresh)
}

// without appends the observations whose paths are not in given.
func (s *observations) without(given map[string]bool, list []cache.Observation) []cache.Observation {
	for i := range s.entries {
		if !given[s.path(i)] {
			list = append(list, s.at(i))
		}
	}
	return list
}

// Refresh replaces the stats of observations.
func (v *View) Refresh(stats map[int]cache.Stat) error {
	var list []cache.Observation
	for i, st := range stats {
		o := v.At(i)
		o.Stat, o.Young, o.Seen = st, false, 0
		list = append(list, o)
	}
	return v.Update(slices.Clone(v.Note()), list)
}

// At returns observation i as it was written.
func (v *View) At(i int) cache.Observation {
	s, i := v.layer(i)
	return s.at(i)
}

// All returns the observations as they were written, indexed by number. It includes those that
// Update has replaced.
func (v *View) All() (list []cache.Observation) {
	for i := range v.base.entries {
		list = append(list, v.base.at(i))
	}
	if v.top != nil {
		for i := range v.top.entries {
			list = append(list, v.top.at(i))
		}
	}
	return list
}

// layer returns the blob of an observation and its number there.
func (v *View) layer(i int) (*observations, int) {
	if i >= len(v.base.entries) {
		return v.top, i - len(v.base.entries)
	}
	return v.base, i
}

// Find returns the number of the observation of a path.
func (v *View) Find(path string) (i int, ok bool) {
	if v.top != nil {
		if i, ok := v.top.find(path); ok {
			return i + len(v.base.entries), true
		}
	}
	return v.base.find(path)
}

// Note returns the note of the last write. It is invalid after DB.Close.
func (v *View) Note() []byte {
	if v.top != nil {
		return v.top.note
	}
	return v.base.note
}

// Plan returns the plan of the view, or nil. It is invalid after DB.Close.
func (v *View) Plan() []byte {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	b, _ := v.db.blob(v.root.plan)
	return b
}
