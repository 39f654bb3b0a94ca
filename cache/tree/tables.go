package tree

import (
	"crypto/sha256"

	"github.com/kbuild-dev/kbuild/cache"
)

// tables number the strings and pairs of the file. Neither stays in memory: there are millions.
type tables struct {
	strings table[string]
	pairs   table[cache.FileDigest]
}

func newTables() *tables {
	return &tables{strings: table[string]{ids: map[sum]uint64{}}, pairs: table[cache.FileDigest]{ids: map[sum]uint64{}}}
}

// table numbers values of one kind in order of appearance.
type table[T any] struct {
	base  uint64 // number of values in the index
	index []byte // offset of the entry of each value, 4 bytes
	offs  []int64
	// Number of recently appended values by payload; nil until the first write, since reading needs
	// none.
	ids    map[sum]uint64
	older  map[sum]uint64 // previous ids, replaced when full
	recent map[uint64]T
	read   func(at int64) (T, bool)
}

// sum is a hash of a payload. Half a SHA-256 is enough to avoid collisions.
type sum [16]byte

func sumOf(payload []byte) sum {
	h := sha256.Sum256(payload)
	return sum(h[:16])
}

// maxRecent limits the decoded values that a table keeps. Headers occur in very many records.
const maxRecent = 1 << 16

// maxKnown limits ids and older each; a variable for tests. Most strings belong to one action and
// would fill the memory. Shared strings recur often enough to remain.
var maxKnown = 1 << 16

// at decodes a number from d and returns its value.
func (t *table[T]) at(d *reader) (v T) {
	id := d.uvarint()
	if v, ok := t.recent[id]; ok {
		return v
	}
	off, ok := t.offset(id)
	if ok {
		v, ok = t.read(off)
	}
	if d.bad = d.bad || !ok; ok {
		if t.recent == nil || len(t.recent) == maxRecent {
			t.recent = map[uint64]T{}
		}
		t.recent[id] = v
	}
	return v
}

// offset returns the start of the entry of a value.
func (t *table[T]) offset(id uint64) (int64, bool) {
	if id < t.base {
		return int64(le.Uint32(t.index[4*id:])), true
	}
	if id -= t.base; id < uint64(len(t.offs)) {
		return t.offs[id], true
	}
	return 0, false
}

// id returns the number of the value with this payload. fresh means that the caller must append the
// value at off. A value is fresh if it is new, or if ids no longer has it; then it gets a new
// number.
func (t *table[T]) id(payload []byte, off int64) (id uint64, fresh bool) {
	k := sumOf(payload)
	id, known := t.ids[k]
	if known {
		return id, false
	}
	if id, known = t.older[k]; !known {
		id = t.base + uint64(len(t.offs))
		t.offs = append(t.offs, off)
	}
	t.remember(k, id)
	return id, !known
}

// remember adds a number to ids.
func (t *table[T]) remember(k sum, id uint64) {
	if len(t.ids) >= maxKnown {
		t.ids, t.older = map[sum]uint64{}, t.ids
	}
	t.ids[k] = id
}

// know fills ids with the last values that the index does not cover.
func (t *table[T]) know(payload func(at int64) ([]byte, bool)) {
	if t.ids != nil {
		return
	}
	t.ids = map[sum]uint64{}
	from := max(0, len(t.offs)-maxKnown)
	for i, off := range t.offs[from:] {
		if b, ok := payload(off); ok {
			t.remember(sumOf(b), t.base+uint64(from+i))
		}
	}
}

// str reads a string.
func (db *DB) str(at int64) (string, bool) {
	b, ok := db.entry(at, kindString)
	return string(b), ok
}

// pair reads a pair.
func (db *DB) pair(at int64) (cache.FileDigest, bool) {
	b, ok := db.entry(at, kindPair)
	if !ok {
		return cache.FileDigest{}, false
	}
	d := &reader{b: b}
	p := db.records.pair(d)
	return p, !d.bad && len(d.b) == 0
}
