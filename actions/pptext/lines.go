package pptext

import "bytes"

// scanner rewrites one text. Its methods take an index in src and return the index to continue at,
// or odd.
type scanner struct {
	src, out  []byte
	dropFalse bool
	base      []byte // prefix of names below the base in markers: "/a/proj/

	track
	dropping int      // conditionals open since a dropped "#if 0", itself included; 0 outside
	before   snapshot // state to restore at its #endif
}

// odd is the index that means "give up, copy the text".
const odd = -1

// snapshot is the state before an "#if 0" that is dropped.
type snapshot struct {
	out   int
	track track
}

// line rewrites the line that starts at i, including its newline. It rewrites several lines if a
// comment or a raw string spans them.
func (s *scanner) line(i int) int {
	if s.src[i] == '#' {
		return s.directive(i)
	}
	i = s.gap(i)
	if i < 0 {
		return odd
	}
	switch s.src[i] {
	case '\n':
		return i + 1
	case '#': // indented, or after a comment
		return odd
	case '%':
		if s.src[i+1] == ':' { // a directive in digraphs
			return odd
		}
	}
	if s.stale {
		s.settle(&s.out)
	}
	return s.tokens(i)
}

// tokens copies from i, the first token of a line, to the end of the line, and replaces every gap
// by one blank.
func (s *scanner) tokens(i int) int {
	src, start := s.src, i
	for {
		for class[src[i]] == plain {
			i++
		}
		switch class[src[i]] {
		case newline:
			s.out = append(append(s.out, src[start:i]...), '\n')
			return i + 1
		case blank:
			if src[i] == ' ' && class[src[i+1]]&afterGap == 0 {
				i++
				continue
			}
			s.out = append(s.out, src[start:i]...)
			i = s.gap(i)
			start = s.resume(i)
		case slash:
			if src[i+1] != '*' && src[i+1] != '/' {
				i++
				continue
			}
			s.out = append(s.out, src[start:i]...)
			i = s.gap(i)
			start = s.resume(i)
		case quote:
			i = literal(src, i)
		case question:
			if src[i+1] == '?' { // a trigraph
				return odd
			}
			i++
		default:
			return odd
		}
		if i < 0 {
			return odd
		}
	}
}

// resume starts a run of copied text at i, after a gap, and returns i. The gap becomes one blank,
// or nothing at the end of a line.
func (s *scanner) resume(i int) int {
	if i >= 0 && s.src[i] != '\n' {
		s.out = append(s.out, ' ')
	}
	return i
}

// gap returns the index after the blanks and comments at i.
func (s *scanner) gap(i int) int {
	for {
		switch c := s.src[i]; {
		case class[c] == blank:
			i++
		case c == '/' && s.src[i+1] == '/':
			return odd // neither cpp nor cudafe++ writes one
		case c == '/' && s.src[i+1] == '*':
			n := bytes.Index(s.src[i+2:], []byte("*/"))
			if n < 0 || bytes.IndexByte(s.src[i+2:i+2+n], '\\') >= 0 {
				return odd
			}
			i += 2 + n + 2
		default:
			return i
		}
	}
}
