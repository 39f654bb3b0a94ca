package tree

import (
	"encoding/binary"
	"maps"
	"slices"
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

// root holds the offsets of the index and the views. Its payload: index, covered, dead (uvarints);
// the number of views, of each the key (32 bytes) and base, top and plan (uvarints); the number of
// texts, of each name and text (with their lengths), sorted by name.
type root struct {
	index   int64 // offset of the index; 0 without one
	covered int64 // the index covers the log up to this offset
	dead    int64 // approximate number of bytes in the file that are no longer valid
	views   []viewRoot
	texts   map[string][]byte
}

// viewRoot holds the offsets of the blobs of a view; 0 for a blob that does not exist.
type viewRoot struct {
	key             [32]byte
	base, top, plan int64
}

func (r *root) encode() []byte {
	b := []byte{kindRoot}
	for _, n := range []int64{r.index, r.covered, r.dead, int64(len(r.views))} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, v := range r.views {
		b = append(b, v.key[:]...)
		for _, at := range []int64{v.base, v.top, v.plan} {
			b = binary.AppendUvarint(b, uint64(at))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.texts)))
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		for _, text := range [][]byte{[]byte(name), r.texts[name]} {
			b = binary.AppendUvarint(b, uint64(len(text)))
			b = append(b, text...)
		}
	}
	return b
}

// decode parses what encode wrote, without the kind. It copies what it keeps of b.
func (r *root) decode(b []byte) (ok bool) {
	d := &reader{b: b}
	r.index, r.covered, r.dead = int64(d.uvarint()), int64(d.uvarint()), int64(d.uvarint())
	r.views = list(d, func() viewRoot {
		v := viewRoot{}
		copy(v.key[:], d.bytes(32))
		v.base, v.top, v.plan = int64(d.uvarint()), int64(d.uvarint()), int64(d.uvarint())
		return v
	})
	r.texts = map[string][]byte{}
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		name := string(d.bytes(d.uvarint()))
		r.texts[name] = slices.Clone(d.bytes(d.uvarint()))
	}
	return !d.bad && len(d.b) == 0
}

// reader decodes values from a byte slice. After the first missing value all values are zero and
// bad is set, so that a decoder checks once at its end.
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

// list decodes a count and that many values; nil for zero. A count larger than the rest of b is
// bad.
func list[T any](r *reader, value func() T) []T {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad = true
	}
	if n == 0 || r.bad {
		return nil
	}
	l := make([]T, n)
	for i := range l {
		l[i] = value()
	}
	return l
}
