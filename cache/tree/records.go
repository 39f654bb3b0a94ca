package tree

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
)

// records finds the last successful run of each action. Records are decoded on demand.
type records struct {
	tables
	index     *index // covers what the fields below do not; nil without one
	byOutput  map[string]*logged
	byCommand map[cache.Key]*logged
	gone      map[string]bool // outputs whose record in the index is no longer valid
	decoded   int             // number of records that stay decoded
}

// logged is a record in the log.
type logged struct {
	output  string // first output path
	command cache.Key
	at      int64         // offset of its entry
	size    int64         // of its entry
	rec     *cache.Record // nil if not decoded, or not retained
}

// maxDecoded limits the decoded records that stay in memory. One takes about 14 KiB.
const maxDecoded = 4096

// load reads the entries that the index does not cover.
func (db *DB) load() {
	if db.records != nil {
		return
	}
	r := &records{byOutput: map[string]*logged{}, byCommand: map[cache.Key]*logged{}, gone: map[string]bool{}}
	db.records, db.size = r, headSize
	r.strings.read, r.pairs.read = db.str, db.pair
	if db.openIndex() {
		db.size = db.root.covered
	}
	for db.size < int64(len(db.data)) {
		rest := db.data[db.size:]
		if n, ok := blobSize(rest); ok { // the reader of a blob checks its checksum
			db.size += n
			continue
		}
		payload, ok := nextEntry(rest)
		dead, ok := r.take(payload, ok, db.size)
		if !ok {
			break
		}
		if db.size >= db.rootEnd { // the root includes all earlier ones
			db.root.dead += dead
		}
		db.size += entryHead + int64(len(payload))
	}
	if db.size < db.rootEnd {
		db.root, db.rootEnd, db.views, db.damaged = root{}, 0, nil, true
	}
}

// take applies the payload of the entry at an offset. whole reports a correct checksum. dead is the
// number of bytes that the entry makes invalid.
func (r *records) take(payload []byte, whole bool, at int64) (dead int64, ok bool) {
	if !whole {
		return 0, false
	}
	d, size := &reader{b: payload[1:]}, entryHead+int64(len(payload))
	switch payload[0] {
	case kindRoot:
		return 0, true
	case kindString:
		r.strings.offs = append(r.strings.offs, at)
		return 0, true
	case kindPair:
		r.pair(d)
		r.pairs.offs = append(r.pairs.offs, at)
	case kindRemoval:
		dead = r.drop(r.strings.at(d)) + size
	case kindRecord:
		if l := r.logged(d, at, size); !d.bad {
			dead = r.keep(l)
		}
		return dead, !d.bad
	default:
		return 0, false
	}
	return dead, !d.bad && len(d.b) == 0
}

// pair decodes the payload of a pair.
func (t *tables) pair(d *reader) cache.FileDigest {
	p := cache.FileDigest{Path: t.strings.at(d)}
	copy(p.Digest[:], d.bytes(uint64(len(p.Digest))))
	return p
}

// logged decodes the beginning of a record's payload.
func (t *tables) logged(d *reader, at, size int64) *logged {
	l := &logged{at: at, size: size}
	copy(l.command[:], d.bytes(uint64(len(l.command))))
	l.output = t.strings.at(d)
	return l
}

// keep makes l the record of its output and returns the size of the one that it replaces.
func (r *records) keep(l *logged) (dead int64) {
	dead = r.drop(l.output)
	r.byOutput[l.output], r.byCommand[l.command] = l, l
	return dead
}

// drop removes the record of an output and returns its size.
func (r *records) drop(output string) (dead int64) {
	old := r.last(output)
	if r.index != nil {
		r.gone[output] = true
	}
	if old == nil {
		return 0
	}
	delete(r.byOutput, output)
	if r.byCommand[old.command] == old {
		delete(r.byCommand, old.command)
	}
	return old.size
}

func (r *records) last(output string) *logged {
	l := r.byOutput[output]
	if l == nil && r.index != nil && !r.gone[output] {
		l = r.index.byOutput(output)
	}
	return l
}

// Last returns the record of the action whose first output is output, or nil. Records are shared
// and must not be changed.
func (db *DB) Last(output string) *cache.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.load()
	return db.decode(db.records.last(output))
}

// LastRun is Last without Fields, which are most of a record. A cached record may have them anyway.
func (db *DB) LastRun(output string) *cache.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.load()
	l := db.records.last(output)
	if l == nil || l.rec != nil {
		return db.decode(l)
	}
	b, _ := db.entry(l.at, kindRecord)
	return db.records.parseRecord(b, false)
}

// ByCommand returns the record with this command key, or nil.
func (db *DB) ByCommand(command cache.Key) *cache.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.load()
	r := db.records
	l := r.byCommand[command]
	if l == nil && r.index != nil {
		if l = r.index.byCommand(command); l != nil && r.gone[l.output] {
			l = nil
		}
	}
	return db.decode(l)
}

// All yields the records, sorted by first output.
func (db *DB) All() iter.Seq[*cache.Record] {
	return func(yield func(*cache.Record) bool) {
		db.mu.Lock()
		db.load()
		all := db.sorted()
		db.mu.Unlock()
		for _, l := range all {
			db.mu.Lock()
			rec := db.decode(l)
			db.mu.Unlock()
			if rec != nil && !yield(rec) {
				return
			}
		}
	}
}

// sorted returns the valid records, sorted by first output.
func (db *DB) sorted() []*logged {
	r := db.records
	all := make([]*logged, 0, len(r.byOutput))
	for _, l := range r.byOutput {
		all = append(all, l)
	}
	if r.index != nil {
		for l := range r.index.all() {
			if !r.gone[l.output] {
				all = append(all, l)
			}
		}
	}
	slices.SortFunc(all, func(a, b *logged) int { return strings.Compare(a.output, b.output) })
	return all
}

// decode returns the record of l, or nil if it cannot be decoded.
func (db *DB) decode(l *logged) *cache.Record {
	if l == nil {
		return nil
	}
	if l.rec != nil {
		return l.rec
	}
	b, ok := db.entry(l.at, kindRecord)
	if !ok {
		return nil
	}
	rec := db.records.parseRecord(b, true)
	if rec != nil && db.records.decoded < maxDecoded {
		l.rec = rec
		db.records.decoded++
	}
	return rec
}

// Append stores r as the record of its first output. r must not be changed afterwards.
func (db *DB) Append(r *cache.Record) error {
	if len(r.Outputs) == 0 {
		panic("BUG: a record without outputs for the database of the build tree")
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	w := db.writer()
	size := w.record(r)
	if err := db.write(w.b); err != nil {
		return err
	}
	if db.records.strings.base > 0 {
		db.root.dead += int64(len(w.b)) - size // strings that the index knows, most of them
	}
	db.root.dead += db.records.keep(&logged{output: r.Outputs[0].Path, command: r.Command, at: db.size - size, size: size})
	return nil
}

// writer returns a writer that appends to the log.
func (db *DB) writer() *writer {
	t := &db.records.tables
	t.strings.know(func(at int64) ([]byte, bool) { return db.entry(at, kindString) })
	t.pairs.know(func(at int64) ([]byte, bool) { return db.entry(at, kindPair) })
	return &writer{tables: t, at: db.size}
}

// Remove drops the record of an output, if there is one.
func (db *DB) Remove(output string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.load()
	if db.records.last(output) == nil {
		return nil
	}
	if err := db.writable(); err != nil {
		db.records.drop(output) // for this run, even if the file cannot be written
		return err
	}
	db.root.dead += db.records.drop(output)
	w := db.writer()
	db.root.dead += w.removal(output)
	return db.write(w.b)
}

// blobSize returns the size of the entry at the start of b, if it is that of a blob.
func blobSize(b []byte) (int64, bool) {
	if len(b) <= entryHead || b[entryHead] != kindBlob {
		return 0, false
	}
	n := entryHead + int64(le.Uint32(b))
	return n, n <= int64(len(b)) && n < math.MaxUint32
}
