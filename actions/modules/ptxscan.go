package modules

import "strings"

// scanner splits PTX into words and single characters. It skips comments and white space, and
// returns "" in quotes for each string.
type scanner struct {
	text string
	at   int
}

// next returns the next token, or "" at the end.
func (s *scanner) next() string {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "//"):
			s.past("\n")
		case strings.HasPrefix(rest, "/*"):
			s.at += 2
			s.past("*/")
		case c == '"':
			s.at++
			s.past(`"`)
			return `""`
		case isWord(c):
			n := 1
			for n < len(rest) && isWord(rest[n]) {
				n++
			}
			s.at += n
			return rest[:n]
		case c <= ' ':
			s.at++
		default:
			s.at++
			return rest[:1]
		}
	}
	return ""
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%' || c == '.'
}

// past advances to after the next end.
func (s *scanner) past(end string) {
	if i := strings.Index(s.text[s.at:], end); i >= 0 {
		s.at += i + len(end)
	} else {
		s.at = len(s.text)
	}
}

// list reads to the parenthesis that closes an open one, and splits at commas.
func (s *scanner) list() [][]string {
	var out [][]string
	var item []string
	depth := 1
	for tok := s.next(); tok != ""; tok = s.next() {
		switch tok {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 || depth == 1 && tok == "," {
			if len(item) > 0 {
				out = append(out, item)
			}
			item = nil
			if depth == 0 {
				break
			}
			continue
		}
		item = append(item, tok)
	}
	return out
}

// body advances past the next pair of braces or the next semicolon. tok is the last token read.
func (s *scanner) body(tok string) error {
	for tok != "{" && tok != ";" {
		if tok == "" {
			return errCutShort
		}
		tok = s.next()
	}
	if tok == "{" && !s.skipTo("}") {
		return errCutShort
	}
	return nil
}

// skipTo advances past the brace that closes an open one.
func (s *scanner) skipTo(end string) bool {
	depth := 1
	for tok := s.next(); tok != ""; tok = s.next() {
		switch tok {
		case "{":
			depth++
		case end:
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}
