package tree

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"io"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
)

// records finds the last successful run of each action. Records are decoded on demand. A build that
// needs a few among very many actions reads only their records, by the index. The index is a blob:
//
//	numbers of strings, pairs and records (4 bytes each);
//	offset of each string's and each pair's entry (4 bytes each);
//	of each record: hash of its first output (8 bytes), offset (4), sorted;
//	if an earlier version wrote it, the same by command keys
type records struct {
	strings, pairs *table
	outputs        []byte // of the index, placeSize bytes for each record

	// Records that the index does not cover, and some that it does. The value of an output without
	// a valid record is nil.
	byOutput      map[string]*logged
	decoded       int // number of records that stay decoded
	recentStrings map[uint64]string
	recentPairs   map[uint64]cache.FileDigest
}

// logged is a record in the log.
type logged struct {
	output string        // first output path
	at     int64         // offset of its entry
	rec    *cache.Record // nil if not decoded, or not retained
}

const placeSize = 12

// maxDecoded limits the decoded records that stay in memory. One takes about 14 KiB. maxRecent
// limits the decoded strings and pairs. Headers occur in very many records.
const (
	maxDecoded = 4096
	maxRecent  = 1 << 16
)

// maxKnown limits the numbers that a table knows; a variable for tests. Most strings belong to one
// action and would fill the memory. Shared strings recur often enough to be appended again.
var maxKnown = 1 << 17

// table numbers the strings or the pairs of a file in order of appearance. They do not stay in
// memory: there are millions.
type table struct {
	index []byte // offset of the entry of each value that the index covers, 4 bytes
	offs  []byte // the same of the others
	known map[sum]uint64
}

// sum is a hash of a payload. Half a SHA-256 is enough to avoid collisions.
type sum [16]byte

func sumOf(payload []byte) sum {
	h := sha256.Sum256(payload)
	return sum(h[:16])
}

func newTable() *table { return &table{known: map[sum]uint64{}} }

// number returns the number of the value with this payload. fresh means that the caller must append
// the value at an offset. A value is fresh if it is new, or if known no longer has it; then it gets
// a new number.
func (t *table) number(payload []byte, at int64) (id uint64, fresh bool) {
	h := sumOf(payload)
	id, ok := t.known[h]
	if !ok {
		id = t.add(h, at)
	}
	return id, !ok
}

// add adds the value of an entry.
func (t *table) add(h sum, at int64) (id uint64) {
	id = uint64(len(t.index)+len(t.offs)) / 4
	t.offs = le.AppendUint32(t.offs, uint32(at))
	if len(t.known) >= maxKnown {
		clear(t.known)
	}
	t.known[h] = id
	return id
}

// value returns the payload of a value.
func (db *DB) value(t *table, id uint64, kind byte) ([]byte, bool) {
	offs, at := t.index, 4*id
	if at >= uint64(len(offs)) {
		offs, at = t.offs, at-uint64(len(offs))
	}
	if at >= uint64(len(offs)) {
		return nil, false
	}
	return db.entry(int64(le.Uint32(offs[at:])), kind)
}

// str returns the string with a number.
func (db *DB) str(id uint64) (string, bool) {
	r := db.records
	if s, ok := r.recentStrings[id]; ok {
		return s, true
	}
	b, ok := db.value(r.strings, id, kindString)
	if !ok {
		return "", false
	}
	if len(r.recentStrings) == maxRecent {
		clear(r.recentStrings)
	}
	s := string(b)
	r.recentStrings[id] = s
	return s, true
}

// pair returns the pair with a number.
func (db *DB) pair(id uint64) (p cache.FileDigest, ok bool) {
	r := db.records
	if p, ok := r.recentPairs[id]; ok {
		return p, true
	}
	b, ok := db.value(r.pairs, id, kindPair)
	c := codec{b: b, reading: true, db: db}
	c.str(&p.Path)
	if c.raw(p.Digest[:]); !ok || c.bad || len(c.b) > 0 {
		return p, false
	}
	if len(r.recentPairs) == maxRecent {
		clear(r.recentPairs)
	}
	r.recentPairs[id] = p
	return p, true
}

// writer collects entries to append. Its tables grow with them.
type writer struct {
	strings, pairs *table
	b              []byte
	at             int64 // offset of b in the file
}

// value returns the number of a value, and appends an entry first if the value is new.
func (w *writer) value(t *table, kind byte, payload []byte) uint64 {
	id, fresh := t.number(payload, w.at+int64(len(w.b)))
	if fresh {
		w.b = appendEntry(w.b, append([]byte{kind}, payload...))
	}
	return id
}

func (w *writer) str(s string) uint64 { return w.value(w.strings, kindString, []byte(s)) }

func (w *writer) pair(p cache.FileDigest) uint64 {
	return w.value(w.pairs, kindPair, append(binary.AppendUvarint(nil, w.str(p.Path)), p.Digest[:]...))
}

// record appends a record.
func (w *writer) record(r *cache.Record) *logged {
	l := &logged{output: r.Outputs[0].Path}
	c := codec{b: []byte{kindRecord}, w: w}
	c.start(&r.Command, &l.output)
	c.record(r, true)
	l.at = w.at + int64(len(w.b))
	w.b = appendEntry(w.b, c.b)
	return l
}

func (w *writer) removal(output string) {
	w.b = appendEntry(w.b, binary.AppendUvarint([]byte{kindRemoval}, w.str(output)))
}

// load reads the index, and the entries that it does not cover.
func (db *DB) load() {
	if db.records != nil {
		return
	}
	r := &records{strings: newTable(), pairs: newTable(), byOutput: map[string]*logged{},
		recentStrings: map[uint64]string{}, recentPairs: map[uint64]cache.FileDigest{}}
	db.records, db.size = r, headSize
	if b, ok := db.blob(db.root.index); ok && len(b) >= 12 {
		strings, pairs, places := 4*int(le.Uint32(b)), 4*int(le.Uint32(b[4:])), placeSize*int(le.Uint32(b[8:]))
		if b = b[12:]; len(b) == strings+pairs+places || len(b) == strings+pairs+2*places {
			r.strings.index, r.pairs.index, b = b[:strings], b[strings:strings+pairs], b[strings+pairs:]
			r.outputs, db.size = b[:places], db.root.covered
		}
	}
	for db.size < int64(len(db.data)) {
		size, ok := db.take(db.data[db.size:])
		if !ok {
			break
		}
		db.size += size
	}
	if db.size < db.rootEnd {
		db.root, db.rootEnd, db.views, db.damaged = root{}, 0, map[viewRoot]*View{}, true
	}
}

// take applies the first entry of b, which is at db.size, and returns its size.
func (db *DB) take(b []byte) (size int64, ok bool) {
	if len(b) > entryHead && b[entryHead] == kindBlob { // the reader of a blob checks its checksum
		size = entryHead + int64(le.Uint32(b))
		return size, size <= int64(len(b))
	}
	payload, ok := nextEntry(b)
	if !ok {
		return 0, false
	}
	r, c := db.records, codec{b: payload[1:], reading: true, db: db}
	switch payload[0] {
	case kindRoot:
	case kindString:
		r.strings.add(sumOf(payload[1:]), db.size)
	case kindPair:
		r.pairs.add(sumOf(payload[1:]), db.size)
	case kindRemoval:
		var output string
		if c.str(&output); !c.bad {
			r.byOutput[output] = nil
		}
	case kindRecord:
		l := &logged{at: db.size}
		if c.start(&cache.Key{}, &l.output); !c.bad {
			r.byOutput[l.output] = l
		}
	default:
		return 0, false
	}
	return entryHead + int64(len(payload)), !c.bad
}

// logged decodes the start of the record at a place in the index, unless another record has replaced
// that.
func (db *DB) logged(place []byte) *logged {
	l := &logged{at: int64(le.Uint32(place[8:]))}
	b, ok := db.entry(l.at, kindRecord)
	c := codec{b: b, reading: true, db: db}
	if c.start(&cache.Key{}, &l.output); !ok || c.bad {
		return nil
	}
	if known, ok := db.records.byOutput[l.output]; ok {
		if known != nil && known.at == l.at {
			return known
		}
		return nil
	}
	if len(db.records.byOutput) < maxDecoded {
		db.records.byOutput[l.output] = l
	}
	return l
}

// hashOutput must be the same in every process, so it has no seed.
func hashOutput(path string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, path)
	return h.Sum64()
}

// last returns the record of an output, or nil.
func (db *DB) last(output string) *logged {
	if l, ok := db.records.byOutput[output]; ok {
		return l
	}
	list, hash := db.records.outputs, hashOutput(output)
	n := len(list) / placeSize
	i := sort.Search(n, func(i int) bool { return le.Uint64(list[placeSize*i:]) >= hash })
	for ; i < n && le.Uint64(list[placeSize*i:]) == hash; i++ {
		if l := db.logged(list[placeSize*i:]); l != nil && l.output == output {
			return l
		}
	}
	return nil
}

// Last returns the record of the action whose first output is output, or nil. Records are shared
// and must not be changed.
func (db *DB) Last(output string) *cache.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.load()
	return db.decode(db.last(output))
}

// LastRun is Last without Fields, which are most of a record. A cached record may have them anyway.
func (db *DB) LastRun(output string) *cache.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.load()
	l := db.last(output)
	if l == nil || l.rec != nil {
		return db.decode(l)
	}
	return db.read(l, false)
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
	all := make([]*logged, 0, len(r.byOutput)+len(r.outputs)/placeSize)
	for at := 0; at < len(r.outputs); at += placeSize {
		if l := db.logged(r.outputs[at:]); l != nil && r.byOutput[l.output] == nil {
			all = append(all, l)
		}
	}
	for _, l := range r.byOutput {
		if l != nil {
			all = append(all, l)
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
	rec := db.read(l, true)
	if rec != nil && db.records.decoded < maxDecoded {
		l.rec = rec
		db.records.decoded++
	}
	return rec
}

// read decodes a record, with or without its fields. It returns nil if the record is damaged.
func (db *DB) read(l *logged, fields bool) *cache.Record {
	b, ok := db.entry(l.at, kindRecord)
	c, rec, output := codec{b: b, reading: true, db: db}, &cache.Record{}, ""
	c.start(&rec.Command, &output)
	if c.record(rec, fields); !ok || c.bad || len(c.b) > 0 || len(rec.Outputs) == 0 {
		return nil
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
	l := w.record(r)
	if err := db.write(w.b); err != nil {
		return err
	}
	db.records.byOutput[l.output] = l
	return nil
}

// writer returns a writer that appends to the log.
func (db *DB) writer() *writer {
	return &writer{strings: db.records.strings, pairs: db.records.pairs, at: db.size}
}

// Remove drops the record of an output, if there is one.
func (db *DB) Remove(output string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.load()
	if db.last(output) == nil {
		return nil
	}
	err := db.writable()
	db.records.byOutput[output] = nil // for this run, even if the file cannot be written
	if err != nil {
		return err
	}
	w := db.writer()
	w.removal(output)
	return db.write(w.b)
}

// writeIndex appends an index of all entries in the log.
func (db *DB) writeIndex() (err error) {
	r, all := db.records, db.sorted()
	var b []byte
	for _, n := range []int{(len(r.strings.index) + len(r.strings.offs)) / 4, (len(r.pairs.index) + len(r.pairs.offs)) / 4, len(all)} {
		b = le.AppendUint32(b, uint32(n))
	}
	b = slices.Concat(b, r.strings.index, r.strings.offs, r.pairs.index, r.pairs.offs)
	type place struct {
		hash uint64
		at   int64
	}
	var places []place
	for _, l := range all {
		places = append(places, place{hashOutput(l.output), l.at})
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
	for _, p := range places {
		b = le.AppendUint64(b, p.hash)
		b = le.AppendUint32(b, uint32(p.at))
	}
	db.root.covered = db.size
	db.root.index, err = db.writeBlob(b)
	return err
}
