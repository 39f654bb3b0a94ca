package tree

import (
	"errors"
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
	for _, v := range db.root.views {
		if v.key == key {
			return db.view(v)
		}
	}
	return nil
}

// viewRoot holds the offsets of the blobs of a view; 0 for a blob that does not exist.
type viewRoot struct {
	key             [32]byte
	base, top, plan int64
}

// view opens a view. It returns nil if the view is damaged.
func (db *DB) view(root viewRoot) *View {
	if v := db.views[root]; v != nil {
		return v
	}
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
	db.views[root] = &View{t, db, root}
	return db.views[root]
}

// Known returns what the most recent view with an observation of this file recorded of it.
func (db *DB) Known(path string) (h cache.Hashed, ok bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, root := range db.root.views {
		v := db.view(root)
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

// SetView stores a view as the most recent one and replaces the one with the same key. It sorts the
// observations. A view without a plan cannot start a build of a part.
func (db *DB) SetView(key [32]byte, note []byte, list []cache.Observation) error {
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
	return db.replaceView(v)
}

// SetPlan stores the plan of the view with a key, which SetView has stored. The two need not be in
// memory together.
func (db *DB) SetPlan(key [32]byte, plan []byte) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	i := slices.IndexFunc(db.root.views, func(v viewRoot) bool { return v.key == key })
	if i < 0 {
		return errors.New("another process replaced the view in the database of the build tree")
	}
	at, err := db.writeBlob(plan)
	if err != nil {
		return err
	}
	db.root.views[i].plan = at
	return db.commit()
}

// replaceView makes v the first view and drops the views beyond maxViews.
func (db *DB) replaceView(v viewRoot) error {
	others := slices.DeleteFunc(slices.Clone(db.root.views), func(old viewRoot) bool { return old.key == v.key })
	db.root.views = append([]viewRoot{v}, others[:min(len(others), maxViews-1)]...)
	return db.commit()
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
