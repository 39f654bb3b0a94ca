package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// The memo file: a magic line, the generation, the number of entries, the entries sorted by path, and
// the SHA-256 of all that. One wrong byte and the whole memo is empty, since a wrong entry would be a
// wrong digest.
//
//	entry: path length (uvarint), path, device, inode, mode (uvarint), size, mtime, ctime, moment of hashing,
//	generation of last use (varint), digest

const memoMagic = "kbuild files 1\n"

// memoLife is how many saves an entry survives without being asked for.
const memoLife = 16

// minEntry is the size of an entry whose every number takes one byte.
const minEntry = 9 + sha256.Size

var errMemo = errors.New("damaged memo file")

// Save writes the memo file if this run learned anything, by a temporary file and a rename, and drops
// entries that the last 16 saves did not use. Without a memo file it does nothing.
func (f *Files) Save() error {
	if f.memo == "" || !f.dirty.Swap(false) {
		return nil
	}
	if err := regular.Replace(f.memo, encodeMemo(f.entries(), f.gen)); err != nil {
		f.dirty.Store(true)
		return fmt.Errorf("writing the memo of file digests: %w", err)
	}
	return nil
}

// entries are those worth keeping, this run's before the memo file's.
func (f *Files) entries() map[string]*entry {
	all := map[string]*entry{}
	for name, e := range f.old {
		if f.gen-e.Used < memoLife {
			all[name] = e
		}
	}
	f.slots.Range(func(name, s any) bool {
		slot := s.(*slot)
		slot.mu.Lock()
		defer slot.mu.Unlock()
		if slot.last != nil {
			all[name.(string)] = slot.last
		}
		return true
	})
	return all
}

func encodeMemo(entries map[string]*entry, gen int64) []byte {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	sort.Strings(names)
	b := append(make([]byte, 0, 64+160*len(names)), memoMagic...)
	b = binary.AppendVarint(b, gen)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		e := entries[name]
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
		b = binary.AppendUvarint(b, e.Dev)
		b = binary.AppendUvarint(b, e.Ino)
		b = binary.AppendUvarint(b, uint64(e.Mode))
		for _, v := range []int64{e.Size, e.Mtime, e.Ctime, e.Hashed, e.Used} {
			b = binary.AppendVarint(b, v)
		}
		b = append(b, e.Digest[:]...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func decodeMemo(b []byte) (map[string]*entry, int64, error) {
	body, err := checked(b, memoMagic)
	if err != nil {
		return nil, 0, err
	}
	r := &reader{b: body}
	gen, n := r.varint(), r.uvarint()
	if n > uint64(len(body)/minEntry) {
		return nil, 0, errMemo
	}
	entries := make(map[string]*entry, n)
	slab := make([]entry, n)
	for i := range slab {
		e := &slab[i]
		name := string(r.bytes(r.uvarint()))
		e.Dev, e.Ino, e.Mode = r.uvarint(), r.uvarint(), uint32(r.uvarint())
		for _, v := range []*int64{&e.Size, &e.Mtime, &e.Ctime, &e.Hashed, &e.Used} {
			*v = r.varint()
		}
		copy(e.Digest[:], r.bytes(uint64(len(e.Digest))))
		entries[name] = e
	}
	if r.bad || len(r.b) != 0 || len(entries) != len(slab) {
		return nil, 0, errMemo
	}
	return entries, gen, nil
}

// checked takes the magic line and the trailing SHA-256 off a file.
func checked(b []byte, magic string) ([]byte, error) {
	n := len(b) - sha256.Size
	if n < len(magic) || string(b[:len(magic)]) != magic {
		return nil, errMemo
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, errMemo
	}
	return b[len(magic):n], nil
}

// reader takes values off a byte slice. After the first that is not there everything is zero and bad
// is set, so that a decoder checks once at its end.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}
