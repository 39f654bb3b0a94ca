// Package pptext reads preprocessed C++: it takes line numbers and blank space out of a text, so that a compile
// can be keyed on what is left, and finds the macros that a text used. It knows no compiler's options and no files.
//
// Preprocessed text is tokens, line markers (# 12 "a.h" 3 4) and the directives that a preprocessor leaves. A
// compiler that records no positions makes the same of two texts that differ in line numbers and blanks only:
// __LINE__ and assert have been expanded and are tokens. What still asks for a position, __builtin_LINE and the
// like, makes a text exact: it stays as it is, and so does every text with a doubt.
package pptext

import "bytes"

// Version changes when the canonical form does.
const Version = "1"

// Options are the choices of Canonical.
type Options struct {
	DropFalse bool // leave out "#if 0 ... #endif", in which cudafe++ keeps the bodies of device functions
}

// Canonical appends the canonical form of src to dst: no blank lines, no blanks around lines, one blank where
// there are several; line markers have the number 1, and those that change neither file nor the flags of system
// headers are gone. The result is preprocessed text again. exact reports that src was copied as it is, because it
// asks for positions, holds a raw string or is odd.
func Canonical(dst, src []byte, o Options) (text []byte, exact bool) {
	c := canon{out: dst, drop: o.DropFalse}
	for rest := src; len(rest) > 0; {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		if !c.line(line) {
			return append(dst, src...), true
		}
	}
	if c.depth > 0 {
		return append(dst, src...), true
	}
	return c.out, false
}

// canon is a text being written.
type canon struct {
	out   []byte
	drop  bool
	start int    // of the line in out
	depth int    // of conditionals inside #if 0; 0 is outside
	file  []byte // of the tokens that follow, with its quotes
	flags byte   // 1 for a system header, 2 for extern "C"
}

func blank(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\f' || b == '\v' }

// line takes one line; false gives up.
func (c *canon) line(l []byte) bool {
	for len(l) > 0 && blank(l[0]) {
		l = l[1:]
	}
	for len(l) > 0 && blank(l[len(l)-1]) {
		l = l[:len(l)-1]
	}
	if len(l) == 0 {
		return true
	}
	if c.depth > 0 {
		return c.skip(l)
	}
	if l[0] == '#' {
		if m, ok := parseMarker(l); ok {
			c.marker(m)
			return true
		}
		if c.drop && string(l) == "#if 0" {
			c.depth = 1
			return true
		}
	}
	c.start = len(c.out)
	if !c.tokens(l) {
		return false
	}
	if len(c.out) > c.start && c.out[len(c.out)-1] == ' ' {
		c.out = c.out[:len(c.out)-1]
	}
	if len(c.out) > c.start {
		c.out = append(c.out, '\n')
	}
	return true
}

// blank writes one blank between tokens.
func (c *canon) blank() {
	if len(c.out) > c.start && c.out[len(c.out)-1] != ' ' {
		c.out = append(c.out, ' ')
	}
}

// skip passes over a line inside #if 0.
func (c *canon) skip(l []byte) bool {
	if l[0] != '#' {
		return true
	}
	word := bytes.TrimLeft(l[1:], " \t\r\f\v")
	switch {
	case bytes.HasPrefix(word, []byte("if")):
		c.depth++
	case bytes.HasPrefix(word, []byte("endif")):
		c.depth--
	case bytes.HasPrefix(word, []byte("el")):
		return c.depth > 1
	}
	return true
}

// marker is a parsed line marker.
type marker struct {
	file  []byte // with its quotes; nil if there is none
	rest  []byte // the flags as they are written
	jump  bool   // enters or leaves a file
	flags byte
}

// parseMarker reads # 12 "file" 1 3 4, # 12 and #line 12 "file".
func parseMarker(l []byte) (m marker, ok bool) {
	s := bytes.TrimLeft(l[1:], " \t\r\f\v")
	s = bytes.TrimLeft(bytes.TrimPrefix(s, []byte("line ")), " \t\r\f\v")
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	if n == 0 {
		return m, false
	}
	s = bytes.TrimLeft(s[n:], " \t\r\f\v")
	if len(s) == 0 {
		return m, true
	}
	end := literal(s)
	if s[0] != '"' || end == 0 {
		return m, false
	}
	m.file, m.rest = s[:end], bytes.TrimSpace(s[end:])
	for _, f := range m.rest {
		switch f {
		case '1', '2':
			m.jump = true
		case '3':
			m.flags |= 1
		case '4':
			m.flags |= 2
		case ' ':
		default:
			return m, false
		}
	}
	return m, true
}

func (c *canon) marker(m marker) {
	if m.file == nil || !m.jump && m.flags == c.flags && bytes.Equal(m.file, c.file) {
		return
	}
	c.file, c.flags = m.file, m.flags
	c.out = append(append(c.out, "# 1 "...), m.file...)
	if len(m.rest) > 0 {
		c.out = append(append(c.out, ' '), m.rest...)
	}
	c.out = append(c.out, '\n')
}

// kinds of bytes at the start of a token.
const (
	other = iota
	word
	digit
	quote
	space
	slash
)

var kinds = func() (k [256]byte) {
	for b := range k {
		switch c := byte(b); {
		case c >= '0' && c <= '9':
			k[b] = digit
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c >= 0x80:
			k[b] = word
		case c == '"' || c == '\'':
			k[b] = quote
		case blank(c):
			k[b] = space
		case c == '/':
			k[b] = slash
		}
	}
	return k
}()

// tokens copies a line with single blanks; false gives up.
func (c *canon) tokens(l []byte) bool {
	for i := 0; i < len(l); {
		start := i
		switch kinds[l[i]] {
		case space:
			for i < len(l) && kinds[l[i]] == space {
				i++
			}
			c.blank()
			continue
		case word:
			for i < len(l) && kinds[l[i]]-word <= digit-word {
				i++
			}
			if positional(l[start:i]) || i < len(l) && l[i] == '"' && l[i-1] == 'R' {
				return false
			}
		case digit:
			i += number(l[i:])
		case quote:
			n := literal(l[i:])
			if n == 0 {
				return false
			}
			i += n
		case slash:
			if i+1 < len(l) && l[i+1] == '/' {
				return false
			}
			if i+1 < len(l) && l[i+1] == '*' {
				end := bytes.Index(l[i+2:], []byte("*/"))
				if end < 0 {
					return false
				}
				i += end + 4
				c.blank()
				continue
			}
			i++
		default:
			for i < len(l) && kinds[l[i]] == other {
				i++
			}
		}
		c.out = append(c.out, l[start:i]...)
	}
	return true
}

// positional reports a name that the compiler, not the preprocessor, replaces by a position.
func positional(name []byte) bool {
	if len(name) < len("__LINE__") || name[0] != '_' || name[1] != '_' {
		return false
	}
	switch string(name) {
	case "__builtin_LINE", "__builtin_COLUMN", "__builtin_source_location", "__LINE__", "__COUNTER__":
		return true
	}
	return false
}

// number is the length of the preprocessing number at the start of s: digit separators belong to it.
func number(s []byte) int {
	i := 1
	for ; i < len(s); i++ {
		k := kinds[s[i]]
		switch {
		case k == word || k == digit || s[i] == '.':
		case s[i] == '\'' && i+1 < len(s) && (kinds[s[i+1]] == word || kinds[s[i+1]] == digit):
		case (s[i] == '+' || s[i] == '-') && (s[i-1]|0x20 == 'e' || s[i-1]|0x20 == 'p'):
		default:
			return i
		}
	}
	return i
}

// literal is the length of the string or character literal at the start of s; 0 if it does not end.
func literal(s []byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}
