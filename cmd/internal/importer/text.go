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
	var out strings.Builder
	number, first := 1, 1 // of the current physical line, and of the start of the logical line
	for at := 0; at < len(text); {
		rest := text[at:]
		n, kept := 1, rest[:1] // the length of the next piece, and what is kept of it
		switch {
		case rest[0] == '\n':
			kept = ""
		case strings.HasPrefix(rest, "\\\n"), strings.HasPrefix(rest, "\\\r\n"):
			n, kept = strings.IndexByte(rest, '\n')+1, " "
		case strings.HasPrefix(rest, "//"):
			if n, kept = strings.IndexByte(rest, '\n'), ""; n < 0 {
				n = len(rest)
			}
		case strings.HasPrefix(rest, "/*"):
			n, kept = lengthTo(rest, 2, "*/"), " "
		case strings.HasPrefix(rest, `R"`):
			if open := strings.IndexByte(rest, '('); open > 0 && open < 20 {
				n, kept = lengthTo(rest, open, ")"+rest[2:open]+`"`), `""`
			}
		case rest[0] == '"', rest[0] == '\'' && (at == 0 || !isWord(text[at-1])): // 1'000 is a number
			for n < len(rest) && rest[n] != rest[0] && rest[n] != '\n' {
				if rest[n] == '\\' {
					n++
				}
				n++
			}
			if n < len(rest) && rest[n] == rest[0] {
				n++
			}
			n = min(n, len(rest))
			if kept = rest[:1] + rest[:1]; strings.HasPrefix(strings.TrimSpace(out.String()), "#") {
				kept = rest[:n]
			}
		}
		number += strings.Count(rest[:n], "\n")
		out.WriteString(kept)
		if at += n; at == len(text) || rest[0] == '\n' {
			if logical := strings.TrimSpace(out.String()); logical != "" {
				all = append(all, line{first, logical, logical[0] == '#'})
			}
			out.Reset()
			first = number
		}
	}
	return all
}

// lengthTo returns the length of a text up to the end of a mark, or all of it.
func lengthTo(text string, from int, mark string) int {
	if n := strings.Index(text[from:], mark); n >= 0 {
		return from + n + len(mark)
	}
	return len(text)
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
