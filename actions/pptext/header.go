package pptext

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"
)

// # Forms of a header
//
// The canonical form is of preprocessed text, which takes a process to make. A header itself has forms, too, which tell without one that an edit of it
// is none to a compiler:
//
//   - In Lines, comments are gone. Each line and each column is where it was. Whoever compiles two headers with equal Lines makes the same, debug
//     information included, and says the same, but for what shows the text of a line.
//   - In Outline, lines without code are gone, too, and so are definitions of macros that stand by themselves: see Macro. Two headers with equal
//     Outlines are the same to a compiler that records no lines, where nothing in them asks for its line, and the macros in which they differ are used
//     nowhere.
//
// What compilers look at in comments and blank space stays in both:
//
//   - a comment before code in its line, as columns count (gcc's -Wmisleading-indentation, debug information);
//   - a comment with the word "fall" (-Wimplicit-fallthrough);
//   - how far a line is indented that has a comment alone: gcc takes one that is indented less than the code after it for a sign that the code is not meant
//     to look like part of an if. In Outline it stays if it is one.
//
// A header of which the scanner does not know all has no form: see odd places in the code.

// Header is what a header is to a compiler.
type Header struct {
	Lines   [sha256.Size]byte
	Outline [sha256.Size]byte
	Macros  []Macro
	Words   map[string]bool // identifiers of its text, and of directives other than definitions: what may be the use of a macro in it
}

// Macro is the definition of a macro in a header that may go, or be another, where nobody uses the macro.
type Macro struct {
	Name string // with "(" behind it if it has parameters
	At   int    // how many lines of the outline are before it
	Text [8]byte
}

// ReadHeader reads a header; ok is false if it has no forms.
func ReadHeader(src []byte) (h *Header, ok bool) {
	if !regularText(src) {
		return nil, false
	}
	s := headerScanner{src: src, Header: Header{Words: map[string]bool{}}, complete: true}
	for i := 0; i < len(src); {
		if i = s.line(i); i < 0 {
			return nil, false
		}
	}
	s.flush(0)
	s.Lines, s.Outline = sha256.Sum256(s.lines), sha256.Sum256(s.outline)
	return &s.Header, true
}

// regularText reports a text of lines, of UTF-8, without what compilers take for something else: trigraphs, control characters, and those that turn
// the direction of text, of which gcc warns. A newline ends the last line.
func regularText(src []byte) bool {
	if len(src) == 0 || src[len(src)-1] != '\n' || bytes.Contains(src, []byte("??")) {
		return false
	}
	ascii := true
	for _, c := range src {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if ascii {
		return true
	}
	turns := func(r rune) bool {
		return r == 0x061c || r == 0x200e || r == 0x200f || 0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 || r == 0xfeff || 0x80 <= r && r < 0xa0
	}
	return utf8.Valid(src) && bytes.IndexFunc(src, turns) < 0
}

// headerScanner reads a header by logical lines: its methods take an index in src and return the one to go on at, or odd.
type headerScanner struct {
	Header
	src            []byte
	lines, outline []byte
	kept           int // lines of outline

	held     []int // columns of lines before the next one with code that have none, or a definition; -1 for one with a tab
	complete bool  // the last line of text ends a statement or a block, or is a directive: no macro can be waiting for its arguments
	opens    bool  // the last line was the beginning of a conditional, which may be a guard with the name of the next definition
	depth    int   // of parentheses in text
}

// part is a logical line as it is read: code without what comes after it, the physical lines that it takes beyond the first, and its words.
type part struct {
	code      []byte // from the first column on
	rest      []byte // of form Lines, after the newline that ends code
	words     []string
	directive bool
	fall      bool // a comment has the word
	angle     bool // an open <
	suffix    bool // a literal may have one, of which compilers have something to say
}

// line reads the logical line that starts at i.
func (s *headerScanner) line(i int) int {
	start := i
	for s.src[i] == ' ' || s.src[i] == '\t' {
		i++
	}
	p := part{directive: s.src[i] == '#'}
	if s.src[i] == '%' && s.src[i+1] == ':' {
		return odd
	}
	end, codeEnd := s.tokens(i, &p)
	if end < 0 {
		return odd
	}
	p.code = s.src[start:codeEnd]
	if codeEnd == i { // blanks and comments alone
		p.code = nil
		s.empty(start, i, end)
		return end
	}
	s.lines = append(append(s.lines, p.code...), '\n')
	s.lines = append(s.lines, p.rest...)
	if !s.take(i, &p, start) {
		return odd
	}
	return end
}

// empty takes lines without code, from start to end. The first has its first character at i.
func (s *headerScanner) empty(start, i, end int) {
	for line := range bytes.Lines(s.src[start:end]) {
		s.bare(line)
	}
}

// bare takes a line without code.
func (s *headerScanner) bare(line []byte) {
	text := bytes.TrimLeft(line, " \t")
	if len(text) > 1 { // there is a comment
		blanks := line[:len(line)-len(text)]
		s.lines = append(append(s.lines, blanks...), '/')
		s.held = append(s.held, column(blanks))
	}
	s.lines = append(s.lines, '\n')
}

// column is how far blanks indent; -1 if that depends on how wide a tab is.
func column(blanks []byte) int {
	if bytes.IndexByte(blanks, '\t') >= 0 {
		return -1
	}
	return len(blanks)
}

// tokens reads from i, the first character of a logical line that is no blank, to the end of the line. codeEnd is the index after its last character that
// belongs to code.
func (s *headerScanner) tokens(i int, p *part) (end, codeEnd int) {
	src := s.src
	first := i
	codeEnd = i
	for {
		switch c := src[i]; {
		case c == '\n':
			return i + 1, codeEnd
		case c == ' ' || c == '\t':
			i++
			continue
		case c == '/' && (src[i+1] == '/' || src[i+1] == '*'):
			after := s.comment(i, first, codeEnd, p)
			if after < 0 {
				return odd, 0
			}
			if p.fall {
				codeEnd, p.fall = after, false
			}
			i = after
			continue
		case c == '\\':
			if !s.spliced(i) {
				return odd, 0
			}
			i += 2
			codeEnd = i
			continue
		case c == '"' || c == '\'':
			if i = s.literal(i, p); i < 0 {
				return odd, 0
			}
		case word[c]:
			begin := i
			for word[src[i]] {
				i++
			}
			if c < '0' || c > '9' {
				p.words = append(p.words, string(src[begin:i]))
			}
		default:
			switch c {
			case '(':
				s.nest(p, 1)
			case ')':
				s.nest(p, -1)
			case '<':
				p.angle = true
			case '>':
				p.angle = false
			}
			i++
		}
		codeEnd = i
	}
}

func (s *headerScanner) nest(p *part, by int) {
	if !p.directive {
		s.depth += by
	}
}

// literal returns the index after the literal at i. One with a word before it that is no common prefix is a raw string, a number with separators, or
// something that depends on the language.
func (s *headerScanner) literal(i int, p *part) int {
	first := i
	for first > 0 && word[s.src[first-1]] {
		first--
	}
	switch string(s.src[first:i]) {
	case "", "L", "u", "U", "u8":
	default:
		return odd
	}
	end := quoted(s.src, i)
	p.suffix = p.suffix || end > 0 && (word[s.src[end]] || s.src[end] == '"' || s.src[end] == '\'')
	return end
}

// spliced reports a backslash at i that ends a line which goes on in the next one, without making one token of two.
func (s *headerScanner) spliced(i int) bool {
	if i == 0 || s.src[i+1] != '\n' || i+2 >= len(s.src) {
		return false
	}
	switch before := s.src[i-1]; {
	case before == ' ' || before == '\t':
		return true
	case word[before]:
		return !word[s.src[i+2]] && s.src[i+2] != '"' && s.src[i+2] != '\'' && s.src[i+2] != '.'
	default:
		return bytes.IndexByte([]byte("(){},;"), before) >= 0
	}
}

// comment reads the comment at i, in a logical line whose code began at first and ended at codeEnd. It returns the index after it; odd if a compiler might
// take it for more than blank space.
func (s *headerScanner) comment(i, first, codeEnd int, p *part) int {
	src, after := s.src, 0
	if src[i+1] == '/' {
		after = i + bytes.IndexByte(src[i:], '\n')
		if last := bytes.TrimRight(src[i:after], " \t"); last[len(last)-1] == '\\' {
			return odd
		}
	} else {
		n := bytes.Index(src[i+2:], []byte("*/"))
		if n < 0 || bytes.Contains(src[i+2:i+2+n], []byte("/*")) || n > 0 && src[i+2] == '/' {
			return odd
		}
		after = i + 2 + n + 2
	}
	text := src[i:after]
	if p.angle && p.directive && slashesMatter(p.words) {
		return odd
	}
	lines := bytes.Count(text, []byte("\n"))
	rest := bytes.TrimLeft(src[after:], " \t")
	if codeEnd == first && (rest[0] == '#' || rest[0] == '%') { // a directive
		return odd
	}
	p.fall = bytes.Contains(bytes.ToLower(text), []byte("fall"))
	if lines == 0 {
		return after
	}
	if p.fall || rest[0] != '\n' && (codeEnd > first || rest[0] == '\\' || rest[0] == '/') {
		return odd
	}
	for n, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.Trim(line, " \t")
		if bytes.HasSuffix(line, []byte("\\")) || n > 0 && bytes.HasPrefix(line, []byte("#")) { // gcc looks for #if at the start of any line
			return odd
		}
	}
	if codeEnd > first {
		_, more, _ := bytes.Cut(text, []byte("\n"))
		for line := range bytes.Lines(append(bytes.Clone(more), '\n')) {
			t := bytes.TrimLeft(line, " \t")
			p.rest = append(append(p.rest, line[:len(line)-len(t)]...), '/', '\n')
		}
	}
	return after
}

// slashesMatter reports a directive in which <...> may be the name of a file.
func slashesMatter(words []string) bool {
	for i, w := range words {
		if i == 0 && (strings.HasPrefix(w, "include") || w == "import" || w == "embed") || strings.HasPrefix(w, "__has_") {
			return true
		}
	}
	return false
}

// take takes a logical line with code: its first token is at i.
func (s *headerScanner) take(i int, p *part, start int) bool {
	if bytes.IndexByte(p.code, '\n') >= 0 && !p.directive {
		for _, line := range bytes.SplitAfter(p.code, []byte("\n"))[1:] {
			if t := bytes.TrimLeft(line, " \t"); len(t) > 0 && t[0] == '#' {
				return false
			}
		}
	}
	blanks := s.src[start:i]
	if !p.directive {
		s.keep(p, blanks)
		for _, w := range p.words {
			s.Words[w] = true
		}
		last := p.code[len(p.code)-1]
		s.complete = last == ';' || last == '}' || last == '{'
		s.opens = false
		return true
	}
	switch name := string(directiveName(s.src[i : start+len(p.code)])); {
	case name == "" && string(p.code[len(blanks):]) != "#", name != "" && '0' <= name[0] && name[0] <= '9', name == "line", name == "import", name == "embed":
		return false
	case name == "define":
		m, ok := simpleMacro(s.src[i : start+len(p.code)])
		if ok && !p.suffix && s.complete && s.depth == 0 && !s.opens {
			m.At = s.kept
			s.held = append(s.held, column(blanks))
			s.hold(p.rest)
			s.Macros = append(s.Macros, m)
			return true
		}
		s.keep(p, blanks)
		s.opens = false
	default:
		s.keep(p, blanks)
		for _, w := range p.words {
			s.Words[w] = true
		}
		s.opens = strings.HasPrefix(name, "if")
	}
	return true
}

// hold notes the lines of a comment that began behind code.
func (s *headerScanner) hold(rest []byte) {
	for line := range bytes.Lines(rest) {
		s.held = append(s.held, column(bytes.TrimRight(line, "/\n")))
	}
}

// keep puts a line into the outline.
func (s *headerScanner) keep(p *part, blanks []byte) {
	col := column(blanks)
	if p.code[len(blanks)] == '/' { // a comment, and then code
		col = math.MaxInt
	}
	s.flush(col)
	s.outline = append(append(s.outline, p.code...), '\n')
	s.kept++
	s.hold(p.rest)
}

// flush ends the lines before one with code: one of them that is indented less, or may be, counts.
func (s *headerScanner) flush(col int) {
	least := -2
	for n, c := range s.held {
		next := col
		if n+1 < len(s.held) {
			next = s.held[n+1]
		}
		if c < 0 || next < 0 || c < next {
			least = c
		}
	}
	if least > -2 {
		s.outline = append(binary.AppendVarint(append(s.outline, 0), int64(least)), '\n')
		s.kept++
	}
	s.held = s.held[:0]
}

// simpleMacro reads a definition that no compiler has anything to say of, and whose name it does not define itself.
func simpleMacro(text []byte) (m Macro, ok bool) {
	body, ok := bytes.CutPrefix(text, []byte("#define "))
	if !ok || bytes.IndexByte(body, '#') >= 0 || bytes.Contains(body, []byte("%:")) || bytes.Contains(body, []byte("__VA_")) || bytes.IndexByte(body, '$') >= 0 || bytes.IndexByte(body, '@') >= 0 || bytes.IndexByte(body, '`') >= 0 {
		return m, false
	}
	body = bytes.TrimLeft(body, " ")
	n, upper := 0, false
	for n < len(body) && word[body[n]] && body[n] < utf8.RuneSelf {
		upper = upper || 'A' <= body[n] && body[n] <= 'Z'
		n++
	}
	if n < 3 || !upper || body[0] == '_' || '0' <= body[0] && body[0] <= '9' {
		return m, false
	}
	m.Name = string(body[:n])
	sum := sha256.Sum256(body)
	copy(m.Text[:], sum[:])
	rest := body[n:]
	if len(rest) > 0 && rest[0] == '(' {
		m.Name += "("
		if rest = parameters(rest); rest == nil {
			return m, false
		}
	}
	return m, len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t'
}

// parameters returns what follows the parameters of a macro, in parentheses; nil if they are not plain names, each once.
func parameters(text []byte) []byte {
	end := bytes.IndexByte(text, ')')
	if end < 0 {
		return nil
	}
	seen := map[string]bool{}
	list := bytes.Split(text[1:end], []byte(","))
	for _, name := range list {
		name = bytes.Trim(name, " ")
		if len(name) == 0 && len(list) == 1 {
			break
		}
		if len(name) == 0 || seen[string(name)] || '0' <= name[0] && name[0] <= '9' {
			return nil
		}
		for _, c := range name {
			if !word[c] || c >= utf8.RuneSelf {
				return nil
			}
		}
		seen[string(name)] = true
	}
	if rest := text[end+1:]; len(rest) > 0 {
		return rest
	}
	return []byte{}
}
