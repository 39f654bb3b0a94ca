package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// evaluate evaluates the expression of an #if. All words become numbers, which leaves an expression
// of Go.
func (p *cpp) evaluate(file, text string) (int, error) {
	var b strings.Builder
	for rest := text; rest != ""; {
		end := 0
		for end < len(rest) && (isLetter(rest[end]) || isDigit(rest[end])) {
			end++
		}
		word := rest[:max(end, 1)]
		rest = rest[len(word):]
		_, isMacro := p.macros[word]
		n := 0
		switch {
		case end == 0:
			b.WriteString(word)
			continue
		case isDigit(word[0]):
			b.WriteString(strings.TrimRight(word, "uUlL"))
			continue
		case word == "defined", word == "__has_include":
			name, after, ok := strings.Cut(strings.TrimLeft(rest, " \t("), ")")
			if !ok || !strings.HasPrefix(strings.TrimLeft(rest, " \t"), "(") {
				return 0, fmt.Errorf("%s without brackets: %s", word, text)
			}
			if name, rest = strings.TrimSpace(name), after; word == "defined" {
				p.look(name)
				_, ok = p.macros[name]
			} else {
				ok = p.hasInclude(file, name)
			}
			if ok {
				n = 1
			}
		case !isMacro:
			p.look(word)
		default:
			if value := p.value(word, 0); value != "" && value != word {
				var err error
				if n, err = p.evaluate(file, value); err != nil {
					return 0, err
				}
			}
		}
		fmt.Fprint(&b, n)
	}
	e, err := parser.ParseExpr(b.String())
	if err != nil {
		return 0, fmt.Errorf("the condition is not understood: %s", text)
	}
	return result(e), nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// result returns the value of an expression; that of others than the operators of #if is 0.
func result(e ast.Expr) (n int) {
	switch e := e.(type) {
	case *ast.BasicLit:
		fmt.Sscan(e.Value, &n)
	case *ast.ParenExpr:
		return result(e.X)
	case *ast.UnaryExpr:
		return number(result(e.X) == 0)
	case *ast.BinaryExpr:
		x, y := result(e.X), result(e.Y)
		return number(map[token.Token]bool{
			token.LOR: x != 0 || y != 0, token.LAND: x != 0 && y != 0,
			token.GEQ: x >= y, token.LEQ: x <= y, token.EQL: x == y, token.NEQ: x != y,
			token.GTR: x > y, token.LSS: x < y,
		}[e.Op])
	}
	return n
}

func (p *cpp) hasInclude(file, name string) bool {
	if name != "" && isLetter(name[0]) {
		name = strings.TrimSpace(p.expand(name))
	}
	return len(name) > 2 && p.find(file, name) != ""
}
