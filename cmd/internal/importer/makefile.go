package importer

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Makefiles are parsed, never run. Variables and conditions are followed only where they are
// simple.

// unknown replaces values that only make knows.
const unknown = "\x00"

// makefile is the state of parsing one Makefile.
type makefile struct {
	tree  *Tree
	file  string
	vars  map[string]string // not expanded
	lines []makeLine
	depth int
	globs []string

	exports, missing map[string]bool // variables for Makefiles below; undefined variables
}

type makeLine struct {
	at, name, text string // name of the variable; "" for a rule or its recipe
	skip           bool   // part of a rule for another purpose
}

var (
	assignRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\s*(?:export\s+|override\s+)*([A-Za-z_][\w.-]*)\s*(\+|\?|::?|)=\s*(.*)$`)
	})
	asideRuleRE     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^[^:]*(?:debug|clean|clang|enum|profile|sanit)`) })
	otherCompilerRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\s*@?\S*\b(?:hipcc|clang\+\+|icpx|dpcpp|acpp|syclcc)\b`)
	})
	sourceRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\w.+/-]+`) })
)

func (t *Tree) readMakefile(file string) {
	m := &makefile{tree: t, file: file, vars: map[string]string{}, exports: map[string]bool{}, missing: map[string]bool{}}
	m.read(file)
	dir := path.Dir(file)
	h := t.hintsAt(dir)
	for _, l := range m.lines {
		text := m.expand(l.text, 0)
		if _, after, ok := strings.Cut(text, ":"); ok && l.name == "" {
			for _, w := range strings.Fields(after) {
				if isSource(w) && strings.Contains(w, "%") && !strings.Contains(w, unknown) {
					h.rules = appendNew(h.rules, path.Join(dir, strings.ReplaceAll(w, "%", "*")))
				}
			}
		}
		for _, w := range sourceRE().FindAllString(text, -1) {
			h.named[path.Base(w)] = true
		}
		if !l.skip && !(l.name == "" && otherCompilerRE().MatchString(text)) && !strings.Contains(strings.ToLower(l.name), "debug") {
			h.flags(t, dir, strings.Fields(text), l.at)
		}
	}
	h.alone = !t.has(path.Join(dir, "CMakeLists.txt")) && (h.std+h.cStd+h.mode != "" || h.fastMath || len(h.archs)+len(h.nvcc)+len(h.defines)+len(h.includes) > 0)
	for above := dir; above != "."; {
		above = path.Dir(above)
		if a := t.hints[above]; a != nil && slices.ContainsFunc(a.exports, func(name string) bool { return m.missing[name] }) {
			h.alone = false // that Makefile starts this one
		}
	}
	for name, is := range m.exports {
		if is {
			h.exports = append(h.exports, name)
		}
	}
	for _, g := range m.globs {
		h.globs = appendNew(h.globs, path.Join(dir, g))
	}
}

// read parses a file and the files that it includes.
func (m *makefile) read(file string) {
	if m.depth++; m.depth > 10 {
		return
	}
	defer func() { m.depth-- }()
	var open []branch
	skip := false
	number := 0
	var joined string
	for raw := range strings.Lines(m.tree.text(file)) {
		number++
		raw = strings.TrimRight(raw, "\r\n")
		if more, ok := strings.CutSuffix(raw, "\\"); ok {
			joined += more + " "
			continue
		}
		text := joined + raw
		joined = ""
		recipe := strings.HasPrefix(text, "\t")
		if at := strings.IndexByte(text, '#'); at >= 0 && !recipe {
			text = text[:at]
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		if m.conditional(word, strings.TrimSpace(rest), &open) {
			continue
		}
		if n := len(open); n > 0 && min(open[n-1].outer, open[n-1].now) != yes {
			continue
		}
		at := fmt.Sprintf("%s:%d", file, number)
		switch a := assignRE().FindStringSubmatch(text); {
		case word == "include" || word == "-include" || word == "sinclude":
			for _, f := range strings.Fields(m.expand(rest, 0)) {
				if f = path.Join(path.Dir(m.file), f); m.tree.has(f) {
					m.read(f)
				}
			}
		case word == "export" && a == nil:
			for _, name := range strings.Fields(rest) {
				m.exports[name] = true
			}
		case a != nil && !recipe:
			m.exports[a[1]] = m.exports[a[1]] || word == "export"
			m.assign(a[1], a[2], a[3], at)
		case strings.TrimSpace(text) != "":
			if !recipe {
				skip = asideRuleRE().MatchString(text)
			}
			m.lines = append(m.lines, makeLine{at: at, text: text, skip: skip})
		}
	}
}

func (m *makefile) assign(name, how, text, at string) {
	old, ok := m.vars[name]
	added := text
	switch {
	case how == "+":
		text = old + " " + text
	case how == "?" && ok:
		return
	case how == ":" || how == "::":
		text = m.expand(text, 0)
	}
	m.vars[name] = text
	if how != "+" {
		m.lines = slices.DeleteFunc(m.lines, func(l makeLine) bool { return l.name == name })
	} else {
		text = added
	}
	m.lines = append(m.lines, makeLine{at: at, name: name, text: text})
}

// conditional interprets ifeq and similar directives.
func (m *makefile) conditional(word, rest string, open *[]branch) bool {
	top := len(*open) - 1
	switch {
	case word == "endif":
		*open = (*open)[:max(top, 0)]
		return true
	case word == "else" && top >= 0:
		b := &(*open)[top]
		holds := yes
		if kind, more, _ := strings.Cut(rest, " "); kind != "" {
			holds = m.holds(kind, strings.TrimSpace(more))
		}
		b.now, b.taken = min(holds, b.taken.not()), max(b.taken, holds)
		return true
	case word == "ifeq" || word == "ifneq" || word == "ifdef" || word == "ifndef" || strings.HasPrefix(word, "ifeq(") || strings.HasPrefix(word, "ifneq("):
		if kind, more, ok := strings.Cut(word, "("); ok {
			word, rest = kind, "("+more+" "+rest
		}
		outer := yes
		if top >= 0 {
			outer = min((*open)[top].outer, (*open)[top].now)
		}
		holds := m.holds(word, rest)
		*open = append(*open, branch{outer, holds, holds})
		return true
	}
	return false
}

var bareVarRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*["']?\$[({]([\w.-]+)[)}]["']?\s*$`) })

func (m *makefile) holds(kind, rest string) tri {
	if kind == "ifdef" || kind == "ifndef" {
		name := strings.TrimSpace(rest)
		v, ok := m.vars[name]
		is := truth(ok && strings.TrimSpace(v) != "" || gpuRE().MatchString(name))
		if kind == "ifndef" {
			is = is.not()
		}
		return is
	}
	a, b := makeArguments(rest)
	if v := bareVarRE().FindStringSubmatch(a); v != nil && gpuRE().MatchString(v[1]) && !othersGPU().MatchString(v[1]) {
		a = "1"
		if want := strings.ToLower(strings.Trim(strings.TrimSpace(b), `"'`)); want == "yes" || want == "true" || want == "on" {
			a = b
		}
	}
	a, b = m.expand(a, 0), m.expand(b, 0)
	if strings.Contains(a+b, unknown) {
		return maybe
	}
	is := truth(strings.TrimSpace(a) == strings.TrimSpace(b))
	if kind == "ifneq" {
		is = is.not()
	}
	return is
}

// makeArguments parses the arguments of ifeq: (a,b), "a" "b" or 'a' 'b'.
func makeArguments(rest string) (a, b string) {
	rest = strings.TrimSpace(rest)
	if strings.HasPrefix(rest, "(") {
		rest = strings.TrimSuffix(strings.TrimSpace(rest[1:]), ")")
		depth := 0
		for i, c := range rest {
			switch {
			case c == '(' || c == '{':
				depth++
			case c == ')' || c == '}':
				depth--
			case c == ',' && depth == 0:
				return rest[:i], strings.TrimSpace(rest[i+1:])
			}
		}
		return rest, ""
	}
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		if end := strings.IndexByte(rest[1:], rest[0]); end >= 0 {
			return rest[1 : end+1], strings.Trim(strings.TrimSpace(rest[end+2:]), `"'`)
		}
	}
	return rest, unknown
}

// expand substitutes variables.
func (m *makefile) expand(text string, depth int) string {
	if depth > 30 || len(text) > 1<<16 || !strings.Contains(text, "$") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text) && b.Len() < 1<<16; i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch c := text[i]; {
		case c == '$':
			b.WriteString(unknown)
		case c == '(' || c == '{':
			end := max(closing(text[i:]), 1)
			if i+end > len(text) {
				return b.String() + unknown
			}
			b.WriteString(m.reference(text[i+1:i+end], depth+1))
			i += end
		case strings.IndexByte("@<^?*+%|", c) >= 0:
			b.WriteString(unknown)
		default:
			b.WriteString(m.reference(string(c), depth+1))
		}
	}
	return b.String()
}

// closing returns the index of the ) or } that closes the first bracket.
func closing(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{':
			depth++
		case ')', '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(text) - 1
}

// reference expands the content of $(...): a variable, perhaps with a substitution, or a function.
func (m *makefile) reference(text string, depth int) string {
	if v, ok := m.vars[text]; ok {
		return m.expand(v, depth)
	}
	switch text {
	case "CURDIR", "PWD", "shell pwd", "srcdir", "top_srcdir":
		return "."
	case "shell uname", "shell uname -s":
		return "Linux"
	case "shell uname -m", "shell uname -p", "shell arch":
		return "x86_64"
	}
	if name, args, ok := strings.Cut(text, " "); ok {
		return m.function(name, strings.TrimSpace(args), depth)
	}
	if name, by, ok := strings.Cut(text, ":"); ok {
		from, to, _ := strings.Cut(by, "=")
		var out []string
		for _, w := range strings.Fields(m.reference(name, depth+1)) {
			before, after, percent := strings.Cut(from, "%")
			if !percent {
				before, after = "", from
			}
			if stem, ok := strings.CutPrefix(w, before); ok {
				if stem, ok := strings.CutSuffix(stem, after); ok {
					w = strings.Replace(to, "%", stem, 1)
					if !percent {
						w = stem + to
					}
				}
			}
			out = append(out, m.expand(w, depth+1))
		}
		return strings.Join(out, " ")
	}
	if strings.ContainsAny(text, "$") {
		return unknown
	}
	m.missing[text] = true
	return ""
}

// function expands the functions of make that matter for flags.
func (m *makefile) function(name, args string, depth int) string {
	parts := strings.SplitN(args, ",", 3)
	switch {
	case name == "wildcard":
		for _, g := range strings.Fields(m.expand(args, depth+1)) {
			if g = strings.ReplaceAll(g, unknown, "*"); isSource(g) || strings.HasSuffix(g, "*") {
				m.globs = append(m.globs, g)
			}
		}
		return unknown
	case name == "shell" && strings.Contains(args, "*."), name == "call" && strings.Contains(args, "wildcard"):
		m.globs = append(m.globs, "*")
		return unknown
	case name == "addprefix" && len(parts) > 1:
		var out []string
		for _, w := range strings.Fields(m.expand(strings.Join(parts[1:], ","), depth+1)) {
			out = append(out, m.expand(parts[0], depth+1)+w)
		}
		return strings.Join(out, " ")
	case name == "foreach" && len(parts) == 3:
		var out []string
		old, had := m.vars[strings.TrimSpace(parts[0])]
		for _, w := range strings.Fields(m.expand(parts[1], depth+1)) {
			m.vars[strings.TrimSpace(parts[0])] = w
			out = append(out, m.expand(strings.TrimSpace(parts[2]), depth+1))
		}
		if delete(m.vars, strings.TrimSpace(parts[0])); had {
			m.vars[strings.TrimSpace(parts[0])] = old
		}
		return strings.Join(out, " ")
	case name == "strip" || name == "abspath" || name == "realpath" || name == "sort":
		return m.expand(args, depth+1)
	}
	return unknown
}
