package importer

import (
	"slices"
	"strings"
)

// Sources are read without a compiler. The scanner strips comments, separates directives from code,
// and finds the names that code defines, declares and uses. That approximates what a linker sees,
// well enough to decide which files form a program.

// event is a directive, or the code up to the next directive.
type event struct {
	kind string // of the directive: "include", "if", ...; "" means code
	line int
	arg  string // the rest of the line; for a define, the name
	body string // for a define
	code *code
}

// code is the text between two directives.
type code struct {
	uses   []string // identifiers in bodies and initialisers
	decls  []symbol
	defs   []symbol
	calls  []string // macros that stand as declarations: INSTANTIATE(float)
	launch int      // line of the first kernel launch; 0 means none
	inside int      // line where device code reads its thread index; 0 means none
	nested int      // line of a launch in device code; 0 means none
	spaces []string // namespaces
}

// symbol is a function, a variable or a class member.
type symbol struct {
	class, name    string
	device, kernel bool
	local          bool // static, inline or a template: not linkable from other files
	external       bool // an extern variable
	virtual        bool
	line           int
}

func (s symbol) key() string {
	if s.class != "" {
		return s.class + "::" + s.name
	}
	return s.name
}

// line is a logical line without comments. String literals in it are empty.
type line struct {
	number    int
	text      string
	directive bool
}

// lines splits a text into logical lines.
func lines(text string) (all []line) {
	c := &cutter{text: text, number: 1, first: 1}
	for c.at < len(text) {
		c.step()
	}
	c.flush()
	return c.all
}

// cutter is the state of lines.
type cutter struct {
	text          string
	at            int
	number, first int // of the current physical line, and of the start of the logical line
	all           []line
	out           strings.Builder
}

func (c *cutter) flush() {
	text := strings.TrimSpace(c.out.String())
	if text != "" {
		c.all = append(c.all, line{c.first, text, text[0] == '#'})
	}
	c.out.Reset()
	c.first = c.number
}

func (c *cutter) isDirective() bool { return strings.HasPrefix(strings.TrimSpace(c.out.String()), "#") }

// step consumes one character, string or comment.
func (c *cutter) step() {
	rest := c.text[c.at:]
	switch {
	case rest[0] == '\n':
		c.at++
		c.number++
		c.flush()
	case strings.HasPrefix(rest, "\\\n"), strings.HasPrefix(rest, "\\\r\n"):
		c.at += strings.IndexByte(rest, '\n') + 1
		c.number++
		c.out.WriteByte(' ')
	case strings.HasPrefix(rest, "//"):
		if end := strings.IndexByte(rest, '\n'); end >= 0 {
			c.at += end
		} else {
			c.at = len(c.text)
		}
	case strings.HasPrefix(rest, "/*"):
		c.skip(rest, 2, "*/")
		c.out.WriteByte(' ')
	case strings.HasPrefix(rest, `R"`):
		if open := strings.IndexByte(rest, '('); open > 0 && open < 20 {
			c.skip(rest, open, ")"+rest[2:open]+`"`)
			c.out.WriteString(`""`)
			return
		}
		c.take(1)
	case rest[0] == '"' || rest[0] == '\'' && !c.afterDigit():
		c.quoted(rest)
	default:
		c.take(1)
	}
}

// afterDigit reports whether a ' separates digits.
func (c *cutter) afterDigit() bool { return c.at > 0 && isWord(c.text[c.at-1]) }

func (c *cutter) take(n int) {
	c.out.WriteString(c.text[c.at : c.at+n])
	c.at += n
}

// skip advances past the first occurrence of end.
func (c *cutter) skip(rest string, from int, end string) {
	n := strings.Index(rest[from:], end)
	if n < 0 {
		n = len(rest) - from - len(end)
	}
	n = min(len(rest), max(from+n+len(end), 1))
	c.number += strings.Count(rest[:n], "\n")
	c.at += n
}

func (c *cutter) quoted(rest string) {
	end := 1
	for end < len(rest) && rest[end] != rest[0] && rest[end] != '\n' {
		if rest[end] == '\\' && end+1 < len(rest) {
			if rest[end+1] == '\n' {
				c.number++
			}
			end++
		}
		end++
	}
	if end < len(rest) && rest[end] == rest[0] {
		end++
	}
	end = min(end, len(rest))
	if c.isDirective() {
		c.out.WriteString(rest[:end])
	} else {
		c.out.WriteString(rest[:1] + rest[:1])
	}
	c.at += end
}

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// words splits code into tokens: names, ::, <<<, >>> and single characters. A number becomes "0".
func words(text string) (out []string) {
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b >= '0' && b <= '9':
			for i < len(text) && (isWord(text[i]) || text[i] == '.' || text[i] == '\'') {
				i++
			}
			out = append(out, "0")
		case isWord(b):
			start := i
			for i < len(text) && isWord(text[i]) {
				i++
			}
			out = append(out, text[start:i])
		case b == ' ' || b == '\t' || b == '\r' || b == '\n':
			i++
		default:
			n := 1
			for _, mark := range []string{"<<<", ">>>", "::", "=="} {
				if strings.HasPrefix(text[i:], mark) {
					n = len(mark)
				}
			}
			out = append(out, text[i:i+n])
			i += n
		}
	}
	return out
}

// directive splits a directive into the word after # and the rest.
func directive(text string) (kind, rest string) {
	text = strings.TrimSpace(text[1:])
	end := 0
	for end < len(text) && isWord(text[end]) {
		end++
	}
	return text[:end], strings.TrimSpace(text[end:])
}

// events scans a file. qualifiers holds the macros of the tree that expand to __device__ and
// similar words.
func events(text string, qualifiers map[string]string) (all []event) {
	p := &parser{qualifiers: qualifiers}
	for _, l := range lines(text) {
		if !l.directive {
			p.code(l)
			continue
		}
		if p.cur != nil {
			all, p.cur = append(all, event{line: p.start, code: p.cur.done()}), nil
		}
		e := directiveEvent(l)
		switch e.kind {
		case "if", "ifdef", "ifndef":
			p.saved = append(p.saved, p.state())
		case "elif", "else":
			if n := len(p.saved); n > 0 {
				p.restore(p.saved[n-1])
			}
		case "endif":
			p.saved = p.saved[:max(len(p.saved)-1, 0)]
		}
		all = append(all, e)
	}
	if p.cur != nil {
		if p.top().kind != 'b' {
			p.called()
		}
		all = append(all, event{line: p.start, code: p.cur.done()})
	}
	return all
}

// directiveEvent parses the line of a directive.
func directiveEvent(l line) event {
	kind, rest := directive(l.text)
	e := event{kind: kind, line: l.number, arg: rest}
	if kind == "define" {
		e.arg, e.body = defined(rest)
	}
	return e
}

// defined splits the text after #define. The body of a function-like macro starts with "(".
func defined(rest string) (name, body string) {
	end := 0
	for end < len(rest) && isWord(rest[end]) {
		end++
	}
	name, body = rest[:end], rest[end:]
	if strings.HasPrefix(body, "(") {
		if close := strings.IndexByte(body, ')'); close > 0 {
			return name, "(" + strings.TrimSpace(body[close+1:])
		}
	}
	return name, strings.TrimSpace(body)
}

// done removes duplicates.
func (c *code) done() *code {
	slices.Sort(c.uses)
	c.uses = slices.Compact(c.uses)
	return c
}
