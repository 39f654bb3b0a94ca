// Package tree is the database of one build tree. It stores the record of the last run of each
// action, what builds observed of files inside and outside the tree, and their plan. It knows
// nothing of actions, compilers or graphs.
//
// # Why a file format of our own
//
// Three readers have three needs. A null build compares the stats of all files with those of the
// last build and must read nothing else: a flat array, mapped into memory (cache/trace). A build
// after a few edits needs the records of a few among very many actions: an index. Every build adds
// a record as soon as an action has run, and may be killed right after: a log.
//
// We considered general databases without measuring them. bbolt has no checksums of data pages and
// an fsync for each commit. SQLite needs cgo or a megabyte of translated C, and milliseconds to
// open. None of them maps an array.
//
// # Layout
//
//	head, 64 bytes: magic (16), offset of the root (8), CRC-32C of that offset (4), zeroes
//	entries, append-only: length of the payload (4), its CRC-32C (4), payload (its kind first)
//
// All numbers are little-endian. Kinds of payload:
//
//	's' string    the text
//	'p' pair      number of a path (uvarint), digest
//	'r' record    see codec.record
//	'd' removal   number of the first output of a record that is no longer valid
//	'b' blob      number of padding bytes (1 byte), zero bytes, data, aligned to 8 bytes
//	'R' root      see codec.root
//
// Strings and pairs are numbered in order of appearance, and records refer to them by number, as
// ninja's deps log does with paths. Most sources of a project read the same headers. 2,000 records
// of 500 headers each take 160 MB as JSON and 3 MB in this format. The writer remembers only recent
// numbers, since a table of all would fill the memory. A value that was not used for long is
// therefore appended again under a new number.
//
// The root holds the offsets of the views (what a command line observed, and its plan: three
// blobs), and the offset of the index. The index is a blob with the offsets of all
// strings, pairs and records up to a position in the log. Entries after that position are read when
// the first record is queried. A build ends by appending a root and then storing its offset in the
// head. A reader that needs only a view reads the head, the root and that view.
//
// # What may go wrong
//
// A killed build leaves a log with a torn tail, or with records after the last root. A reader stops
// at the first entry with a wrong checksum; the next write truncates the file there. Nothing is
// fsynced. After a power loss the head may point to a root that never reached the disk, or entries
// in the middle may be missing. Then there is no root, the records before the damage remain valid,
// and the first write rewrites the file. A loss costs time only: every record is checked against
// files by content.
//
// Only the process that holds the lock of the tree may write. Others may read at any time: of the
// bytes that they have mapped only the root offset in the head is overwritten, and it has a
// checksum. When the file has twice the size that it had after it was compacted, a compacted file
// replaces it (compact).
package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

const (
	magic     = "kbuild tree 1\r\n\x00"
	headSize  = 64
	entryHead = 8
	maxSize   = 1 << 32 // of a file: the index has offsets of 4 bytes
)

// Kinds of payload.
const (
	kindString  = 's'
	kindPair    = 'p'
	kindRecord  = 'r'
	kindRemoval = 'd'
	kindBlob    = 'b'
	kindRoot    = 'R'
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// DB is an open database. All methods may be called concurrently.
type DB struct {
	name string
	mu   sync.Mutex
	maps [][]byte // to unmap
	state
}

// state holds the current file of a DB.
type state struct {
	data    []byte      // the file; if it is mapped, it shows what is written
	mapped  bool        // data is mapped with room for maxSize bytes, else it is a copy
	info    fs.FileInfo // of the mapped file; nil if there is none
	file    *os.File    // nil until the first write
	root    root
	rootEnd int64              // end offset of its entry; 0 without a root
	views   map[viewRoot]*View // that were opened
	records *records           // nil until the first record is queried
	size    int64              // of the valid part of the file; set with records
	damaged bool               // the file must be read again or rewritten before the next write
}

// root holds the offsets of the index and the views.
type root struct {
	index     int64 // offset of the index; 0 without one
	covered   int64 // the index covers the log up to this offset
	compacted int64 // size of the file when it was last compacted
	views     []viewRoot
}

// Open maps the database of a build tree. An absent or damaged file counts as empty. A file that
// cannot be read is an error.
func Open(name string) (*DB, error) {
	db := &DB{name: name}
	if err := db.open(); err != nil {
		return nil, fmt.Errorf("reading the database of the build tree: %w", err)
	}
	return db, nil
}

// open maps the current file and resets all state.
func (db *DB) open() error {
	db.state = state{views: map[viewRoot]*View{}, damaged: true}
	f, err := regular.Open(db.name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	data, mapped, err := mapFile(f, info.Size())
	if err != nil {
		return err
	}
	if mapped {
		db.maps = append(db.maps, data)
	}
	db.info = info
	if len(data) < headSize || string(data[:len(magic)]) != magic {
		return nil
	}
	db.data, db.mapped, db.damaged = data, mapped, false
	at := le.Uint64(data[16:])
	if crc32.Checksum(data[16:24], castagnoli) != le.Uint32(data[24:]) || at > uint64(len(data)) {
		return nil
	}
	if payload, ok := nextEntry(data[at:]); ok && payload[0] == kindRoot {
		c := codec{b: payload[1:], reading: true}
		if c.root(&db.root); c.bad || len(c.b) > 0 {
			db.root = root{}
		} else {
			db.rootEnd = int64(at) + entryHead + int64(len(payload))
		}
	}
	return nil
}

// Close unmaps the file. No View may be used afterwards.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	err := db.closeFile()
	for _, m := range db.maps {
		unmap(m)
	}
	db.maps, db.data = nil, nil
	return err
}

// Optimize makes the next Open fast. If this process wrote enough, it compacts the file or updates
// the index.
func (db *DB) Optimize() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.file == nil || db.damaged {
		return nil
	}
	if was := db.root.compacted; was == 0 {
		db.root.compacted = db.size
	} else if db.size > max(2*was, minCompacted) {
		if err := db.compact(); err != nil {
			return err
		}
		if err := db.writable(); err != nil {
			return err
		}
	}
	if db.size-db.root.covered > max(minIndexed, db.root.covered/8) {
		if err := db.writeIndex(); err != nil {
			return err
		}
	} else if db.rootEnd == db.size {
		return nil
	}
	return db.commit()
}

// Minimal sizes for Optimize; variables for tests.
var (
	minCompacted = int64(256 << 10)
	minIndexed   = int64(64 << 10)
)

// nextEntry returns the payload of the first entry of b.
func nextEntry(b []byte) (payload []byte, ok bool) {
	if len(b) < entryHead {
		return nil, false
	}
	n := uint64(le.Uint32(b))
	if n == 0 || n > uint64(len(b)-entryHead) {
		return nil, false
	}
	payload = b[entryHead : entryHead+n]
	return payload, crc32.Checksum(payload, castagnoli) == le.Uint32(b[4:])
}

// entry returns the payload of the entry at an offset, without its kind.
func (db *DB) entry(at int64, kind byte) ([]byte, bool) {
	if at < headSize || at > int64(len(db.data)) {
		return nil, false
	}
	payload, ok := nextEntry(db.data[at:])
	if !ok || payload[0] != kind {
		return nil, false
	}
	return payload[1:], true
}

// blob returns the data of a blob.
func (db *DB) blob(at int64) ([]byte, bool) {
	b, ok := db.entry(at, kindBlob)
	if !ok || len(b) == 0 || int(b[0]) >= len(b) {
		return nil, false
	}
	return b[1+b[0]:], true
}

// writable opens the file for writing, truncates a torn tail, and rewrites a damaged file.
func (db *DB) writable() (err error) {
	if db.file != nil && !db.damaged {
		return nil
	}
	defer func() {
		if err != nil {
			db.closeFile()
			err = fmt.Errorf("writing the database of the build tree: %w", err)
		}
	}()
	db.closeFile()
	if db.changed() {
		if err := db.open(); err != nil {
			return err
		}
	}
	if db.load(); db.damaged {
		if err := db.compact(); err != nil {
			return err
		}
		db.load()
	}
	if db.file, err = regular.Open(db.name, os.O_RDWR, 0); err != nil {
		return err
	}
	if db.mapped { // opening may have copied the file: an overlay does so with that of a lower layer
		if db.data, db.mapped, err = mapFile(db.file, int64(len(db.data))); err != nil {
			return err
		}
		if db.mapped {
			db.maps = append(db.maps, db.data)
		}
	}
	if db.size < int64(len(db.data)) {
		db.data = db.data[:db.size]
		return db.file.Truncate(db.size)
	}
	return nil
}

func (db *DB) closeFile() (err error) {
	if db.file != nil {
		err = db.file.Close()
	}
	db.file = nil
	return err
}

// changed reports whether another process wrote the file since it was mapped.
func (db *DB) changed() bool {
	info, err := os.Stat(db.name)
	if err != nil || db.info == nil {
		return (err == nil) != (db.info != nil)
	}
	return !os.SameFile(info, db.info) || info.Size() != db.info.Size() || !info.ModTime().Equal(db.info.ModTime())
}

// write appends entries in one system call. If it fails, the next write reads the file again and
// truncates the rest.
func (db *DB) write(b []byte) error {
	err := errors.New("it would be larger than 4 GiB")
	if db.size+int64(len(b)) < maxSize {
		_, err = db.file.WriteAt(b, db.size)
	}
	if err != nil {
		db.damaged = true
		return fmt.Errorf("writing the database of the build tree: %w", err)
	}
	if db.size += int64(len(b)); db.mapped {
		db.data = db.data[:db.size]
	} else {
		db.data = append(db.data, b...)
	}
	return nil
}

// writeBlob appends a blob and returns its offset. It does not copy data, which may be large.
func (db *DB) writeBlob(data []byte) (at int64, err error) {
	at = db.size
	head := blobHead(at)
	entry := le.AppendUint32(nil, uint32(len(head)+len(data)))
	entry = le.AppendUint32(entry, crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, data))
	if err := db.write(append(entry, head...)); err != nil {
		return 0, err
	}
	return at, db.write(data)
}

// blobHead returns the start of the payload of a blob at an offset.
func blobHead(at int64) []byte {
	pad := -(at + entryHead + 2) & 7
	return append([]byte{kindBlob, byte(pad)}, make([]byte, pad)...)
}

func appendEntry(b, payload []byte) []byte {
	b = le.AppendUint32(b, uint32(len(payload)))
	b = le.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

// commit appends a root and stores its offset in the head.
func (db *DB) commit() error {
	at := db.size
	if err := db.write(rootEntry(&db.root)); err != nil {
		return err
	}
	if _, err := db.file.WriteAt(rootOffset(at), 16); err != nil {
		return fmt.Errorf("writing the database of the build tree: %w", err)
	}
	db.rootEnd = db.size
	return nil
}

func rootEntry(r *root) []byte {
	c := codec{b: []byte{kindRoot}}
	c.root(r)
	return appendEntry(nil, c.b)
}

// rootOffset returns the content of the head after the magic.
func rootOffset(at int64) []byte {
	b := le.AppendUint64(nil, uint64(at))
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// compact rewrites the file with valid entries only.
func (db *DB) compact() error {
	db.load()
	w := &writer{strings: newTable(), pairs: newTable(), b: make([]byte, headSize)}
	copy(w.b, magic)
	for _, l := range db.sorted() {
		if r := db.decode(l); r != nil {
			w.record(r)
		}
	}
	fresh := root{}
views:
	for _, v := range db.root.views {
		for _, at := range []*int64{&v.base, &v.top, &v.plan} {
			if *at == 0 {
				continue
			}
			data, ok := db.blob(*at)
			if !ok {
				continue views
			}
			*at = int64(len(w.b))
			w.b = appendEntry(w.b, append(blobHead(*at), data...))
		}
		fresh.views = append(fresh.views, v)
	}
	copy(w.b[16:], rootOffset(int64(len(w.b))))
	if db.root.compacted > 0 {
		fresh.compacted = int64(len(w.b))
	}
	w.b = append(w.b, rootEntry(&fresh)...)
	db.closeFile()
	if err := regular.Replace(db.name, w.b); err != nil {
		return err
	}
	return db.open()
}

// mapFile maps a file, with room for maxSize bytes: what is written to the file later shows in the
// mapping. It reads the file if mapping is impossible, as on some network file systems.
func mapFile(f *os.File, size int64) (data []byte, mapped bool, err error) {
	if size < maxSize {
		if data, err := unix.Mmap(int(f.Fd()), 0, maxSize, unix.PROT_READ, unix.MAP_SHARED); err == nil {
			return data[:size], true, nil
		}
	}
	data = make([]byte, size)
	_, err = f.ReadAt(data, 0)
	return data, false, err
}

func unmap(data []byte) { unix.Munmap(data[:maxSize]) }
