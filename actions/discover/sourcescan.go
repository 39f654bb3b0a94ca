package discover

import (
	"bytes"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
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
	once            bool     // it may have #pragma once
	imports         bool     // it may have #import
	computed        bool     // it includes a name from a macro
	next            bool     // it has #include_next, or the word
	assembles       bool     // the assembler may read files for it
	dependency      bool     // it has #pragma GCC dependency
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
	return regular.Append((*b)[:0], s.tree.abs(file))
}

// scanText scans a text. The result does not refer to text.
func scanText(text []byte) *sourceScan {
	now := sourceScan{clocks: clocksIn(text), assembles: mayAssemble(text)}
	text = splice(text)
	now.once = bytes.Contains(text, []byte("once"))
	now.dependency = bytes.Contains(text, []byte("dependency")) && gccDependency().Match(text)
	for at := range wordsIn(text, hasInclude) {
		name, rest := operand(text[at:])
		if name != "" {
			now.hasIncludeNames = append(now.hasIncludeNames, name)
		}
		now.hasIncludeMacro = now.hasIncludeMacro || rest != "" && rest != "..." || name == "" && rest == "" && isDefined(text[:at])
	}
	for _, directive := range []string{"include", "import", "embed"} {
		for at := range wordsIn(text, directive) {
			now.imports = now.imports || directive == "import"
			now.next = now.next || bytes.HasSuffix(text[:at], []byte("include_next"))
			now.addName(text, at)
		}
	}
	if reflect.ValueOf(now).IsZero() {
		return &nothing
	}
	return &now
}

// addName records the file of a directive whose name ends at an index.
func (now *sourceScan) addName(text []byte, at int) {
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

// gccDependency matches the pragma, a string for _Pragma, and an argument that may become one.
var gccDependency = sync.OnceValue(func() *regexp.Regexp {
	const blank = `(?:\s|/\*.*?\*/)`
	return regexp.MustCompile(`(?s)(?:pragma` + blank + `+|["(]` + blank + `*)GCC` + blank + `+dependency\b`)
})

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

// directive is a #define, or an #if, #elif or include(NAME), which have no name.
type directive struct {
	name   string
	call   bool // it has parameters
	params []string
	body   string
}

// directivesOf parses the directives of a file. It accepts a '#', "%:" or "??=" anywhere in a line.
func directivesOf(file string) (out []directive) {
	text, _ := regular.Append(nil, file)
	text = splice(text)
	for i, c := range text {
		digraph := c == ':' && bytes.HasSuffix(text[:i], []byte("%"))
		trigraph := c == '=' && bytes.HasSuffix(text[:i], []byte("??"))
		if c != '#' && !digraph && !trigraph {
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
		case "include", "include_next", "import":
			out = append(out, directive{body: "include(" + directiveBody(rest[n:]) + ")"})
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

// namesThroughMacros returns the names that files pass to __has_include, or to "include", also
// through macros: macros that expand to a name, and macros that pass a parameter to it. files are
// absolute paths, flags those of the command and its environment. unknown is a macro whose expansion
// is not known.
func namesThroughMacros(operator string, files, flags []string) (names []string, unknown string) {
	var lines []directive
	defs := map[string][]directive{}
	for _, f := range files {
		for _, d := range directivesOf(f) {
			lines = append(lines, d)
			if d.name != "" {
				defs[d.name] = append(defs[d.name], d)
			}
		}
	}
	type text struct {
		body   string
		params []string // of the macro that body is an operand in
		of     string   // that macro; or the macro that expands to body
	}
	askers := []string{operator} // and macros that pass their argument to it
	expanded := map[string]bool{}
	for i := 0; i < len(askers); i++ {
		name := askers[i]
		var texts []text // operands of name, and what their macros expand to
		for _, d := range lines {
			body := []byte(d.body)
			for at := range wordsIn(body, name) {
				if name != hasInclude && (at < len(name) || d.body[at-len(name):at] != name) {
					continue // a longer word
				}
				file, rest := operand(body[at:])
				if file != "" {
					names = append(names, file)
				} else if rest != "" {
					texts = append(texts, text{rest, d.params, d.name})
				} else if d.name != "" && !strings.HasPrefix(d.name, hasInclude) && !slices.Contains(askers, d.name) {
					askers = append(askers, d.name) // #define ASK __has_include
				}
			}
		}
		operands := len(texts)
		for k := 0; k < len(texts); k++ {
			t := texts[k]
			macros, quoted, angled := words(t.body)
			if k >= operands && len(quoted)+len(angled) == 0 && strings.ContainsAny(t.body, "<\"") {
				unknown = t.of
			}
			names = append(append(names, quoted...), angled...)
			for _, f := range angled { // its words may be macros in turn
				inside, _, _ := words(f)
				for _, w := range inside {
					defined := slices.ContainsFunc(flags, func(f string) bool { return strings.Contains(f, "-D"+w) })
					if defs[w] != nil || defined || w == "linux" || w == "unix" || w == "i386" {
						unknown = w
					}
				}
			}
			for _, w := range macros {
				if slices.Contains(t.params, w) {
					if !slices.Contains(askers, t.of) {
						askers = append(askers, t.of)
					}
					continue
				}
				if expanded[w] {
					continue
				}
				expanded[w] = true
				for _, d := range defs[w] {
					if d.call && strings.ContainsAny(d.body, "#<\"") || strings.Contains(d.body, "##") {
						unknown = w
					}
					texts = append(texts, text{body: d.body, of: w})
				}
				for _, f := range flags {
					if strings.HasPrefix(f, w+"(") || strings.Contains(f, "-D"+w+"(") {
						unknown = w
					}
					value, ok := strings.CutPrefix(f, w+"=") // of the environment
					if !ok {
						_, value, ok = strings.Cut(f, "-D"+w+"=")
					}
					if ok {
						texts = append(texts, text{body: strings.ReplaceAll(value, `\`, ""), of: w})
					}
				}
			}
		}
	}
	return names, unknown
}

// An output that contains the time is valid only in its build tree and is not shared: no key
// contains the time. SOURCE_DATE_EPOCH, which every key contains, fixes __DATE__ and __TIME__ for
// g++. It does not fix __TIMESTAMP__, the time of the source file (g++ 12). clang before 16 ignores
// the variable (clang 15).

// clocks are the macros of a text that expand to a time.
type clocks struct {
	now  bool // __DATE__, __TIME__
	file bool // __TIMESTAMP__
}

var (
	tellsNow  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`__(?:DATE|TIME)__`) })
	tellsFile = []byte("__TIMESTAMP__")
)

// clocksIn returns the clocks that a text uses.
func clocksIn(text []byte) (c clocks) {
	if !bytes.Contains(text, []byte("__DATE__")) && !bytes.Contains(text, []byte("__TIME")) {
		return c
	}
	return clocks{now: tellsNow().Match(text), file: bytes.Contains(text, tellsFile)}
}

// differs reports whether the clocks expand to another time in another build tree.
func (d *Discovery) differs(a *graph.Action, c clocks) bool {
	return c.file || c.now && !d.epoch(a)
}

// epoch reports whether SOURCE_DATE_EPOCH replaces the time in the outputs of a.
func (d *Discovery) epoch(a *graph.Action) bool {
	return !clang.Runs(a) && slices.ContainsFunc(d.KeyEnv, func(e string) bool { return strings.HasPrefix(e, "SOURCE_DATE_EPOCH=") })
}

// TellsTime reports whether a writes the time into an output, by the project's own text or by the
// command.
func (d *Discovery) TellsTime(a *graph.Action, found []cache.FileDigest) bool {
	if a.Depfile == "" || a.Kind.Info().Generates {
		return false
	}
	return d.CommandTellsTime(a) || slices.ContainsFunc(ownFiles(a, found), func(f string) bool { return d.differs(a, d.sources.scan(f).clocks) })
}

// CommandTellsTime reports whether the command defines a macro as the time, in an argument or by an
// environment variable. The source then does not name the clock.
func (d *Discovery) CommandTellsTime(a *graph.Action) bool {
	if a.Depfile == "" || a.Kind.Info().Generates {
		return false
	}
	tells := func(text string) bool { return strings.Contains(text, "__") && d.differs(a, clocksIn([]byte(text))) }
	return slices.ContainsFunc(a.Argv, tells) || slices.ContainsFunc(a.Driver().Argv, tells) || slices.ContainsFunc(d.KeyEnv, tells)
}
