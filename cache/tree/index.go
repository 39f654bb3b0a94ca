package tree

import (
	"cmp"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/kbuild-dev/kbuild/cache"
)

// index holds the offsets of the entries in a part of the log. A build that needs a few among very
// many actions reads only their records. It is a blob:
//
//	numbers of strings, pairs and records (4 bytes each);
//	offset of each string's and each pair's entry (4 bytes each);
//	of each record: hash of its first output (8 bytes), offset (4), sorted;
//	of each record: first 8 bytes of its command key, offset (4), sorted
type index struct {
	db       *DB
	outputs  []byte // placeSize bytes each
	commands []byte
	found    map[int64]*logged // records that may stay decoded, by offset; at most maxDecoded
}

const placeSize = 12

// place is the offset of a record under a hash.
type place struct {
	hash uint64
	at   int64
}

// hashOutput must be the same in every process, so it has no seed.
func hashOutput(path string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, path)
	return h.Sum64()
}

func hashCommand(k cache.Key) uint64 { return le.Uint64(k[:]) }

// openIndex opens the index if there is one of a valid size.
func (db *DB) openIndex() bool {
	b, ok := db.blob(db.root.index)
	if !ok || len(b) < 12 {
		return false
	}
	count := func(i int) int { return int(le.Uint32(b[4*i:])) }
	nStrings, nPairs, nRecords := count(0), count(1), count(2)
	b = b[12:]
	if len(b) != 4*nStrings+4*nPairs+2*placeSize*nRecords {
		return false
	}
	r := db.records
	r.strings.base, r.strings.index, b = uint64(nStrings), b[:4*nStrings], b[4*nStrings:]
	r.pairs.base, r.pairs.index, b = uint64(nPairs), b[:4*nPairs], b[4*nPairs:]
	r.index = &index{db: db, found: map[int64]*logged{}, outputs: b[:placeSize*nRecords], commands: b[placeSize*nRecords:]}
	return true
}

// find returns the first record with this hash that satisfies is.
func (x *index) find(list []byte, hash uint64, is func(*logged) bool) *logged {
	n := len(list) / placeSize
	i, _ := sort.Find(n, func(i int) int { return cmp.Compare(hash, le.Uint64(list[placeSize*i:])) })
	for ; i < n && le.Uint64(list[placeSize*i:]) == hash; i++ {
		if l := x.logged(int64(le.Uint32(list[placeSize*i+8:]))); l != nil && is(l) {
			return l
		}
	}
	return nil
}

// logged decodes the beginning of a record.
func (x *index) logged(at int64) *logged {
	if l := x.found[at]; l != nil {
		return l
	}
	b, ok := x.db.entry(at, kindRecord)
	if !ok {
		return nil
	}
	d := &reader{b: b}
	l := x.db.records.logged(d, at, entryHead+1+int64(len(b)))
	if d.bad {
		return nil
	}
	if len(x.found) < maxDecoded {
		x.found[at] = l
	}
	return l
}

func (x *index) byOutput(output string) *logged {
	return x.find(x.outputs, hashOutput(output), func(l *logged) bool { return l.output == output })
}

func (x *index) byCommand(k cache.Key) *logged {
	return x.find(x.commands, hashCommand(k), func(l *logged) bool { return l.command == k })
}

// all yields the records of the index, in no particular order.
func (x *index) all() iter.Seq[*logged] {
	return func(yield func(*logged) bool) {
		for at := 0; at < len(x.outputs); at += placeSize {
			if l := x.logged(int64(le.Uint32(x.outputs[at+8:]))); l != nil && !yield(l) {
				return
			}
		}
	}
}

// writeIndex appends an index of all entries in the log.
func (db *DB) writeIndex() error {
	if db.size > math.MaxUint32 {
		return nil
	}
	r := db.records
	var outputs, commands []place
	for _, l := range db.sorted() {
		outputs = append(outputs, place{hashOutput(l.output), l.at})
		commands = append(commands, place{hashCommand(l.command), l.at})
	}
	known := [2][]byte{r.strings.index, r.pairs.index}
	offs := [2][]int64{r.strings.offs, r.pairs.offs}
	var b []byte
	for i := range offs {
		b = le.AppendUint32(b, uint32(len(known[i])/4+len(offs[i])))
	}
	b = le.AppendUint32(b, uint32(len(outputs)))
	for i := range offs {
		b = append(b, known[i]...)
		for _, o := range offs[i] {
			b = le.AppendUint32(b, uint32(o))
		}
	}
	for _, list := range [2][]place{outputs, commands} {
		slices.SortFunc(list, func(a, b place) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
		for _, p := range list {
			b = le.AppendUint64(b, p.hash)
			b = le.AppendUint32(b, uint32(p.at))
		}
	}
	if r.index != nil {
		db.root.dead += int64(len(known[0]) + len(known[1]) + len(r.index.outputs) + len(r.index.commands))
	}
	covered := db.size
	at, err := db.writeBlob(b)
	db.root.index, db.root.covered = at, covered
	return err
}
