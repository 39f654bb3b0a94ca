package pptext

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// place is the origin of text, as far as the line markers before it tell a compiler.
type place struct {
	name   []byte // the file in its quotes, as spelled; nil if unknown
	system uint8  // systemUnsaid, or bits of the flags 3 and 4
}

// Flags of a line marker, as bits.
const (
	enters  = 1 << 1 // a file begins
	leaves  = 1 << 2 // the including file continues
	systems = 1<<3 | 1<<4

	// systemUnsaid is the system of a place that "#line" named. "#line" has no flags: g++ keeps the
	// previous ones.
	systemUnsaid = 1
)

func (p place) is(q place) bool {
	return p.name != nil && p.system == q.system && bytes.Equal(p.name, q.name)
}

// track follows the markers of a text, and delays those that may turn out to be redundant.
type track struct {
	now    place    // of the text written so far
	next   place    // of the text to come; differs from now only if stale
	stale  bool     // a marker for next must be written before more text
	inside [][]byte // names of the including files; nil for an unknown one

	open  int  // conditionals
	moved bool // a marker was written inside of an open conditional
}

// settle writes the delayed marker, if any.
func (t *track) settle(out *[]byte) {
	if t.stale {
		*out = appendMarker(*out, t.next, 0)
		t.now, t.stale, t.moved = t.next, false, true
	}
}

// forget makes the next marker count, since it is unknown which of the previous ones apply.
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

// leaveGroup is called before a directive that ends a group of a conditional. Compilers ignore the
// markers in groups that they skip. So after a group with a marker the current place is unknown.
func (t *track) leaveGroup(out *[]byte) {
	t.settle(out)
	if t.moved {
		t.forget()
		t.inside = nil
	}
}

// appendMarker writes a marker, in its original spelling except for the line number.
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

// mark handles a line marker, `# 12 "file" 3 4` or `#line 12 "file"`; name is the word after its #.
// It writes the marker immediately if it is the first line of the text, or enters or leaves a file.
// The same goes for a marker with the folder that g++ -g -E ran in (`# 1 "/folder//"`). mark
// returns false for a marker of another shape.
func (s *scanner) mark(text, name []byte, first bool) bool {
	p, step, ok := parseMarker(text, name)
	if !ok {
		return false
	}
	if s.base != nil && bytes.HasPrefix(p.name, s.base) {
		p.name = append([]byte{'"'}, p.name[len(s.base):]...)
	}
	// Only a line, or skipped text, whose markers compilers ignore.
	if p.name == nil || s.dropping > 0 {
		return true
	}
	switch {
	case step == enters:
		s.settle(&s.out)
		s.inside = append(s.inside, s.now.name)
	case step == leaves && s.leave(p.name):
		s.stale = false
	// g++ ignores a return to a file that did not include this one; others may not.
	case step == leaves:
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

// leave reports whether the named file is the one that included the file that ends.
func (t *track) leave(name []byte) bool {
	n := len(t.inside) - 1
	if n < 0 || !bytes.Equal(t.inside[n], name) {
		return false
	}
	t.inside = t.inside[:n]
	return true
}

// parseMarker returns the place that a marker names, and the flag 1 or 2. The name is nil if the
// marker has only a line number. word is its first word, "line" or the number itself.
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
	// Without a blank, the number would continue.
	case digits == 0, len(name) == len(rest)-digits, n < 0, !ok:
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

// parseFlags parses the flags of a marker, digits from 1 to 4 in rising order.
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

// Files returns the files that the line markers of a preprocessed text name, as spelled, each once,
// in the order in which they begin.
func Files(text []byte, withoutSystem bool) (files []string) {
	seen := map[string]bool{}
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		// With -g, DIR// is the working directory.
		if name, system := markedFile(line); name != "" && name[0] != '<' && !strings.HasSuffix(name, "//") && !seen[name] {
			seen[name] = true
			if !system || !withoutSystem {
				files = append(files, name)
			}
		}
	}
	return files
}

// NamesBase reports whether a preprocessed text depends on its base, an absolute folder. It does if
// its code contains the base, or may query the name of its file. Names in line markers do not
// count, those in includes (see g++ -dI) do.
func NamesBase(text []byte, base string) bool {
	if bytes.Contains(text, []byte("__builtin_FILE")) || bytes.Contains(text, []byte("__builtin_source_location")) {
		return true
	}
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(base))
		if i < 0 {
			return false
		}
		line := text[bytes.LastIndexByte(text[:at+i], '\n')+1:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		// g++ -dU writes the #define lines.
		if name, _ := markedFile(line); name == "" && !bytes.HasPrefix(line, []byte("#define ")) {
			return true
		}
		at += i + len(base)
	}
}

// markedFile returns the file of a line marker, # 12 "a.h" 1 3, and whether it is a system header
// (3). It returns "" for any other line.
func markedFile(line []byte) (name string, system bool) {
	rest, ok := bytes.CutPrefix(line, []byte("# "))
	if !ok {
		return "", false
	}
	at := bytes.IndexByte(rest, '"')
	if _, err := strconv.Atoi(string(bytes.TrimSpace(rest[:max(at, 0)]))); at < 0 || err != nil {
		return "", false
	}
	quoted := rest[at:]
	end := bytes.LastIndexByte(quoted, '"')
	name, err := strconv.Unquote(string(quoted[:end+1]))
	if err != nil {
		return "", false
	}
	return name, slices.Contains(strings.Fields(string(quoted[end+1:])), "3")
}
