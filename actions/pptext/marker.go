package pptext

import "bytes"

// place is where text comes from, as far as a compiler can tell from the line markers before it.
type place struct {
	name   []byte // the file, as spelled, in its quotes; nil when not known
	system uint8  // systemUnsaid, or bits of the flags 3 and 4
}

// Flags of a line marker, as bits.
const (
	enters  = 1 << 1 // a file begins
	leaves  = 1 << 2 // the file that included another goes on
	systems = 1<<3 | 1<<4

	// systemUnsaid is the system of a place that "#line" named. It says nothing of flags: g++ keeps
	// those before it.
	systemUnsaid = 1
)

func (p place) is(q place) bool {
	return p.name != nil && p.system == q.system && bytes.Equal(p.name, q.name)
}

// track follows the markers of a text, and holds back those that may turn out to say nothing.
type track struct {
	now    place    // of the text written so far
	next   place    // of the text to come; other than now only when stale
	stale  bool     // a marker for next must be written before more text
	inside [][]byte // names of the files that include the one read; nil for one that is not known

	open  int  // conditionals
	moved bool // a marker was written inside of an open conditional
}

// settle writes the marker that was held back, if any.
func (t *track) settle(out *[]byte) {
	if t.stale {
		*out = appendMarker(*out, t.next, 0)
		t.now, t.stale, t.moved = t.next, false, true
	}
}

// forget makes the next marker count, as it is not known which of those before did.
func (t *track) forget() {
	t.now, t.next, t.stale = place{}, place{}, false
}

// enterGroup is called before a directive that opens a conditional.
func (t *track) enterGroup(out *[]byte) {
	t.settle(out)
	if t.open == 0 {
		t.moved = false
	}
}

// leaveGroup is called before a directive that ends a group of a conditional. Compilers do not look
// at the markers in groups that they skip, so after a group with a marker it is not known what
// holds.
func (t *track) leaveGroup(out *[]byte) {
	t.settle(out)
	if t.moved {
		t.forget()
		t.inside = nil
	}
}

// appendMarker writes a marker, in the spelling that it had but for the line number.
func appendMarker(out []byte, p place, step uint8) []byte {
	if p.system == systemUnsaid {
		out = append(out, "#line 1 "...)
	} else {
		out = append(out, "# 1 "...)
	}
	out = append(out, p.name...)
	for flag := byte(1); flag <= 4; flag++ {
		if p.system != systemUnsaid && (step|p.system)&(1<<flag) != 0 {
			out = append(out, ' ', '0'+flag)
		}
	}
	return append(out, '\n')
}

// mark reads a line marker, `# 12 "file" 3 4` or `#line 12 "file"`; name is the word after its #.
// It is written now when it is the first line of the text, enters or leaves a file, or names the
// folder that g++ -g -E ran in (`# 1 "/folder//"`). False when it has another shape.
func (s *scanner) mark(text, name []byte, first bool) bool {
	p, step, ok := parseMarker(text, name)
	if !ok {
		return false
	}
	if s.base != nil && bytes.HasPrefix(p.name, s.base) {
		p.name = append([]byte{'"'}, p.name[len(s.base):]...)
	}
	if p.name == nil || s.dropping > 0 { // the line alone; and compilers do not look at markers of skipped text
		return true
	}
	switch {
	case step == enters:
		s.settle(&s.out)
		s.inside = append(s.inside, s.now.name)
	case step == leaves && s.leave(p.name):
		s.stale = false
	case step == leaves: // g++ ignores a marker that leaves to a file that it does not come from; others may not
		s.settle(&s.out)
		s.out = appendMarker(s.out, p, step)
		s.forget()
		return true
	case !first && !bytes.HasSuffix(p.name, []byte(`//"`)):
		s.next, s.stale = p, !s.now.is(p)
		return true
	}
	s.out = appendMarker(s.out, p, step)
	s.now, s.next, s.stale, s.moved = p, p, false, true
	return true
}

// leave says whether the file that goes on is the one that included the file that ends.
func (t *track) leave(name []byte) bool {
	n := len(t.inside) - 1
	if n < 0 || !bytes.Equal(t.inside[n], name) {
		return false
	}
	t.inside = t.inside[:n]
	return true
}

// parseMarker reads the place that a marker names, without a name when it has only a line number,
// and the flag 1 or 2. word is its first word, "line" or the number itself.
func parseMarker(text, word []byte) (p place, step uint8, ok bool) {
	rest := text[bytes.Index(text, word):]
	if string(word) == "line" {
		p.system = systemUnsaid
		rest = bytes.TrimLeft(rest[len(word):], " \t")
	}
	digits := 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		digits++
	}
	name := bytes.TrimLeft(rest[digits:], " \t")
	if len(name) == 0 {
		return p, 0, digits > 0
	}
	n := nameEnd(name)
	flags, ok := parseFlags(name[max(n, 0):])
	switch {
	case digits == 0, len(name) == len(rest)-digits, n < 0, !ok: // without a blank, the number would go on
		return p, 0, false
	case p.system == systemUnsaid && flags != 0, flags&(enters|leaves) == enters|leaves:
		return p, 0, false
	}
	p.name, p.system = name[:n], p.system|flags&systems
	return p, flags & (enters | leaves), true
}

// nameEnd returns the length of the quoted file name that text begins with, or -1.
func nameEnd(text []byte) int {
	if text[0] != '"' {
		return -1
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// parseFlags reads the flags of a marker, digits from 1 to 4 in rising order.
func parseFlags(text []byte) (flags uint8, ok bool) {
	last := byte('0')
	for len(text) > 0 {
		rest := bytes.TrimLeft(text, " \t")
		if len(rest) == 0 || len(rest) == len(text) || rest[0] <= last || rest[0] > '4' {
			return 0, false
		}
		last = rest[0]
		flags |= 1 << (last - '0')
		text = rest[1:]
	}
	return flags, true
}
