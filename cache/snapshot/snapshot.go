// Package snapshot keeps what a build looked at when it found nothing to do: one flat file that the next run maps into
// memory, so that finding nothing to do again costs one stat for each file and little else. It knows nothing of builds.
//
// # What it says
//
// A run of kbuild is a function of its command line, its environment and what it looks at: files, folders, paths that do
// not exist. The first two are the Key; the rest are Entries, each with the stat that it had and a digest of what was
// seen. If none has changed, a run would come to the same end.
//
// An entry is unchanged if device, inode, mode, size, mtime and ctime are all equal to what they were: equality, never
// order. What stat does not settle, content does: Settle. Who writes a snapshot must have seen that every entry was last
// changed a clock tick before the run began (cache.Stat.Before): then what the run saw is what the stat stands for.
//
// # Layout
//
// Little-endian. Every offset is checked when the file is opened; after that nothing is parsed.
//
//	magic, 16 bytes; CRC-32C of all that follows; numbers of entries and of absent names; length of the note
//	key, 32 bytes
//	entries, 64 bytes each, sorted by folder and name: see entry
//	digests, 32 bytes for each entry
//	absent names: offset into the text of each
//	note
//	text: paths and names, each ended by a zero byte, so that the kernel can read them where they are
//
// The file is replaced by renaming. Nothing is fsynced: a file that lost its end has a wrong sum, and is as none.
//
// # Two layers
//
// Rewriting a large file for a small change would cost more than looking at all files, so changes go to a second file of
// the same form beside the first (Update), whose entries take the place of those with the same paths, until it has grown. The
// first file alone is an older snapshot, and as true: what has changed since shows as changed.
package snapshot

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"unsafe"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

const magic = "kbuild snap  1\r\n"

// Kind says what was seen at a path.
type Kind uint8

const (
	File   Kind = iota // a file of known content
	Absent             // nothing
	Folder             // a folder with exactly the names of Digest
	Guard              // a folder without the names of Entry.Absent
)

// Entry is one path that was looked at.
type Entry struct {
	Path   string // relative to the root, or absolute
	Kind   Kind
	Stat   cache.Stat   // zero for Absent
	Digest cache.Digest // of the content of a File, of the names of a Folder (FolderDigest); zero if only stat can settle it
	Absent []string     // of a Guard
	Output bool         // a File that must not be a link
}

// entry is an Entry as it stands in the file.
type entry struct {
	path         uint32 // offset into the text
	kind         Kind
	output       bool
	base         uint16 // where the last element of the path begins
	mode         uint32
	dir          uint32 // number of its folder; those of one folder stand together
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // ns
	names        uint32
	nameCount    uint32
}

const (
	entrySize = int(unsafe.Sizeof(entry{})) // 64
	headSize  = len(magic) + 4*4 + 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is an open file.
type Snapshot struct {
	data    []byte // mapped
	unmap   func() error
	top     *Snapshot    // the second layer, or nil
	hidden  map[int]bool // entries that have their like in top
	key     [32]byte
	entries []entry
	digests []byte
	names   []uint32
	note    []byte
	text    []byte
}

// Open maps a file into memory. Whatever is wrong with it is an error and means that there is none.
func Open(name string) (*Snapshot, error) {
	data, unmap, err := Map(name)
	if err != nil {
		return nil, err
	}
	s, err := parse(data)
	if err != nil {
		unmap()
		return nil, err
	}
	s.unmap = unmap
	if strings.HasSuffix(name, topSuffix) {
		return s, nil
	}
	if top, err := Open(name + topSuffix); err == nil {
		s.cover(top)
	}
	return s, nil
}

const topSuffix = "-top"

// cover takes the second layer, if it is one of this file.
func (s *Snapshot) cover(top *Snapshot) {
	if top.key != s.topKey() {
		top.Close()
		return
	}
	s.top, s.hidden = top, map[int]bool{}
	for i := range top.entries {
		if k, ok := sort.Find(len(s.entries), func(k int) int { return compare(top.Path(i), s.Path(k)) }); ok {
			s.hidden[k] = true
		}
	}
}

// topKey says which file a second layer belongs to.
func (s *Snapshot) topKey() [32]byte { return sha256.Sum256(s.data[:headSize]) }

// Update makes entries take the place of those with the same paths, and note that of the note.
func (s *Snapshot) Update(name string, note []byte, entries []Entry) error {
	given := map[string]bool{}
	for _, e := range entries {
		given[e.Path] = true
	}
	merged := slices.Clone(entries)
	if s.top != nil {
		for i := range s.top.entries {
			if e := s.top.Entry(i); !given[e.Path] {
				given[e.Path] = true
				merged = append(merged, e)
			}
		}
	}
	if len(merged) <= len(s.entries)/8 {
		return Write(name+topSuffix, s.topKey(), note, merged)
	}
	for i := range s.entries {
		if e := s.Entry(i); !given[e.Path] {
			merged = append(merged, e)
		}
	}
	err := Write(name, s.key, note, merged)
	if err == nil {
		os.Remove(name + topSuffix) // without effect by now
	}
	return err
}

// Remove removes both layers.
func Remove(name string) {
	os.Remove(name)
	os.Remove(name + topSuffix)
}

// Close unmaps the file.
func (s *Snapshot) Close() error {
	if s.top != nil {
		s.top.Close()
	}
	return s.unmap()
}

// Entry is entry i as it was written.
func (s *Snapshot) Entry(i int) Entry {
	s, i = s.at(i)
	e := &s.entries[i]
	out := Entry{Path: s.Path(i), Kind: e.kind, Output: e.output, Digest: cache.Digest(s.digests[32*i : 32*i+32]),
		Stat: cache.Stat{Dev: e.dev, Ino: e.ino, Size: e.size, Mtime: e.mtime, Ctime: e.ctime, Mode: e.mode}}
	for _, off := range s.names[e.names : e.names+e.nameCount] {
		out.Absent = append(out.Absent, s.str(off))
	}
	return out
}

// at finds the layer of an entry.
func (s *Snapshot) at(i int) (*Snapshot, int) {
	if i >= len(s.entries) {
		return s.top, i - len(s.entries)
	}
	return s, i
}

// Find is the entry of a path.
func (s *Snapshot) Find(path string) (i int, ok bool) {
	if s.top != nil {
		if i, ok := s.top.Find(path); ok {
			return i + len(s.entries), true
		}
	}
	return sort.Find(len(s.entries), func(i int) int {
		e := &s.entries[i]
		name := s.text[e.path:]
		name = name[:bytes.IndexByte(name, 0)]
		return compare(path, string(name))
	})
}

// compare orders by folder and name.
func compare(a, b string) int {
	i, j := baseOf(a), baseOf(b)
	return cmp.Or(strings.Compare(a[:i], b[:j]), strings.Compare(a[i:], b[j:]))
}

// Key is what the file was written with.
func (s *Snapshot) Key() [32]byte { return s.key }

// Note is what the last layer was written with. It goes with Close.
func (s *Snapshot) Note() []byte {
	if s.top != nil {
		return s.top.note
	}
	return s.note
}

// All gives the entries, in no order.
func (s *Snapshot) All() iter.Seq2[int, Entry] {
	return func(yield func(int, Entry) bool) {
		for i := range s.entries {
			if !s.hidden[i] && !yield(i, s.Entry(i)) {
				return
			}
		}
		if s.top != nil {
			for i := range s.top.entries {
				if !yield(i+len(s.entries), s.top.Entry(i)) {
					return
				}
			}
		}
	}
}

// Path is the path of an entry.
func (s *Snapshot) Path(i int) string {
	s, i = s.at(i)
	return s.str(s.entries[i].path)
}

func (s *Snapshot) str(at uint32) string {
	b := s.text[at:]
	return string(b[:bytes.IndexByte(b, 0)])
}

var errDamaged = errors.New("damaged snapshot")

// parse takes the file apart. data must stay as it is.
func parse(data []byte) (*Snapshot, error) {
	if len(data) < headSize || string(data[:len(magic)]) != magic {
		return nil, errDamaged
	}
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(data[at:])) }
	at := len(magic)
	if crc32.Checksum(data[at+4:], castagnoli) != uint32(u32(at)) {
		return nil, errDamaged
	}
	n, absent, note := u32(at+4), u32(at+8), u32(at+12)
	s := &Snapshot{data: data, key: [32]byte(data[at+16:])}
	rest := data[headSize:]
	need := n*(entrySize+32) + absent*4 + note
	if need > len(rest) || n > 0 && (len(rest) == need || rest[len(rest)-1] != 0) {
		return nil, errDamaged
	}
	if n > 0 {
		s.entries = unsafe.Slice((*entry)(unsafe.Pointer(&rest[0])), n) // aligned: headSize is 64
	}
	s.digests = rest[n*entrySize : n*(entrySize+32)]
	rest = rest[n*(entrySize+32):]
	if absent > 0 {
		s.names = unsafe.Slice((*uint32)(unsafe.Pointer(&rest[0])), absent)
	}
	s.note, s.text = rest[absent*4:absent*4+note], rest[absent*4+note:]
	for i := range s.entries {
		e := &s.entries[i]
		if int(e.path)+int(e.base) >= len(s.text) || int(e.names)+int(e.nameCount) > absent || e.kind > Guard {
			return nil, errDamaged
		}
	}
	for _, off := range s.names {
		if int(off) >= len(s.text) {
			return nil, errDamaged
		}
	}
	return s, nil
}

// Write replaces the file name. The entries are sorted.
func Write(name string, key [32]byte, note []byte, entries []Entry) error {
	slices.SortFunc(entries, func(a, b Entry) int { return compare(a.Path, b.Path) })
	data, err := encode(key, note, entries)
	if err != nil {
		return err
	}
	return regular.Replace(name, data)
}

func baseOf(path string) int { return strings.LastIndexByte(path, '/') + 1 }

func encode(key [32]byte, note []byte, entries []Entry) ([]byte, error) {
	absent, text := 0, 0
	for _, e := range entries {
		absent += len(e.Absent)
		text += len(e.Path) + 1
		for _, n := range e.Absent {
			text += len(n) + 1
		}
		if strings.IndexByte(e.Path, 0) >= 0 {
			return nil, fmt.Errorf("a path holds a zero byte: %q", e.Path)
		}
	}
	size := headSize + len(entries)*(entrySize+32) + absent*4 + len(note) + text
	if size > math.MaxUint32 {
		return nil, errors.New("too large for a snapshot")
	}
	b := make([]byte, headSize, size)
	copy(b, magic)
	var names []byte
	at := uint32(0) // in the text
	dir := uint32(0)
	for i, e := range entries {
		base := baseOf(e.Path)
		if i > 0 && entries[i-1].Path[:baseOf(entries[i-1].Path)] != e.Path[:base] {
			dir++
		}
		if base > math.MaxUint16 {
			return nil, fmt.Errorf("a path is too long: %q", e.Path)
		}
		out := entry{path: at, kind: e.Kind, output: e.Output, base: uint16(base), dir: dir, mode: e.Stat.Mode, dev: e.Stat.Dev, ino: e.Stat.Ino, size: e.Stat.Size,
			mtime: e.Stat.Mtime, ctime: e.Stat.Ctime, names: uint32(len(names) / 4), nameCount: uint32(len(e.Absent))}
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&out)), entrySize)...)
		at += uint32(len(e.Path)) + 1
		for _, n := range e.Absent {
			names = binary.LittleEndian.AppendUint32(names, at)
			at += uint32(len(n)) + 1
		}
	}
	for _, e := range entries {
		b = append(b, e.Digest[:]...)
	}
	b = append(append(b, names...), note...)
	for _, e := range entries {
		b = append(append(b, e.Path...), 0)
		for _, n := range e.Absent {
			b = append(append(b, n...), 0)
		}
	}
	head := len(magic)
	binary.LittleEndian.PutUint32(b[head+4:], uint32(len(entries)))
	binary.LittleEndian.PutUint32(b[head+8:], uint32(absent))
	binary.LittleEndian.PutUint32(b[head+12:], uint32(len(note)))
	copy(b[head+16:], key[:])
	seal(b)
	return b, nil
}

// seal writes the sum.
func seal(b []byte) {
	binary.LittleEndian.PutUint32(b[len(magic):], crc32.Checksum(b[len(magic)+4:], castagnoli))
}
