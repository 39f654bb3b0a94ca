package tree

import (
	"encoding/binary"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// codec appends values to b, or reads them from it. So one function states a format for both. After
// the first missing value all values are zero and bad is set: a reader checks once at its end.
type codec struct {
	b       []byte
	reading bool
	bad     bool
	db      *DB     // for reading strings and pairs
	w       *writer // for writing them
}

func (c *codec) uvarint(v uint64) uint64 {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, v)
		return v
	}
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.bad = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

// offset codes a number that is not negative.
func (c *codec) offset(v *int64) { *v = int64(c.uvarint(uint64(*v))) }

// int codes any number.
func (c *codec) int(v int64) int64 {
	u := c.uvarint(uint64(v<<1) ^ uint64(v>>63))
	return int64(u>>1) ^ -int64(u&1)
}

// raw codes bytes without their number.
func (c *codec) raw(p []byte) {
	switch {
	case !c.reading:
		c.b = append(c.b, p...)
	case len(p) > len(c.b):
		c.b, c.bad = nil, true
	default:
		c.b = c.b[copy(p, c.b):]
	}
}

// list codes the length of a list, which it makes when reading, and returns the list.
func list[T any](c *codec, l *[]T) []T {
	n := c.uvarint(uint64(len(*l)))
	if c.reading && n > uint64(len(c.b)) {
		c.b, c.bad, n = nil, true, 0
	}
	if c.reading && n > 0 {
		*l = make([]T, n)
	}
	return *l
}

// text codes bytes and their number.
func (c *codec) text(s *string) {
	b := []byte(*s)
	c.raw(list(c, &b))
	*s = string(b)
}

// str codes the number of a string.
func (c *codec) str(s *string) {
	if !c.reading {
		c.uvarint(c.w.str(*s))
	} else if id := c.uvarint(0); !c.bad {
		var ok bool
		*s, ok = c.db.str(id)
		c.bad = !ok
	}
}

// pair codes the number of a pair.
func (c *codec) pair(p *cache.FileDigest) {
	if !c.reading {
		c.uvarint(c.w.pair(*p))
	} else if id := c.uvarint(0); !c.bad {
		var ok bool
		*p, ok = c.db.pair(id)
		c.bad = !ok
	}
}

// more reports whether there is another value: when writing, if is.
func (c *codec) more(is bool) bool {
	if c.reading {
		return len(c.b) > 0 && !c.bad
	}
	return is
}

// root codes index, covered and compacted; the number of views, of each the key (32 bytes) and base,
// top and plan.
func (c *codec) root(r *root) {
	c.offset(&r.index)
	c.offset(&r.covered)
	c.offset(&r.compacted)
	for i := range list(c, &r.views) {
		v := &r.views[i]
		c.raw(v.key[:])
		c.offset(&v.base)
		c.offset(&v.top)
		c.offset(&v.plan)
	}
	if c.more(false) {
		c.b = nil // texts of earlier versions
	}
}

// start codes the beginning of a record: command key, number of the first output's path.
func (c *codec) start(command *cache.Key, output *string) {
	c.raw(command[:])
	c.str(output)
}

// record codes a record after its start. It can leave out the fields when reading:
//
//	fields (count, numbers of name and value), discovered (count, numbers of pairs),
//	absent, search and passed (counts, numbers of strings),
//	outputs (count; number of the path, digest, size, bits: executable, unkept),
//	text, functions (count; numbers of name and arch, figures), elapsed, CPU, MaxRSS, made (ns since
//	1970, or the smallest integer for no time);
//	number of the origin, if there is one
//
// Earlier versions of kbuild then wrote a zero and more, which is ignored. The first of them wrote
// another number instead of the zero: its records are invalid.
func (c *codec) record(r *cache.Record, fields bool) {
	if c.reading && !fields {
		for n := 2 * c.uvarint(0); n > 0 && !c.bad; n-- {
			c.uvarint(0)
		}
	} else {
		for i := range list(c, &r.Fields) {
			c.str(&r.Fields[i].Name)
			c.str(&r.Fields[i].Value)
		}
	}
	for i := range list(c, &r.Discovered) {
		c.pair(&r.Discovered[i])
	}
	for _, l := range [3]*[]string{&r.Absent, &r.Search, &r.Passed} {
		for i := range list(c, l) {
			c.str(&(*l)[i])
		}
	}
	for i := range list(c, &r.Outputs) {
		o := &r.Outputs[i]
		c.str(&o.Path)
		c.raw(o.Digest[:])
		o.Size = c.int(o.Size)
		bits := c.uvarint(bit(o.Exec) | bit(o.Unkept)<<1)
		o.Exec, o.Unkept = bits&1 != 0, bits&2 != 0
	}
	c.text(&r.Text)
	for i := range list(c, &r.Functions) {
		f := &r.Functions[i]
		c.str(&f.Name)
		c.str(&f.Arch)
		f.Entry = c.uvarint(bit(f.Entry)) != 0
		for _, n := range [7]*int{&f.Registers, &f.Barriers, &f.Shared, &f.Constant, &f.Stack, &f.SpillStores, &f.SpillLoads} {
			*n = int(c.int(int64(*n)))
		}
	}
	r.Elapsed, r.CPU = time.Duration(c.int(int64(r.Elapsed))), time.Duration(c.int(int64(r.CPU)))
	r.MaxRSS = c.int(r.MaxRSS)
	const none = -1 << 63 // the zero time has no count of nanoseconds since 1970
	made := int64(none)
	if !r.Made.IsZero() {
		made = r.Made.UnixNano()
	}
	if made = c.int(made); c.reading && made != none {
		r.Made = time.Unix(0, made).UTC()
	}
	if c.more(r.Origin != "") {
		c.str(&r.Origin)
	}
	if c.more(false) {
		c.bad, c.b = c.uvarint(0) != 0 || c.bad, nil
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
