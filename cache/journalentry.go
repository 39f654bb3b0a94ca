package cache

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// entries collects what is to be appended to a journal. The tables of the journal grow with it.
type entries struct {
	j  *Journal
	b  []byte
	at int64 // where b will stand in the file
}

// next is where the next entry will begin.
func (w *entries) next() int64 { return w.at + int64(len(w.b)) }

// add appends one entry and gives its size.
func (w *entries) add(payload []byte) int {
	w.b = binary.LittleEndian.AppendUint32(w.b, uint32(len(payload)))
	w.b = binary.LittleEndian.AppendUint32(w.b, crc32.Checksum(payload, castagnoli))
	w.b = append(w.b, payload...)
	return entryHead + len(payload)
}

// str gives the number of s, after its entry if s is new.
func (w *entries) str(s string) uint64 {
	id, fresh := w.j.strings.id(s)
	if fresh {
		w.j.strings.placed(w.next())
		w.add(append([]byte{kindString}, s...))
	}
	return id
}

func (w *entries) pair(p FileDigest) uint64 {
	id, fresh := w.j.pairs.id(p)
	if fresh {
		b := binary.AppendUvarint([]byte{kindPair}, w.str(p.Path))
		w.j.pairs.placed(w.next())
		w.add(append(b, p.Digest[:]...))
	}
	return id
}

func (w *entries) removal(output string) int {
	return w.add(binary.AppendUvarint([]byte{kindRemoval}, w.str(output)))
}

// record appends r. Its payload:
//
//	command key, number of the first output's path,
//	fields (count, numbers of name and value), discovered (count, numbers of pairs), absent, search and
//	passed (counts, numbers of strings), outputs (count; number of the path, digest, size, bits: executable, unkept),
//	text, functions (count; numbers of name and arch, figures), elapsed, CPU, MaxRSS, made (ns since
//	1970, or the smallest integer for no time)
func (w *entries) record(r *Record) int {
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
		for _, n := range f.figures() {
			b = binary.AppendVarint(b, int64(*n))
		}
	}
	for _, v := range []int64{int64(r.Elapsed), int64(r.CPU), r.MaxRSS, nanos(r.Made)} {
		b = binary.AppendVarint(b, v)
	}
	return w.add(b)
}

// parseRecord reads what record wrote, or gives nil.
func (j *Journal) parseRecord(b []byte) *Record {
	r, rec := &reader{b: b}, &Record{}
	copy(rec.Command[:], r.bytes(uint64(len(rec.Command))))
	j.strings.at(r)
	rec.Fields = list(r, func() Field { return Field{j.strings.at(r), j.strings.at(r)} })
	rec.Discovered = list(r, func() FileDigest { return j.pairs.at(r) })
	for _, l := range [3]*[]string{&rec.Absent, &rec.Search, &rec.Passed} {
		*l = list(r, func() string { return j.strings.at(r) })
	}
	rec.Outputs = list(r, func() Output {
		o := Output{Path: j.strings.at(r)}
		copy(o.Digest[:], r.bytes(uint64(len(o.Digest))))
		o.Size = r.varint()
		bits := r.uvarint()
		o.Exec, o.Unkept = bits&1 != 0, bits&2 != 0
		return o
	})
	rec.Text = string(r.bytes(r.uvarint()))
	rec.Functions = list(r, func() Function {
		f := Function{Name: j.strings.at(r), Arch: j.strings.at(r), Entry: r.uvarint() != 0}
		for _, n := range f.figures() {
			*n = int(r.varint())
		}
		return f
	})
	rec.Elapsed, rec.CPU = time.Duration(r.varint()), time.Duration(r.varint())
	rec.MaxRSS, rec.Made = r.varint(), moment(r.varint())
	if r.bad || len(r.b) != 0 || len(rec.Outputs) == 0 {
		return nil
	}
	return rec
}

// figures are the numbers of f, in the order in which they are written.
func (f *Function) figures() [7]*int {
	return [7]*int{&f.Registers, &f.Barriers, &f.Shared, &f.Constant, &f.Stack, &f.SpillStores, &f.SpillLoads}
}

// list reads a count and so many values; none is nil. A count beyond the bytes left is bad.
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

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// noTime stands for the zero time, which has no count of nanoseconds since 1970.
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
