package discover

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// No dependency file lists what a source or header queries. It is found by scanning the text. Where
// it matters, the scan works like the preprocessor: lines are spliced, comments are blank.
// Otherwise it finds too much rather than too little. It counts names in comments and in branches
// that are not compiled. Each costs one compile when a file of that name appears or is removed.

// sourceScan holds what a source or header can observe besides the files that it includes.
type sourceScan struct {
	clocks          clocks   // macros that expand to a time
	hasIncludeNames []string // names in __has_include
	hasIncludeMacro bool     // some __has_include has no literal name
	quoted          []string // quoted includes; the file's own folder is searched first
	angled          []string // includes in angle brackets
	once            bool     // it may have #pragma once or #import
	computed        bool     // it includes a name from a macro
	next            bool     // it has #include_next, or the word
	assembles       bool     // the assembler may read files for it
}

// nothing is the shared scan of most files: there may be 100,000 of them.
var nothing sourceScan

// sources reads sources and headers. Scans are cached, since very many sources read the same
// header.
type sources struct {
	tree    Tree
	scans   cache.Shards[cache.Digest, *sourceScan]
	named   cache.Shards[[2]string, bool] // whether a system file contains a name
	buffers sync.Pool                     // of *[]byte
}

// scan scans a file, once. The scan of an unreadable file is empty: its compile fails.
func (s *sources) scan(file string) *sourceScan {
	d, err := s.tree.Digest(file)
	if err != nil {
		return &nothing
	}
	if known, ok := s.scans.Load(d); ok {
		return known
	}
	text, err := s.read(file)
	defer s.buffers.Put(&text)
	if err != nil {
		return &nothing
	}
	scan := scanText(text)
	s.scans.LoadOrStore(d, scan)
	return scan
}

// mentions reports whether a file contains a name; an unreadable file may contain any. The
// toolkit's headers are queried often, so their answers are cached.
func (s *sources) mentions(file, name string) bool {
	if known, ok := s.named.Load([2]string{file, name}); ok {
		return known
	}
	text, err := s.read(file)
	defer s.buffers.Put(&text)
	found := err != nil || bytes.Contains(text, []byte(name))
	if filepath.IsAbs(file) {
		s.named.LoadOrStore([2]string{file, name}, found)
	}
	return found
}

// read reads a file into a buffer from the pool. The caller returns it to the pool.
func (s *sources) read(file string) ([]byte, error) {
	b, ok := s.buffers.Get().(*[]byte)
	if !ok {
		b = new([]byte)
	}
	return regular.Append((*b)[:0], s.tree.Abs(file))
}

// scanText scans a text. The result does not refer to text.
func scanText(text []byte) *sourceScan {
	now := sourceScan{clocks: clocksIn(text), assembles: assembles(text, nil)}
	text = splice(text)
	now.once = bytes.Contains(text, []byte("once")) || bytes.Contains(text, []byte("import"))
	for at := range wordsIn(text, hasInclude) {
		name, rest := operand(text[at:])
		if name != "" {
			now.hasIncludeNames = append(now.hasIncludeNames, name)
		}
		now.hasIncludeMacro = now.hasIncludeMacro || rest != "" && rest != "..." || name == "" && rest == "" && isDefined(text[:at])
	}
	for _, directive := range []string{"include", "import", "embed"} {
		for at := range wordsIn(text, directive) {
			now.next = now.next || bytes.HasSuffix(text[:at], []byte("include_next"))
			now.named(text, at)
		}
	}
	if reflect.ValueOf(now).IsZero() {
		return &nothing
	}
	return &now
}

// named records the file of a directive whose name ends at an index.
func (now *sourceScan) named(text []byte, at int) {
	rest := blank(text[at:])
	switch name, _ := literal(rest); {
	case name == "":
	case rest[0] == '"' && !slices.Contains(now.quoted, name):
		now.quoted = append(now.quoted, name)
	case rest[0] == '<' && !slices.Contains(now.angled, name):
		now.angled = append(now.angled, name)
	}
	now.computed = now.computed || len(rest) > 0 && bytes.IndexByte([]byte("\"<\n"), rest[0]) < 0 && isDirective(text[:at])
}

// isDirective reports whether the last word of a text may be the name of a directive.
func isDirective(text []byte) bool {
	text = bytes.TrimRight(bytes.TrimRightFunc(text, func(c rune) bool { return c < utf8.RuneSelf && isWord(byte(c)) }), " \t\v\f\r")
	return slices.ContainsFunc([]string{"#", "%:", "??=", "*/"}, func(end string) bool { return bytes.HasSuffix(text, []byte(end)) })
}

// isDefined reports whether the last line of a text contains a #define.
func isDefined(text []byte) bool {
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	return bytes.Contains(line, []byte("define ")) || bytes.Contains(line, []byte("define\t"))
}

// hasInclude is the common prefix of the operators that query whether a file exists: __has_include,
// __has_include_next and gcc's own __has_include__.
const hasInclude = "__has_include"

// splice removes backslashes at the ends of lines together with the newlines. gcc allows blanks
// between them.
func splice(text []byte) []byte {
	if !bytes.Contains(text, []byte("\\\n")) && !bytes.Contains(text, []byte("\\ ")) && !bytes.Contains(text, []byte("\\\t")) && !bytes.Contains(text, []byte("\\\r")) {
		return text
	}
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		bare := bytes.TrimRight(line, " \t\r\n\v\f")
		if n := len(bare); n > 0 && bare[n-1] == '\\' && len(line) > n {
			out = append(out, bare[:n-1]...)
		} else {
			out = append(out, line...)
		}
	}
	return out
}

// wordsIn yields the end indices of words that begin with start.
func wordsIn(text []byte, start string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for at := 0; ; {
			i := bytes.Index(text[at:], []byte(start))
			if i < 0 {
				return
			}
			begin := at + i
			for at = begin + len(start); at < len(text) && isWord(text[at]); at++ {
			}
			if (begin == 0 || !isWord(text[begin-1])) && !yield(at) {
				return
			}
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 128 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// blank skips blanks and comments at the start of text.
func blank(text []byte) []byte {
	for {
		text = bytes.TrimLeft(text, " \t\v\f\r")
		switch {
		case bytes.HasPrefix(text, []byte("/*")):
			end := bytes.Index(text[2:], []byte("*/"))
			if end < 0 {
				return nil
			}
			text = text[end+4:]
		case bytes.HasPrefix(text, []byte("//")):
			return text[len(text):]
		default:
			return text
		}
	}
}

// literal returns the name in "x" or <x> at the start of text, and the length of both with
// delimiters. It returns "" if text does not start with one.
func literal(text []byte) (name string, size int) {
	if len(text) == 0 || text[0] != '"' && text[0] != '<' {
		return "", 0
	}
	end := byte('"')
	if text[0] == '<' {
		end = '>'
	}
	line, _, _ := bytes.Cut(text[1:], []byte("\n"))
	i := bytes.IndexByte(line, end)
	if i <= 0 {
		return "", 0
	}
	return string(line[:i]), i + 2
}

// operand returns the operand of __has_include: a name, or else the text in parentheses.
func operand(text []byte) (name, rest string) {
	text = blank(text)
	if len(text) > 0 && text[0] == '(' {
		text = blank(text[1:])
	} else if name, _ := literal(text); name == "" {
		return "", "" // a test for the operator itself: #ifdef __has_include
	}
	if name, _ = literal(text); name != "" {
		return name, ""
	}
	body := directiveBody(text)
	depth := 0
	for i, c := range body {
		switch {
		case c == '(':
			depth++
		case c == ')' && depth == 0:
			return "", strings.TrimSpace(body[:i])
		case c == ')':
			depth--
		}
	}
	return "", strings.TrimSpace(body)
}

// directiveBody returns the rest of a directive with blanks for comments. It ends at the first line
// end outside of comments.
func directiveBody(text []byte) string {
	var out []byte
	quote := byte(0)
	for i := 0; i < len(text) && text[i] != '\n'; i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\' && i+1 < len(text):
			out = append(out, c)
			i++
			c = text[i]
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			return string(out)
		case c == '/' && i+1 < len(text) && text[i+1] == '*':
			end := bytes.Index(text[i+2:], []byte("*/"))
			if end < 0 {
				return string(out)
			}
			i += end + 3
			c = ' '
		}
		out = append(out, c)
	}
	return string(out)
}

// directive is a #define, or an #if or #elif, which have no name.
type directive struct {
	name   string
	call   bool // it has parameters
	params []string
	body   string
}

// directivesOf parses the directives of a file. It accepts a '#' anywhere in a line.
func directivesOf(file string) (out []directive) {
	text, _ := regular.Append(nil, file)
	text = splice(text)
	for i := range text {
		if text[i] != '#' && (text[i] != ':' || i == 0 || text[i-1] != '%') {
			continue
		}
		rest := blank(text[i+1:])
		n := 0
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
		switch word := string(rest[:n]); word {
		case "if", "elif":
			out = append(out, directive{body: directiveBody(rest[n:])})
		case "define":
			out = append(out, definition(directiveBody(rest[n:])))
		}
	}
	return out
}

// definition parses "NAME(PARAMS) BODY" or "NAME BODY".
func definition(text string) (d directive) {
	text = strings.TrimSpace(text)
	n := 0
	for n < len(text) && isWord(text[n]) {
		n++
	}
	d.name, d.body = text[:n], text[n:]
	if strings.HasPrefix(d.body, "(") {
		params, body, _ := strings.Cut(d.body[1:], ")")
		d.call, d.body = true, body
		for _, p := range strings.Split(params, ",") {
			d.params = append(d.params, strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(p), "...")))
		}
		d.params = append(d.params, "__VA_ARGS__")
	}
	return d
}

// words returns the macro names and the file names, in quotes and in angle brackets, of a
// directive.
func words(body string) (macros, quoted, angled []string) {
	text := []byte(body)
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '<':
			name, size := literal(text[i:])
			switch {
			case name == "" || strings.ContainsAny(name, " \t()&|\"<>!=?:;,#"): // two comparisons
				size = 1
			case c == '"':
				quoted = append(quoted, name)
			default:
				angled = append(angled, name)
			}
			i += size
		case isWord(c):
			n := i
			for n < len(text) && isWord(text[n]) {
				n++
			}
			if c < '0' || c > '9' {
				macros = append(macros, body[i:n])
			}
			i = n
		default:
			i++
		}
	}
	return macros, quoted, angled
}

// macroNames finds the files that __has_include queries through macros: macros that expand to a
// name, and macros that pass a parameter to __has_include.
type macroNames struct {
	lines   []directive
	defs    map[string][]directive
	flags   []string        // of the command and its environment
	askers  map[string]bool // macros that pass their argument to __has_include
	seen    map[string]bool
	names   []string
	unknown string // a macro whose expansion is not followed
}

// namesThroughMacros returns the names that files pass to __has_include. files are absolute paths;
// unknown is a macro whose expansion is not known.
func namesThroughMacros(files []string, flags []string) (names []string, unknown string) {
	m := macroNames{defs: map[string][]directive{}, flags: flags, askers: map[string]bool{}, seen: map[string]bool{}}
	for _, f := range files {
		for _, d := range directivesOf(f) {
			m.lines = append(m.lines, d)
			if d.name != "" {
				m.defs[d.name] = append(m.defs[d.name], d)
			}
		}
	}
	m.asker(hasInclude)
	return m.names, m.unknown
}

// asker collects all operands of a macro, or of __has_include.
func (m *macroNames) asker(name string) {
	if m.askers[name] {
		return
	}
	m.askers[name] = true
	for _, d := range m.lines {
		text := []byte(d.body)
		for at := range wordsIn(text, name) {
			if name != hasInclude && (at < len(name) || d.body[at-len(name):at] != name) {
				continue // a longer word
			}
			file, rest := operand(text[at:])
			if file != "" {
				m.names = append(m.names, file)
			}
			if rest != "" {
				m.operand(rest, d)
			} else if file == "" && d.name != "" && !strings.HasPrefix(d.name, hasInclude) {
				m.asker(d.name) // #define ASK __has_include
			}
		}
	}
}

// operand collects the names in an operand within a directive.
func (m *macroNames) operand(text string, in directive) {
	macros, quoted, angled := words(text)
	m.literals(quoted, angled)
	for _, w := range macros {
		if in.name != "" && slices.Contains(in.params, w) {
			m.asker(in.name)
		} else {
			m.resolve(w)
		}
	}
}

// resolve collects the names in the definitions of a macro.
func (m *macroNames) resolve(name string) {
	if m.seen[name] {
		return
	}
	m.seen[name] = true
	var bodies []string
	for _, d := range m.defs[name] {
		if d.call && strings.ContainsAny(d.body, "#<\"") || strings.Contains(d.body, "##") {
			m.unknown = name
		}
		bodies = append(bodies, d.body)
	}
	for _, f := range m.flags {
		if value, ok := strings.CutPrefix(f, name+"="); ok { // -D NAME=VALUE
			bodies = append(bodies, strings.ReplaceAll(value, `\`, ""))
		} else if _, value, ok := strings.Cut(f, "-D"+name+"="); ok {
			bodies = append(bodies, strings.ReplaceAll(value, `\`, ""))
		}
	}
	for _, body := range bodies {
		macros, quoted, angled := words(body)
		if len(quoted)+len(angled) == 0 && strings.ContainsAny(body, "<\"") {
			m.unknown = name
		}
		m.literals(quoted, angled)
		for _, w := range macros {
			m.resolve(w)
		}
	}
}

// literals records names. Words in a macro's <...> may be macros in turn.
func (m *macroNames) literals(quoted, angled []string) {
	for _, f := range angled {
		macros, _, _ := words(f)
		for _, w := range macros {
			defined := slices.ContainsFunc(m.flags, func(f string) bool { return strings.Contains(f, "-D"+w) })
			if m.defs[w] != nil || defined || w == "linux" || w == "unix" || w == "i386" {
				m.unknown = w
			}
		}
	}
	m.names = append(append(m.names, quoted...), angled...)
}
