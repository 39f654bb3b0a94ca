package cache

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"sort"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Journal keeps the record of the last successful run of each action of one build tree in one file.
//
// The file is a magic line, 16 random bytes that no other journal has, and entries, only ever appended:
//
//	length of the payload (4 bytes), its CRC-32C (4 bytes), payload; the first byte of a payload is
//	its kind
//
// Strings and (path, digest) pairs are entries of their own, numbered in order of appearance, and
// records refer to them by number, as ninja's deps log does with paths. The sources of a project read
// mostly the same headers: 2,000 records of 500 headers each would be 160 MB as JSON and are 3 MB here.
// Records are decoded when asked for.
//
// Reading stops at the first entry that is torn or has a wrong sum; what follows is as if it never
// was, and those actions are looked up in the cache or run again. Opening only reads, so a command
// that looks at a tree which another process builds does no harm. The first write rewrites the file
// (temporary file and rename) if it was damaged or more than half of it is dead, and appends
// otherwise. No write is fsync'ed: outputs are checked by content against their record, so a journal
// that lost its tail costs time only. Only one process may write; whoever builds in the tree holds its lock.
type Journal struct {
	path string

	mu        sync.Mutex
	file      *os.File // nil until the first write
	size      int64    // good bytes of the file
	id        [16]byte
	index     *journalIndex // what is not in the fields below, in a journal opened by its index
	rewrite   bool          // the file must be rewritten before anything is appended
	strings   table[string]
	pairs     table[FileDigest]
	byOutput  map[string]*logged
	byCommand map[Key]*logged
	gone      map[string]bool // outputs whose record in the index does not count
	live      int             // bytes of entries of records that still count
	total     int             // bytes of entries of all records and removals
}

// logged is a record of the journal, decoded or not yet.
type logged struct {
	output  string // first output path
	command Key
	at      int64  // where its entry begins
	size    int    // of its entry
	raw     []byte // nil once decoded
	rec     *Record
}

// table numbers values in order of appearance.
type table[T comparable] struct {
	list  []T
	offs  []int64      // where the entry of each begins
	ids   map[T]uint64 // made when first needed: reading does not need it
	base  uint64       // the number of list[0]
	fetch func(id uint64) (T, bool)
}

const (
	journalMagic = "kbuild journal 4\n"
	journalHead  = len(journalMagic) + 16
	entryHead    = 8
)

// Kinds of payload.
const (
	kindString  = 's' // the text
	kindPair    = 'p' // number of the path (uvarint), digest
	kindRecord  = 'r' // see appendRecord
	kindRemoval = 'd' // number of the output path
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenJournal reads the journal of a build tree. An absent or damaged file is no error; one that
// cannot be read is.
func OpenJournal(path string) (*Journal, error) {
	j := &Journal{path: path, byOutput: map[string]*logged{}, byCommand: map[Key]*logged{}}
	b, err := regular.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.rewrite = true
	case err != nil:
		return nil, fmt.Errorf("reading the build journal: %w", err)
	default:
		j.load(b)
	}
	return j, nil
}

// load takes in the entries up to the first bad one. The records keep b.
func (j *Journal) load(b []byte) {
	if len(b) < journalHead || string(b[:len(journalMagic)]) != journalMagic {
		j.rewrite = true
		return
	}
	j.id = [16]byte(b[len(journalMagic):])
	j.size = int64(journalHead)
	j.rewrite = !j.takeAll(b[journalHead:]) || j.live < j.total/2
}

// takeAll applies entries, from where j.size says. ok is false if one is bad.
func (j *Journal) takeAll(b []byte) (ok bool) {
	for len(b) > 0 {
		payload, ok := nextEntry(b)
		if !ok || !j.take(payload) {
			return false
		}
		n := entryHead + len(payload)
		j.size += int64(n)
		b = b[n:]
	}
	return true
}

// nextEntry gives the payload of the first entry of b.
func nextEntry(b []byte) (payload []byte, ok bool) {
	if len(b) < entryHead {
		return nil, false
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	if n == 0 || n > uint64(len(b)-entryHead) {
		return nil, false
	}
	payload = b[entryHead : entryHead+n]
	return payload, crc32.Checksum(payload, castagnoli) == binary.LittleEndian.Uint32(b[4:])
}

// take applies one payload.
func (j *Journal) take(payload []byte) bool {
	r := &reader{b: payload[1:]}
	switch payload[0] {
	case kindString:
		j.strings.add(string(r.b), j.size)
		return true
	case kindPair:
		p := FileDigest{Path: j.strings.at(r)}
		copy(p.Digest[:], r.bytes(uint64(len(p.Digest))))
		j.pairs.add(p, j.size)
	case kindRecord:
		l := &logged{raw: payload[1:], at: j.size, size: entryHead + len(payload)}
		copy(l.command[:], r.bytes(uint64(len(l.command))))
		l.output = j.strings.at(r)
		if !r.bad {
			j.keep(l)
		}
		return !r.bad
	case kindRemoval:
		output := j.strings.at(r)
		j.total += entryHead + len(payload)
		j.drop(output)
	default:
		return false
	}
	return !r.bad && len(r.b) == 0
}

// keep makes l the record of its output.
func (j *Journal) keep(l *logged) {
	j.drop(l.output)
	j.byOutput[l.output], j.byCommand[l.command] = l, l
	j.live += l.size
	j.total += l.size
}

// drop forgets the record of an output.
func (j *Journal) drop(output string) bool {
	old, ok := j.byOutput[output]
	if j.index != nil {
		if !ok && !j.gone[output] {
			old = j.index.byOutput(output)
			ok = old != nil
		}
		j.gone[output] = true
	}
	if !ok {
		return false
	}
	delete(j.byOutput, output)
	if j.byCommand[old.command] == old {
		delete(j.byCommand, old.command)
	}
	j.live -= old.size
	return true
}

// Last is the record of the action whose first output is output, or nil. Records are shared: they
// must not be changed.
func (j *Journal) Last(output string) *Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.byOutput[output]
	if l == nil && j.index != nil && !j.gone[output] {
		l = j.index.byOutput(output)
	}
	return j.decode(l)
}

// ByCommand is the record with that command key, or nil.
func (j *Journal) ByCommand(command Key) *Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.byCommand[command]
	if l == nil && j.index != nil {
		if l = j.index.byCommand(command); l != nil && j.gone[l.output] {
			l = nil
		}
	}
	return j.decode(l)
}

// All gives the records, sorted by first output. A journal that was opened by its index does not know them all.
func (j *Journal) All() []*Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.index != nil {
		panic("BUG: all records of a journal that was opened by its index")
	}
	all := make([]*Record, 0, len(j.byOutput))
	for _, l := range j.sorted() {
		if r := j.decode(l); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// sorted gives the living records by first output.
func (j *Journal) sorted() []*logged {
	all := make([]*logged, 0, len(j.byOutput))
	for _, l := range j.byOutput {
		all = append(all, l)
	}
	sort.Slice(all, func(a, b int) bool { return all[a].output < all[b].output })
	return all
}

// decode gives the record of l; one that cannot be decoded is none.
func (j *Journal) decode(l *logged) *Record {
	if l == nil {
		return nil
	}
	if l.rec == nil && l.raw != nil {
		l.rec = j.parseRecord(l.raw)
		l.raw = nil
	}
	return l.rec
}

// Append makes r the record of its first output. r must not be changed afterwards.
func (j *Journal) Append(r *Record) error {
	if len(r.Outputs) == 0 {
		panic("BUG: a record without outputs for the journal")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.writable(); err != nil {
		return err
	}
	w := &entries{j: j, at: j.size}
	n := w.record(r)
	if err := j.write(w); err != nil {
		return err
	}
	j.keep(&logged{output: r.Outputs[0].Path, command: r.Command, at: j.size - int64(n), size: n, rec: r})
	return nil
}

// Remove forgets the record of an output, if there is one.
func (j *Journal) Remove(output string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.drop(output) {
		return nil
	}
	if err := j.writable(); err != nil { // forgotten for this run whatever happens to the file
		return err
	}
	w := &entries{j: j, at: j.size}
	j.total += w.removal(output)
	return j.write(w)
}

// Close closes the file. The journal must not be used afterwards.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.index.close()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// writable opens the file for appending, rewritten where it must be.
func (j *Journal) writable() error {
	if j.file != nil && !j.rewrite {
		return nil
	}
	err := error(fs.ErrNotExist)
	if !j.rewrite {
		j.file, err = regular.Open(j.path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = j.compact(); err == nil {
			j.file, err = regular.Open(j.path, os.O_WRONLY|os.O_APPEND, 0)
		}
	}
	if err != nil {
		j.file = nil
		return fmt.Errorf("writing the build journal: %w", err)
	}
	return nil
}

// compact rewrites the file with the living records only.
func (j *Journal) compact() error {
	if j.index != nil {
		return errors.New("the build journal was damaged while it was in use; build again")
	}
	all := j.sorted()
	for _, l := range all {
		if j.decode(l) == nil {
			j.drop(l.output)
		}
	}
	j.strings, j.pairs = table[string]{}, table[FileDigest]{}
	rand.Read(j.id[:])
	w := &entries{j: j, b: append([]byte(journalMagic), j.id[:]...)}
	j.live = 0
	for _, l := range all {
		if l.rec != nil {
			l.size = w.record(l.rec)
			l.at = int64(len(w.b) - l.size)
			j.live += l.size
		}
	}
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
	if err := regular.Replace(j.path, w.b); err != nil {
		return err
	}
	j.size, j.total, j.rewrite = int64(len(w.b)), j.live, false
	return nil
}

// write appends in one system call. What a failed one left behind ends the readable part of the file,
// so the next write starts with a rewrite.
func (j *Journal) write(w *entries) error {
	n, err := j.file.Write(w.b)
	j.size += int64(n)
	if err != nil {
		j.rewrite = true
		return fmt.Errorf("writing the build journal: %w", err)
	}
	return nil
}

// at takes the number of a value off r.
func (t *table[T]) at(r *reader) T {
	id := r.uvarint()
	if id < t.base {
		v, ok := t.fetch(id)
		r.bad = r.bad || !ok
		return v
	}
	if id -= t.base; id >= uint64(len(t.list)) {
		r.bad = true
		var none T
		return none
	}
	return t.list[id]
}

// add takes the next value, whose entry begins at off.
func (t *table[T]) add(v T, off int64) {
	t.list = append(t.list, v)
	t.offs = append(t.offs, off)
}

// id numbers v; fresh is true if v is new, or only stands in the index.
func (t *table[T]) id(v T) (id uint64, fresh bool) {
	if t.ids == nil {
		t.ids = make(map[T]uint64, len(t.list))
		for i, v := range t.list {
			t.ids[v] = t.base + uint64(i)
		}
	}
	id, ok := t.ids[v]
	if !ok {
		id = t.base + uint64(len(t.list))
		t.ids[v] = id
		t.add(v, 0)
	}
	return id, !ok
}

// placed says where the entry of the last value begins.
func (t *table[T]) placed(off int64) { t.offs[len(t.offs)-1] = off }
