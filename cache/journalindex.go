package cache

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"sort"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// The index of a journal says where its entries begin, so that a build that has a few actions to look at, of very many, reads
// the records of those alone. It is a file beside the journal, for the part that the journal had when it was written; what was
// appended since is read. An index that does not fit its journal is none.
//
// Little-endian:
//
//	magic; CRC-32C of the rest; the journal's random bytes; how much of the journal is covered (8 bytes);
//	numbers of strings, pairs and records (4 bytes each);
//	offset of each string's and each pair's entry (4 bytes each);
//	of each record: hash of its first output (8 bytes), offset (4), sorted; first 8 bytes of its command key, offset, sorted

const indexMagic = "kbuild jindex 1\n"

const indexHead = len(indexMagic) + 4 + 16 + 8 + 3*4

// minIndexed is how many records are worth an index; a variable for tests.
var minIndexed = 500

// maxTail is how much a journal may have grown since its index was written.
const maxTail = 4 << 20

// journalIndex is an index in use.
type journalIndex struct {
	j              *Journal
	file           *os.File // the journal
	covered        int64
	strings, pairs []byte
	outputs        []byte // 12 bytes each
	commands       []byte
}

// hashOutput is the same in every process.
func hashOutput(path string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, path)
	return h.Sum64()
}

// OpenJournalByIndex opens a journal for a few lookups, or like OpenJournal if there is no index that fits.
func OpenJournalByIndex(path string) (*Journal, error) {
	j := &Journal{path: path, byOutput: map[string]*logged{}, byCommand: map[Key]*logged{}, gone: map[string]bool{}}
	if j.openIndex() {
		return j, nil
	}
	return OpenJournal(path)
}

func indexPath(journal string) string { return journal + "-index" }

func (j *Journal) openIndex() bool {
	b, err := regular.Read(indexPath(j.path))
	if err != nil || len(b) < indexHead || string(b[:len(indexMagic)]) != indexMagic ||
		crc32.Checksum(b[len(indexMagic)+4:], castagnoli) != binary.LittleEndian.Uint32(b[len(indexMagic):]) {
		return false
	}
	at := len(indexMagic) + 4
	id, covered := [16]byte(b[at:]), int64(binary.LittleEndian.Uint64(b[at+16:]))
	count := func(i int) int { return int(binary.LittleEndian.Uint32(b[at+24+4*i:])) }
	nStrings, nPairs, nRecords := count(0), count(1), count(2)
	rest := b[indexHead:]
	if len(rest) != 4*nStrings+4*nPairs+24*nRecords {
		return false
	}
	x := &journalIndex{j: j, covered: covered}
	x.strings, rest = rest[:4*nStrings], rest[4*nStrings:]
	x.pairs, rest = rest[:4*nPairs], rest[4*nPairs:]
	x.outputs, x.commands = rest[:12*nRecords], rest[12*nRecords:]
	if x.file, err = regular.Open(j.path, os.O_RDONLY, 0); err != nil {
		return false
	}
	head := make([]byte, journalHead)
	info, err := x.file.Stat()
	if err == nil {
		_, err = x.file.ReadAt(head, 0)
	}
	if err != nil || string(head[:len(journalMagic)]) != journalMagic || [16]byte(head[len(journalMagic):]) != id ||
		info.Size() < covered || info.Size()-covered > maxTail {
		x.file.Close()
		return false
	}
	tail := make([]byte, info.Size()-covered)
	if _, err := x.file.ReadAt(tail, covered); err != nil {
		x.file.Close()
		return false
	}
	j.id, j.size, j.index = id, covered, x
	j.strings.base, j.strings.fetch = uint64(nStrings), x.str
	j.pairs.base, j.pairs.fetch = uint64(nPairs), x.pair
	if !j.takeAll(tail) {
		x.file.Close()
		j.index = nil
		return false
	}
	return true
}

func (x *journalIndex) close() {
	if x != nil {
		x.file.Close()
	}
}

// entry reads one entry of the journal.
func (x *journalIndex) entry(at int64, kind byte) ([]byte, bool) {
	var head [entryHead]byte
	if _, err := x.file.ReadAt(head[:], at); err != nil {
		return nil, false
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if n == 0 || at+entryHead+n > x.covered {
		return nil, false
	}
	b := make([]byte, entryHead+n)
	if _, err := x.file.ReadAt(b, at); err != nil {
		return nil, false
	}
	payload, ok := nextEntry(b)
	if !ok || payload[0] != kind {
		return nil, false
	}
	return payload[1:], true
}

func (x *journalIndex) str(id uint64) (string, bool) {
	b, ok := x.entry(int64(binary.LittleEndian.Uint32(x.strings[4*id:])), kindString)
	return string(b), ok
}

func (x *journalIndex) pair(id uint64) (FileDigest, bool) {
	b, ok := x.entry(int64(binary.LittleEndian.Uint32(x.pairs[4*id:])), kindPair)
	if !ok {
		return FileDigest{}, false
	}
	r := &reader{b: b}
	p := FileDigest{Path: x.j.strings.at(r)}
	copy(p.Digest[:], r.bytes(uint64(len(p.Digest))))
	return p, !r.bad && len(r.b) == 0
}

// find gives the records beside a hash.
func (x *journalIndex) find(list []byte, hash uint64, is func(*logged) bool) *logged {
	n := len(list) / 12
	i, _ := sort.Find(n, func(i int) int { return cmp.Compare(hash, binary.LittleEndian.Uint64(list[12*i:])) })
	for ; i < n && binary.LittleEndian.Uint64(list[12*i:]) == hash; i++ {
		at := int64(binary.LittleEndian.Uint32(list[12*i+8:]))
		b, ok := x.entry(at, kindRecord)
		if !ok {
			continue
		}
		r := &reader{b: b}
		l := &logged{raw: b, at: at, size: entryHead + 1 + len(b)}
		copy(l.command[:], r.bytes(uint64(len(l.command))))
		l.output = x.j.strings.at(r)
		if !r.bad && is(l) {
			return l
		}
	}
	return nil
}

func (x *journalIndex) byOutput(output string) *logged {
	return x.find(x.outputs, hashOutput(output), func(l *logged) bool { return l.output == output })
}

func (x *journalIndex) byCommand(k Key) *logged {
	return x.find(x.commands, binary.LittleEndian.Uint64(k[:]), func(l *logged) bool { return l.command == k })
}

// WriteIndex writes the index of a journal that was read whole, if it is large and its index is old.
func (j *Journal) WriteIndex() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.index != nil || j.rewrite || j.size > math.MaxUint32 || len(j.byOutput) < minIndexed {
		return nil
	}
	b := make([]byte, indexHead, indexHead+4*len(j.strings.offs)+4*len(j.pairs.offs)+24*len(j.byOutput))
	copy(b, indexMagic)
	at := len(indexMagic) + 4
	copy(b[at:], j.id[:])
	binary.LittleEndian.PutUint64(b[at+16:], uint64(j.size))
	for i, n := range []int{len(j.strings.offs), len(j.pairs.offs), len(j.byOutput)} {
		binary.LittleEndian.PutUint32(b[at+24+4*i:], uint32(n))
	}
	for _, offs := range [2][]int64{j.strings.offs, j.pairs.offs} {
		for _, o := range offs {
			b = binary.LittleEndian.AppendUint32(b, uint32(o))
		}
	}
	type place struct {
		hash uint64
		at   int64
	}
	outputs, commands := make([]place, 0, len(j.byOutput)), make([]place, 0, len(j.byOutput))
	for o, l := range j.byOutput {
		outputs = append(outputs, place{hashOutput(o), l.at})
		commands = append(commands, place{binary.LittleEndian.Uint64(l.command[:]), l.at})
	}
	for _, list := range [2][]place{outputs, commands} {
		slices.SortFunc(list, func(a, b place) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
		for _, p := range list {
			b = binary.LittleEndian.AppendUint64(b, p.hash)
			b = binary.LittleEndian.AppendUint32(b, uint32(p.at))
		}
	}
	binary.LittleEndian.PutUint32(b[len(indexMagic):], crc32.Checksum(b[len(indexMagic)+4:], castagnoli))
	if old, err := regular.Read(indexPath(j.path)); err == nil && bytes.Equal(old, b) {
		return nil
	}
	return regular.Replace(indexPath(j.path), b)
}
