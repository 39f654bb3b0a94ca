package trace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
	"unsafe"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// layer is a blob of observations. parse checks every offset once; after that nothing is decoded:
//
//	numbers of observations and of absent names; length of the value; zero (4 bytes each)
//	observations, 64 bytes each, sorted by folder and name: see entry
//	digests, 32 bytes for each
//	absent names: offset into the text of each (4 bytes)
//	value
//	text: paths and names, zero-terminated, so that system calls can use them in place
type layer struct {
	entries []entry
	digests []byte
	names   []uint32
	value   []byte
	text    []byte
}

// entry is the encoding of a cache.Observation in a blob.
type entry struct {
	path         uint32 // offset into the text
	kind         cache.Kind
	flags        uint8
	base         uint16 // offset of the last element in the path
	mode         uint32
	dir          uint32 // number of its folder; entries of one folder are adjacent
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // ns
	// For a folder or guard the index of its first name, and their number above 32 bits; else
	// Observation.Seen.
	extra uint64
}

const (
	flagOutput = 1 << iota
	flagPlan
	flagTooRecent
)

const (
	entrySize    = int(unsafe.Sizeof(entry{})) // 64
	observedHead = 16
)

var errDamaged = errors.New("damaged observations")

// parse opens a blob without copying it. b must not change and must start at a multiple of 8.
func parse(b []byte) (*layer, error) {
	if len(b) < observedHead {
		return nil, errDamaged
	}
	u32 := func(at int) int { return int(le.Uint32(b[at:])) }
	n, absent, value := u32(0), u32(4), u32(8)
	s, rest := &layer{}, b[observedHead:]
	need := n*(entrySize+32) + absent*4 + value
	if need > len(rest) || n > 0 && (len(rest) == need || rest[len(rest)-1] != 0) {
		return nil, errDamaged
	}
	if n > 0 {
		s.entries = unsafe.Slice((*entry)(unsafe.Pointer(&rest[0])), n)
	}
	s.digests = rest[n*entrySize : n*(entrySize+32)]
	rest = rest[n*(entrySize+32):]
	if absent > 0 {
		s.names = unsafe.Slice((*uint32)(unsafe.Pointer(&rest[0])), absent)
	}
	s.value, s.text = rest[absent*4:absent*4+value], rest[absent*4+value:]
	for i := range s.entries {
		e := &s.entries[i]
		from, count := e.absent()
		if int(e.path)+int(e.base) >= len(s.text) || from+count > absent || e.kind > cache.KindGuard {
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

// absent returns the index of the first name of a folder or guard, and the number of names.
func (e *entry) absent() (from, count int) {
	if e.kind < cache.KindFolder {
		return 0, 0
	}
	return int(uint32(e.extra)), int(e.extra >> 32)
}

// at returns observation i as it was written.
func (s *layer) at(i int) cache.Observation {
	e := &s.entries[i]
	o := cache.Observation{Path: s.path(i), Kind: e.kind, Digest: s.digest(i),
		Stat:          cache.Stat{Dev: e.dev, Ino: e.ino, Size: e.size, Mtime: e.mtime, Ctime: e.ctime, Mode: e.mode},
		MustBeRegular: e.flags&flagOutput != 0, Plan: e.flags&flagPlan != 0, Young: e.flags&flagTooRecent != 0}
	if e.kind < cache.KindFolder {
		o.Seen = int64(e.extra)
	}
	for name := range s.absent(e) {
		o.Absent = append(o.Absent, name)
	}
	return o
}

// absent yields the names of Observation.Absent.
func (s *layer) absent(e *entry) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, count := e.absent()
		for _, off := range s.names[from : from+count] {
			if !yield(s.str(off)) {
				return
			}
		}
	}
}

func (s *layer) digest(i int) cache.Digest { return cache.Digest(s.digests[32*i : 32*i+32]) }

func (s *layer) path(i int) string { return s.str(s.entries[i].path) }

func (s *layer) str(at uint32) string {
	b := s.text[at:]
	return string(b[:bytes.IndexByte(b, 0)])
}

// find returns the number of a path.
func (s *layer) find(path string) (i int, ok bool) {
	return sort.Find(len(s.entries), func(i int) int {
		name := s.text[s.entries[i].path:]
		return compare(path, string(name[:bytes.IndexByte(name, 0)]))
	})
}

// compare orders paths by folder, then by name.
func compare(a, b string) int {
	i, j := baseOf(a), baseOf(b)
	return cmp.Or(strings.Compare(a[:i], b[:j]), strings.Compare(a[i:], b[j:]))
}

func baseOf(path string) int { return strings.LastIndexByte(path, '/') + 1 }

// Encode returns a blob for Open. It sorts list.
func Encode(value []byte, list []cache.Observation) ([]byte, error) {
	slices.SortFunc(list, func(a, b cache.Observation) int { return compare(a.Path, b.Path) })
	absent, text := 0, 0
	for _, o := range list {
		absent += len(o.Absent)
		text += len(o.Path) + 1
		for _, n := range o.Absent {
			text += len(n) + 1
		}
		if strings.IndexByte(o.Path, 0) >= 0 || baseOf(o.Path) > math.MaxUint16 {
			return nil, fmt.Errorf("a path holds a zero byte or is too long: %q", o.Path)
		}
	}
	size := observedHead + len(list)*(entrySize+32) + absent*4 + len(value) + text
	if size > math.MaxUint32 {
		return nil, errors.New("too many observations for one trace")
	}
	b := make([]byte, 0, size)
	for _, n := range []int{len(list), absent, len(value), 0} {
		b = le.AppendUint32(b, uint32(n))
	}
	var names []byte
	at, dir := uint32(0), uint32(0) // at: offset in the text
	for i, o := range list {
		if i > 0 && list[i-1].Path[:baseOf(list[i-1].Path)] != o.Path[:baseOf(o.Path)] {
			dir++
		}
		e := entryOf(&o, at, dir, uint64(len(names)/4))
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&e)), entrySize)...)
		at += uint32(len(o.Path)) + 1
		for _, n := range o.Absent {
			names = le.AppendUint32(names, at)
			at += uint32(len(n)) + 1
		}
	}
	for _, o := range list {
		b = append(b, o.Digest[:]...)
	}
	b = append(append(b, names...), value...)
	for _, o := range list {
		b = append(append(b, o.Path...), 0)
		for _, n := range o.Absent {
			b = append(append(b, n...), 0)
		}
	}
	return b, nil
}

// entryOf returns the entry of o. names is the index of its first absent name.
func entryOf(o *cache.Observation, path, dir uint32, names uint64) entry {
	st := o.Stat
	e := entry{path: path, kind: o.Kind, base: uint16(baseOf(o.Path)), dir: dir, extra: uint64(o.Seen),
		mode: st.Mode, dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtime, ctime: st.Ctime}
	if o.Kind >= cache.KindFolder {
		e.extra = names | uint64(len(o.Absent))<<32
	}
	if o.MustBeRegular {
		e.flags |= flagOutput
	}
	if o.Plan {
		e.flags |= flagPlan
	}
	if o.Young {
		e.flags |= flagTooRecent
	}
	return e
}

// A trace in a file of its own: magic (16 bytes), CRC-32C of what follows (4), zeroes (4), key
// (32), zeroes (8), blob. A file is written completely and renamed into place, so any number of
// processes use it without a lock.
const (
	fileMagic = "kbuild trace 1\r\n"
	fileHead  = 64
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ReadFile returns the trace in a file, or nil if the file is absent, damaged, or has another key.
func ReadFile(name string, key cache.Key) *Trace {
	b, err := regular.Read(name)
	if err != nil || len(b) < fileHead || string(b[:16]) != fileMagic ||
		le.Uint32(b[16:]) != crc32.Checksum(b[20:], castagnoli) || cache.Key(b[24:56]) != key {
		return nil
	}
	t, err := Open(b[fileHead:], nil)
	if err != nil {
		return nil
	}
	return t
}

// Load returns the value of the trace in a file, with its observations, if all of them are valid.
// Relative paths are relative to root. It stores new stats of unchanged files, so that the next
// Load need not read them.
func Load(name string, key cache.Key, root string) (value []byte, list []cache.Observation, ok bool) {
	began := time.Now()
	t := ReadFile(name, key)
	if t == nil {
		return nil, nil, false
	}
	fresh, broken, err := t.Check(root)
	if err != nil || len(broken) > 0 {
		return nil, nil, false
	}
	list = t.Refreshed(fresh, began)
	if len(fresh) > 0 {
		Save(name, key, t.Value(), list)
	}
	return t.Value(), list, true
}

// Save stores a trace in a file for ReadFile and Load. It sorts list.
func Save(name string, key cache.Key, value []byte, list []cache.Observation) error {
	b, err := EncodeFile(key, value, list)
	if err != nil {
		return err
	}
	return regular.Replace(name, b)
}

// EncodeFile returns the content of a file for ReadFile. It sorts list.
func EncodeFile(key cache.Key, value []byte, list []cache.Observation) ([]byte, error) {
	blob, err := Encode(value, list)
	if err != nil {
		return nil, err
	}
	b := make([]byte, fileHead, fileHead+len(blob))
	copy(b, fileMagic)
	copy(b[24:], key[:])
	b = append(b, blob...)
	le.PutUint32(b[16:], crc32.Checksum(b[20:], castagnoli))
	return b, nil
}
