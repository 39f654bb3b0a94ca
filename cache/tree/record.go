package tree

import (
	"encoding/binary"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

var le = binary.LittleEndian

// writer collects entries to append. Its tables grow with them.
type writer struct {
	*tables
	b  []byte
	at int64 // offset of b in the file
}

// next returns the offset of the next entry.
func (w *writer) next() int64 { return w.at + int64(len(w.b)) }

// add appends one entry and returns its size.
func (w *writer) add(payload []byte) int64 {
	w.b = appendEntry(w.b, payload)
	return entryHead + int64(len(payload))
}

// str returns the number of s, and appends an entry first if s is new.
func (w *writer) str(s string) uint64 {
	payload := append([]byte{kindString}, s...)
	id, fresh := w.strings.id(payload[1:], w.next())
	if fresh {
		w.add(payload)
	}
	return id
}

func (w *writer) pair(p cache.FileDigest) uint64 {
	payload := append(binary.AppendUvarint([]byte{kindPair}, w.str(p.Path)), p.Digest[:]...)
	id, fresh := w.pairs.id(payload[1:], w.next())
	if fresh {
		w.add(payload)
	}
	return id
}

func (w *writer) removal(output string) int64 {
	return w.add(binary.AppendUvarint([]byte{kindRemoval}, w.str(output)))
}

// record appends r. Its payload:
//
//	command key, number of the first output's path,
//	fields (count, numbers of name and value), discovered (count, numbers of pairs),
//	absent, search and passed (counts, numbers of strings),
//	outputs (count; number of the path, digest, size, bits: executable, unkept),
//	text, functions (count; numbers of name and arch, figures), elapsed, CPU, MaxRSS, made (ns since
//	1970, or the smallest integer for no time);
//	number of the origin, if there is an origin or forms;
//	a zero and forms (numbers of pairs), if there are forms
//
// An earlier version of kbuild wrote another number instead of the zero. Its records are invalid.
func (w *writer) record(r *cache.Record) int64 {
	b := append([]byte{kindRecord}, r.Command[:]...)
	b = binary.AppendUvarint(b, w.str(r.Outputs[0].Path))
	b = binary.AppendUvarint(b, uint64(len(r.Fields)))
	for _, f := range r.Fields {
		b = binary.AppendUvarint(b, w.str(f.Name))
		b = binary.AppendUvarint(b, w.str(f.Value))
	}
	b = binary.AppendUvarint(b, uint64(len(r.Discovered)))
	for _, p := range r.Discovered {
		b = binary.AppendUvarint(b, w.pair(p))
	}
	for _, list := range [3][]string{r.Absent, r.Search, r.Passed} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, p := range list {
			b = binary.AppendUvarint(b, w.str(p))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.Outputs)))
	for _, o := range r.Outputs {
		b = binary.AppendUvarint(b, w.str(o.Path))
		b = append(b, o.Digest[:]...)
		b = binary.AppendVarint(b, o.Size)
		b = binary.AppendUvarint(b, bit(o.Exec)|bit(o.Unkept)<<1)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Text)))
	b = append(b, r.Text...)
	b = binary.AppendUvarint(b, uint64(len(r.Functions)))
	for _, f := range r.Functions {
		b = binary.AppendUvarint(b, w.str(f.Name))
		b = binary.AppendUvarint(b, w.str(f.Arch))
		b = binary.AppendUvarint(b, bit(f.Entry))
		for _, n := range figures(&f) {
			b = binary.AppendVarint(b, int64(*n))
		}
	}
	for _, v := range []int64{int64(r.Elapsed), int64(r.CPU), r.MaxRSS, nanos(r.Made)} {
		b = binary.AppendVarint(b, v)
	}
	if r.Origin != "" || len(r.Forms) > 0 {
		b = binary.AppendUvarint(b, w.str(r.Origin))
	}
	if len(r.Forms) > 0 {
		b = append(b, 0)
		for _, f := range r.Forms {
			b = binary.AppendUvarint(b, w.pair(f))
		}
	}
	return w.add(b)
}

// parseRecord decodes a record, with or without its fields. It returns nil if the record is
// damaged.
func (t *tables) parseRecord(b []byte, fields bool) *cache.Record {
	r, rec := &reader{b: b}, &cache.Record{}
	copy(rec.Command[:], r.bytes(uint64(len(rec.Command))))
	t.strings.at(r)
	if fields {
		rec.Fields = list(r, func() cache.Field { return cache.Field{Name: t.strings.at(r), Value: t.strings.at(r)} })
	} else {
		for n := 2 * r.uvarint(); n > 0 && !r.bad; n-- {
			r.uvarint()
		}
	}
	rec.Discovered = list(r, func() cache.FileDigest { return t.pairs.at(r) })
	for _, l := range [3]*[]string{&rec.Absent, &rec.Search, &rec.Passed} {
		*l = list(r, func() string { return t.strings.at(r) })
	}
	rec.Outputs = list(r, func() cache.Output {
		o := cache.Output{Path: t.strings.at(r)}
		copy(o.Digest[:], r.bytes(uint64(len(o.Digest))))
		o.Size = r.varint()
		bits := r.uvarint()
		o.Exec, o.Unkept = bits&1 != 0, bits&2 != 0
		return o
	})
	rec.Text = string(r.bytes(r.uvarint()))
	rec.Functions = list(r, func() cache.Function {
		f := cache.Function{Name: t.strings.at(r), Arch: t.strings.at(r), Entry: r.uvarint() != 0}
		for _, n := range figures(&f) {
			*n = int(r.varint())
		}
		return f
	})
	rec.Elapsed, rec.CPU = time.Duration(r.varint()), time.Duration(r.varint())
	rec.MaxRSS, rec.Made = r.varint(), moment(r.varint())
	if len(r.b) > 0 {
		rec.Origin = t.strings.at(r)
	}
	if len(r.b) > 0 {
		r.bad = r.bad || r.uvarint() != 0
		for len(r.b) > 0 && !r.bad {
			rec.Forms = append(rec.Forms, t.pairs.at(r))
		}
	}
	if r.bad || len(r.b) != 0 || len(rec.Outputs) == 0 {
		return nil
	}
	return rec
}

// figures returns pointers to the numbers of f, in the order of the encoding.
func figures(f *cache.Function) [7]*int {
	return [7]*int{&f.Registers, &f.Barriers, &f.Shared, &f.Constant, &f.Stack, &f.SpillStores, &f.SpillLoads}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// noTime encodes the zero time, which has no count of nanoseconds since 1970.
const noTime = -1 << 63

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixNano()
}

func moment(ns int64) time.Time {
	if ns == noTime {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
