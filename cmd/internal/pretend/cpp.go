package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cpp is the preprocessor. It does what gcc's does with the directives that tests use. Macros have
// no arguments, and ## is evaluated when they are defined.
type cpp struct {
	quoted  []string // folders for quoted includes
	angled  []string // folders for all includes, including CPATH
	macros  map[string]string
	show    bool // -dU: print the macros that were used
	shown   map[string]bool
	once    map[string]bool
	deps    map[string]bool
	absent  bool // included files may be missing (-MG)
	out     strings.Builder
	depth   int
	line    int // the value of __LINE__
	failure error
}

// newCPP returns a preprocessor with the folders and macros of a command line and the environment.
func newCPP(args []string) *cpp {
	p := &cpp{macros: map[string]string{}, shown: map[string]bool{}, once: map[string]bool{}, deps: map[string]bool{}}
	var system []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		word := func(option string) (value string, ok bool) {
			if a == option {
				return after(args, &i), true
			}
			return strings.CutPrefix(a, option)
		}
		if v, ok := word("-iquote"); ok {
			p.quoted = append(p.quoted, v)
		} else if v, ok := word("-isystem"); ok {
			system = append(system, v)
		} else if v, ok := word("-I"); ok {
			p.angled = append(p.angled, v)
		} else if v, ok := word("-D"); ok {
			name, value, given := strings.Cut(v, "=")
			if !given {
				value = "1"
			}
			p.macros[name] = value
		} else if a == "-dU" {
			p.show = true
		}
	}
	p.angled = append(p.angled, filepath.SplitList(os.Getenv("CPATH"))...)
	p.angled = append(append(p.angled, system...), filepath.SplitList(os.Getenv("CPLUS_INCLUDE_PATH"))...)
	return p
}

// tellSearch prints the include search path like gcc -v.
func (p *cpp) tellSearch() {
	var lists [2]string
	for i, list := range [2][]string{p.quoted, p.angled} {
		for _, d := range list {
			if info, err := os.Stat(d); err == nil && info.IsDir() {
				lists[i] += " " + d + "\n"
			} else {
				warn("ignoring nonexistent directory %q", d)
			}
		}
	}
	warn("#include \"...\" search starts here:\n%s#include <...> search starts here:\n%sEnd of search list.", lists[0], lists[1])
}

// file appends the preprocessed file to out.
func (p *cpp) file(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("cc1plus: fatal error: %s: No such file or directory", name)
	}
	if p.depth++; p.depth > 50 {
		return fmt.Errorf("%s: error: #include nested too deeply", name)
	}
	p.deps[name] = true
	s := state{file: name, told: name}
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		s.line = i + 1
		for strings.HasSuffix(line, "\\") && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + lines[i]
		}
		if err := p.logical(&s, withoutComments(line)); err != nil {
			return err
		}
	}
	p.depth--
	return nil
}

// state is the position in one file.
type state struct {
	file string
	line int
	told string // the file that a line marker names, and the offset to add to line
	add  int
	ifs  []branch
}

type branch struct{ on, taken bool }

func (s *state) active() bool {
	for _, b := range s.ifs {
		if !b.on {
			return false
		}
	}
	return true
}

// withoutComments replaces the comments in a line with blanks.
func withoutComments(line string) string {
	if at := strings.Index(line, "//"); at >= 0 && strings.Count(line[:at], `"`)%2 == 0 {
		line = line[:at]
	}
	for {
		from := strings.Index(line, "/*")
		to := strings.Index(line, "*/")
		if from < 0 || to < from {
			return line
		}
		line = line[:from] + " " + line[to+2:]
	}
}

func (p *cpp) logical(s *state, line string) error {
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), "#")
	if !ok {
		if s.active() && strings.TrimSpace(line) != "" {
			p.line = s.line + s.add
			text := p.expand(line)
			fmt.Fprintf(&p.out, "# %d %q\n%s\n", s.line+s.add, s.told, text)
		}
		return p.failure
	}
	rest = strings.TrimSpace(rest)
	word := rest
	if at := strings.IndexAny(rest, " \t\"<("); at >= 0 {
		word = rest[:at]
	}
	value := strings.TrimSpace(rest[len(word):])
	if done, err := p.conditional(s, word, value); done {
		return err
	}
	if !s.active() {
		return nil
	}
	return p.directive(s, word, value)
}

// conditional handles #if and similar directives.
func (p *cpp) conditional(s *state, word, value string) (done bool, err error) {
	test := func() bool {
		switch word {
		case "ifdef", "ifndef":
			p.look(value)
			_, ok := p.macros[value]
			return ok == (word == "ifdef")
		}
		n, e := p.evaluate(s.file, value)
		if e != nil {
			err = fmt.Errorf("%s:%d:2: error: %w", s.file, s.line, e)
		}
		return n != 0
	}
	switch word {
	case "if", "ifdef", "ifndef":
		b := branch{taken: !s.active()}
		if !b.taken {
			b.on = test()
			b.taken = b.on
		}
		s.ifs = append(s.ifs, b)
	case "elif", "else":
		if len(s.ifs) == 0 {
			return true, fmt.Errorf("%s:%d:2: error: #%s without #if", s.file, s.line, word)
		}
		b := &s.ifs[len(s.ifs)-1]
		b.on = !b.taken && (word == "else" || test())
		b.taken = b.taken || b.on
	case "endif":
		if len(s.ifs) == 0 {
			return true, fmt.Errorf("%s:%d:2: error: #endif without #if", s.file, s.line)
		}
		s.ifs = s.ifs[:len(s.ifs)-1]
	default:
		return false, nil
	}
	return true, err
}

func (p *cpp) directive(s *state, word, value string) error {
	switch word {
	case "define":
		name, text, _ := strings.Cut(value, " ")
		p.macros[name] = strings.ReplaceAll(strings.TrimSpace(text), " ## ", "")
	case "undef":
		delete(p.macros, value)
	case "warning":
		warn("%s:%d:2: warning: #warning %s [-Wcpp]", s.file, s.line, value)
	case "error":
		return fmt.Errorf("%s:%d:2: error: #error %s", s.file, s.line, value)
	case "include":
		return p.include(s, value)
	case "pragma":
		if value == "once" {
			p.once[s.file] = true
			return nil
		}
		fmt.Fprintf(&p.out, "#pragma %s\n", value)
	default: // a line marker in preprocessed text sets the position of the next line
		var n int
		var file string
		if got, _ := fmt.Sscanf(word+" "+value, "%d %q", &n, &file); got == 2 {
			s.told, s.add = file, n-s.line-1
		}
	}
	return nil
}

func (p *cpp) include(s *state, value string) error {
	if value != "" && value[0] != '"' && value[0] != '<' {
		value = strings.TrimSpace(p.expand(value))
	}
	if len(value) < 3 {
		return fmt.Errorf("%s:%d:10: error: #include expects \"FILENAME\" or <FILENAME>", s.file, s.line)
	}
	found := p.find(s.file, value)
	switch {
	case found == "" && (p.absent || value[0] == '<' && strings.Contains(systemHeaders, " "+value[1:len(value)-1]+" ")):
		return nil
	case found == "":
		return fmt.Errorf("%s:%d:10: fatal error: %s: No such file or directory", s.file, s.line, value[1:len(value)-1])
	}
	if p.once[found] {
		return nil
	}
	return p.file(found)
}

// systemHeaders lists headers that are built in and empty.
const systemHeaders = " stddef.h string.h "

// find returns the file that an include names, or "". It skips folders.
func (p *cpp) find(from, value string) string {
	name := value[1 : len(value)-1]
	if filepath.IsAbs(name) {
		if isFile(name) {
			return name
		}
		return ""
	}
	var dirs []string
	if value[0] == '"' {
		dirs = append(append(dirs, filepath.Dir(from)), p.quoted...)
	}
	for _, d := range append(dirs, p.angled...) {
		file := name
		if d != "." {
			file = d + "/" + name
		}
		if isFile(file) {
			return file
		}
	}
	return ""
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// look records the use of a macro. gcc prints each on its own line, and counts that line.
func (p *cpp) look(name string) {
	if !p.show || p.shown[name] {
		return
	}
	p.shown[name] = true
	if value, ok := p.macros[name]; ok {
		fmt.Fprintf(&p.out, "#define %s %s\n", name, value)
	} else {
		fmt.Fprintf(&p.out, "#undef %s\n", name)
	}
}

// expand replaces macros outside strings.
func (p *cpp) expand(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == '"':
			end := strings.IndexByte(line[i+1:], '"')
			if end < 0 {
				end = len(line) - i - 2
			}
			b.WriteString(line[i : i+end+2])
			i += end + 2
		case isLetter(c):
			end := i
			for end < len(line) && (isLetter(line[end]) || isDigit(line[end])) {
				end++
			}
			b.WriteString(p.value(line[i:end], 0))
			i = end
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

func (p *cpp) value(name string, depth int) string {
	v, ok := p.macros[name]
	if name == "__LINE__" || v == "__LINE__" {
		return fmt.Sprint(p.line)
	}
	if !ok || depth > 20 {
		return name
	}
	p.look(name)
	if inner, also := p.macros[v]; also && inner != v {
		return p.value(v, depth+1)
	}
	return v
}

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// writeDeps writes a dependency file like gcc.
func (p *cpp) writeDeps(name, target string) error {
	return os.WriteFile(name, []byte(p.rule(target)), 0o666)
}

// rule returns a make rule for target.
func (p *cpp) rule(target string) string {
	var names []string
	for _, d := range slices.Sorted(maps.Keys(p.deps)) {
		names = append(names, strings.ReplaceAll(d, " ", `\ `))
	}
	return target + ": " + strings.Join(names, " \\\n ") + "\n"
}

// evaluate evaluates the expression of an #if.
func (p *cpp) evaluate(file, text string) (n int, err error) {
	e := expression{p: p, file: file, text: text}
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("the condition is not understood: " + text)
		}
	}()
	n = e.or()
	if e.skip(); e.text != "" {
		return 0, fmt.Errorf("%q at the end of a condition", e.text)
	}
	return n, nil
}

type expression struct {
	p    *cpp
	file string
	text string
}

func (e *expression) skip() { e.text = strings.TrimLeft(e.text, " \t") }

func (e *expression) accept(token string) bool {
	e.skip()
	rest, ok := strings.CutPrefix(e.text, token)
	if ok {
		e.text = rest
	}
	return ok
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (e *expression) or() int {
	n := e.and()
	for e.accept("||") {
		m := e.and()
		n = number(n != 0 || m != 0)
	}
	return n
}

func (e *expression) and() int {
	n := e.compare()
	for e.accept("&&") {
		m := e.compare()
		n = number(n != 0 && m != 0)
	}
	return n
}

func (e *expression) compare() int {
	n := e.unary()
	switch {
	case e.accept(">="):
		return number(n >= e.unary())
	case e.accept("<="):
		return number(n <= e.unary())
	case e.accept("=="):
		return number(n == e.unary())
	case e.accept("!="):
		return number(n != e.unary())
	case e.accept(">"):
		return number(n > e.unary())
	case e.accept("<"):
		return number(n < e.unary())
	}
	return n
}

func (e *expression) unary() int {
	switch {
	case e.accept("!"):
		return number(e.unary() == 0)
	case e.accept("("):
		n := e.or()
		e.accept(")")
		return n
	}
	word := e.word()
	switch {
	case word == "":
		panic("no value")
	case isDigit(word[0]):
		var n int
		fmt.Sscan(strings.TrimRight(word, "uUlL"), &n)
		return n
	case word == "defined":
		brace := e.accept("(")
		name := e.word()
		if brace {
			e.accept(")")
		}
		e.p.look(name)
		_, ok := e.p.macros[name]
		return number(ok)
	case word == "__has_include":
		return number(e.hasInclude())
	}
	if _, ok := e.p.macros[word]; !ok {
		e.p.look(word)
		return 0
	}
	inner := expression{p: e.p, file: e.file, text: e.p.value(word, 0)}
	if inner.text == "" || inner.text == word {
		return 0
	}
	return inner.or()
}

func (e *expression) word() string {
	e.skip()
	end := 0
	for end < len(e.text) && (isLetter(e.text[end]) || isDigit(e.text[end])) {
		end++
	}
	w := e.text[:end]
	e.text = e.text[end:]
	return w
}

func (e *expression) hasInclude() bool {
	e.accept("(")
	inner, rest, _ := strings.Cut(e.text, ")")
	e.text = rest
	name := strings.TrimSpace(inner)
	if name != "" && isLetter(name[0]) {
		name = strings.TrimSpace(e.p.expand(name))
	}
	return len(name) > 2 && e.p.find(e.file, name) != ""
}
