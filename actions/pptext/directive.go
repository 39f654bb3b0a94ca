package pptext

import "bytes"

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
