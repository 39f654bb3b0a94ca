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

// directive rewrites the directive that starts at i, in the first column.
func (s *scanner) directive(i int) int {
	end := i + bytes.IndexByte(s.src[i:], '\n')
	text := bytes.TrimRight(s.src[i:end], " \t\v\f")
	name := directiveName(text)
	switch {
	case len(name) > 0 && '0' <= name[0] && name[0] <= '9', string(name) == "line":
		if !s.mark(text, name, i == 0) {
			return odd
		}
		return end + 1
	case spans(text):
		return odd
	}
	if handled := s.conditional(name, text); handled {
		return end + 1
	}
	if s.open < 0 {
		return odd
	}
	s.settle(&s.out)
	s.out = append(append(s.out, text...), '\n')
	return end + 1
}

// conditional tracks the nesting of conditionals, and drops those that are "#if 0". It reports
// whether the directive itself is dropped.
func (s *scanner) conditional(name, text []byte) bool {
	switch string(name) {
	case "if", "ifdef", "ifndef":
		switch {
		case s.dropping > 0:
			s.dropping++
		case s.dropFalse && isFalse(text):
			s.dropping, s.before = 1, snapshot{len(s.out), s.track}
			return true
		default:
			s.enterGroup(&s.out)
			s.open++
		}
	case "else", "elif", "elifdef", "elifndef":
		if s.dropping == 1 {
			s.restore()
			s.enterGroup(&s.out)
			s.open++
			s.out = append(s.out, "#if 0\n"...)
		}
		if s.dropping == 0 {
			s.leaveGroup(&s.out)
		}
	case "endif":
		switch s.dropping {
		case 0:
			s.leaveGroup(&s.out)
			s.open--
		case 1:
			s.restore()
			return true
		default:
			s.dropping--
		}
	}
	return false
}

// restore drops all output since the "#if 0".
func (s *scanner) restore() {
	s.out, s.track, s.dropping = s.out[:s.before.out], s.before.track, 0
}

// directiveName returns the word after the # of a directive: "pragma", "if", or the number of a
// line marker.
func directiveName(text []byte) []byte {
	text = bytes.TrimLeft(text[1:], " \t")
	n := 0
	for n < len(text) && word[text[n]] {
		n++
	}
	return text[:n]
}

// isFalse reports whether the directive is "#if 0".
func isFalse(text []byte) bool {
	condition, ok := bytes.CutPrefix(bytes.TrimLeft(text[1:], " \t"), []byte("if"))
	return ok && string(bytes.Trim(condition, " \t\v\f")) == "0"
}

// spans reports whether a directive may continue in the next line. It does not parse literals: one
// that looks like a continuation counts as one.
func spans(text []byte) bool {
	return text[len(text)-1] == '\\' || bytes.HasSuffix(text, []byte("??/")) ||
		bytes.Contains(text, []byte(`R"`)) || bytes.Contains(text, []byte("/*"))
}
