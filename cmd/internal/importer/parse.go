package importer

import (
	"slices"
	"strings"
)

// parser tracks the braces of C++ code. It parses statements of namespaces and classes; in function
// bodies it only collects names.
type parser struct {
	qualifiers map[string]string
	cur        *code
	start      int
	at         int // current line
	scopes     []scope
	stmt       []string
	stmtLine   int
	external   bool // inside an extern declaration in a body
	saved      []state
}

// scope is an open brace.
type scope struct {
	kind    byte   // n namespace, a anonymous namespace, c class, b body
	class   string // name of the class or namespace
	typedef bool
	device  bool // body of a kernel or device function
}

// state is a snapshot of a parser.
type state struct {
	scopes []scope
	stmt   []string
}

func (p *parser) state() state { return state{slices.Clone(p.scopes), slices.Clone(p.stmt)} }

func (p *parser) restore(s state) {
	p.scopes, p.stmt = slices.Clone(s.scopes), slices.Clone(s.stmt)
}

func (p *parser) code(l line) {
	if p.cur == nil {
		p.cur, p.start = &code{}, l.number
	}
	p.at = l.number
	for _, w := range words(l.text) {
		p.word(w)
	}
}

func (p *parser) top() *scope {
	if len(p.scopes) == 0 {
		return &scope{kind: 'n'}
	}
	return &p.scopes[len(p.scopes)-1]
}

func (p *parser) word(w string) {
	if p.top().kind == 'b' {
		p.inBody(w)
		return
	}
	switch w {
	case "{":
		p.open()
	case "}":
		p.called()
		if p.top().typedef {
			p.stmt = []string{"typedef"} // what follows names a type, not a variable
		}
		p.scopes = p.scopes[:max(len(p.scopes)-1, 0)]
	case ";":
		p.close()
	case ":":
		if len(p.stmt) == 1 && slices.Contains([]string{"public", "private", "protected"}, p.stmt[0]) {
			p.stmt = nil
			return
		}
		p.stmt = append(p.stmt, w)
	default:
		if len(p.stmt) == 0 {
			p.stmtLine = p.at
		}
		p.stmt = append(p.stmt, w)
	}
}

// called records macro calls that stand as declarations without a semicolon.
func (p *parser) called() {
	stmt := p.plainStatement(p.stmt)
	if len(stmt) > 2 && stmt[1] == "(" && isWord(stmt[0][0]) {
		p.cur.calls = append(p.cur.calls, stmt[0])
	}
	p.stmt = nil
}

// inBody handles a word in a function body.
func (p *parser) inBody(w string) {
	switch w {
	case "{":
		p.scopes = append(p.scopes, scope{kind: 'b', device: p.top().device})
		return
	case "}":
		if p.external, p.stmt = false, nil; p.top().typedef {
			p.stmt = []string{"typedef"}
		}
		p.scopes = p.scopes[:len(p.scopes)-1]
		return
	case "<<<":
		if p.top().device && p.cur.nested == 0 {
			p.cur.nested = p.at
		}
		if p.cur.launch == 0 {
			p.cur.launch = p.at
		}
	case "threadIdx", "blockIdx", "__syncthreads":
		if p.cur.inside == 0 {
			p.cur.inside = p.at
		}
	case "extern":
		p.external, p.stmt = true, nil
	case "(", ";", "[":
		if p.external && slices.Contains(p.stmt, "__shared__") {
			p.external, p.stmt = false, nil
		}
		if p.external && len(p.stmt) > 0 {
			p.cur.decls = append(p.cur.decls, symbol{name: p.stmt[len(p.stmt)-1], line: p.at})
			p.external, p.stmt = false, nil
		}
	}
	if isWord(w[0]) && w != "0" {
		if p.external {
			p.stmt = append(p.stmt, w)
		}
		p.cur.uses = append(p.cur.uses, w)
	}
}

// open handles a brace after a statement.
func (p *parser) open() {
	stmt := p.stmt
	p.stmt = nil
	switch name, class := className(stmt); {
	case slices.Contains(stmt, "namespace") && !slices.Contains(stmt, "using"):
		p.scopes = append(p.scopes, namespace(stmt))
		p.cur.spaces = append(p.cur.spaces, stmt...)
	case len(stmt) > 0 && stmt[0] == "extern" && slices.Contains(stmt, `"`) && !slices.Contains(stmt, "("):
		p.scopes = append(p.scopes, scope{kind: 'n'})
	case class:
		if slices.Contains(stmt, "enum") {
			p.scopes = append(p.scopes, scope{kind: 'b', typedef: stmt[0] == "typedef"})
			return
		}
		for i, w := range stmt {
			if i > 0 && w == ":" {
				p.names(stmt[i:]) // base classes
			}
		}
		p.scopes = append(p.scopes, scope{kind: 'c', class: name, typedef: stmt[0] == "typedef"})
	default:
		s, found := p.declared(stmt)
		if found {
			p.define(s)
		}
		p.scopes = append(p.scopes, scope{kind: 'b', device: s.device || s.kernel})
	}
}

func namespace(stmt []string) scope {
	if last := stmt[len(stmt)-1]; last != "namespace" {
		return scope{kind: 'n', class: last}
	}
	return scope{kind: 'a'}
}

// space returns the innermost named namespace.
func (p *parser) space() string {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if p.scopes[i].kind == 'n' && p.scopes[i].class != "" {
			return p.scopes[i].class
		}
	}
	return ""
}

// define records a definition. A definition in an anonymous namespace or a class is local.
func (p *parser) define(s symbol) {
	for _, o := range p.scopes {
		switch o.kind {
		case 'a':
			s.local = true
		case 'c':
			s.class, s.local = o.class, true
		}
	}
	p.cur.defs = append(p.cur.defs, s)
}

// names records identifiers as uses.
func (p *parser) names(list []string) {
	for _, w := range list {
		if isWord(w[0]) && w != "0" {
			p.cur.uses = append(p.cur.uses, w)
		}
	}
}

// close handles a semicolon after a statement.
func (p *parser) close() {
	stmt := p.stmt
	p.stmt = nil
	if len(stmt) == 0 || slices.Contains([]string{"using", "typedef", "friend", "static_assert", "return", "goto"}, stmt[0]) {
		return
	}
	instance := stmt[0] == "template" && (len(stmt) < 2 || stmt[1] != "<")
	s, found := p.declared(stmt)
	if !found {
		return
	}
	if at := slices.Index(stmt, "="); at > 0 {
		p.names(stmt[at:])
	}
	function := isFunction(stmt)
	switch {
	case instance:
		s.local = false
		if len(stmt) > 1 && (stmt[1] == "class" || stmt[1] == "struct") {
			s.class = "" // all members of the class
		}
		p.cur.defs = append(p.cur.defs, s)
	case p.top().kind == 'c':
		s.class = p.top().class
		if function || slices.Contains(stmt, "static") {
			p.cur.decls = append(p.cur.decls, s)
		}
	case function || slices.Contains(stmt, "extern"):
		p.cur.decls = append(p.cur.decls, s)
	default:
		p.define(s)
	}
}

// isFunction reports whether a statement declares a function: it has a parenthesis that no
// initialiser precedes.
func isFunction(stmt []string) bool {
	open, equal := slices.Index(stmt, "("), slices.Index(stmt, "=")
	return open > 0 && (equal < 0 || open < equal)
}

// parenthesised lists attributes of declarations that take arguments.
var parenthesised = []string{"__launch_bounds__", "__attribute__", "__declspec", "alignas", "__align__", "decltype", "noexcept", "__maxnreg__", "__cluster_dims__", "throw", "explicit"}

// plainStatement removes template parameters, attributes and leading macros from a statement.
func (p *parser) plainStatement(stmt []string) []string {
	for len(stmt) > 1 && stmt[0] == "template" && stmt[1] == "<" {
		stmt = stmt[1+angled(stmt[1:]):]
	}
	var out []string
	for i := 0; i < len(stmt); i++ {
		if slices.Contains(parenthesised, stmt[i]) && i+1 < len(stmt) && stmt[i+1] == "(" {
			i += bracketed(stmt[i+1:])
			continue
		}
		if len(out) == 0 && i+1 < len(stmt) && stmt[i+1] == "(" && isWord(stmt[i][0]) {
			end := i + 1 + bracketed(stmt[i+1:])
			if end < len(stmt) && isWord(stmt[end][0]) && !slices.Contains([]string{"const", "override", "final"}, stmt[end]) {
				p.cur.calls = append(p.cur.calls, stmt[i])
				i = end - 1
				continue
			}
		}
		out = append(out, stmt[i])
	}
	return out
}

// bracketed returns the length of the leading (...) in words.
func bracketed(stmt []string) int {
	depth := 0
	for i, w := range stmt {
		switch w {
		case "(":
			depth++
		case ")":
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(stmt)
}

// angled returns the length of the leading <...> in words.
func angled(stmt []string) int {
	depth := 0
	for i, w := range stmt {
		switch w {
		case "<":
			depth++
		case ">", ">>>":
			if depth -= len(w); depth <= 0 {
				return i + 1
			}
		case "(", ";":
			if w == "(" {
				if n := bracketed(stmt[i:]); depth == 0 {
					return i + n
				}
			}
		}
	}
	return len(stmt)
}

// className returns the name of the class, struct, union or enum that a brace opens.
func className(stmt []string) (name string, ok bool) {
	p := &parser{cur: &code{}}
	stmt = p.plainStatement(stmt)
	if slices.Contains(stmt, "(") || slices.Contains(stmt, "=") {
		return "", false
	}
	for i, w := range stmt {
		switch w {
		case "class", "struct", "union", "enum":
			for _, n := range stmt[i+1:] {
				if n == ":" || n == "<" {
					break
				}
				if isWord(n[0]) && n != "final" {
					name = n
				}
			}
			return name, true
		}
	}
	return "", false
}

// declared returns the symbol that a statement declares.
func (p *parser) declared(stmt []string) (s symbol, ok bool) {
	all := stmt
	stmt = p.plainStatement(stmt)
	s.line = p.stmtLine
	if len(all) > 0 && all[0] == "template" && len(all) > 2 && all[1] == "<" && all[2] != ">" {
		s.local = true
	}
	for _, w := range stmt {
		for _, q := range append(strings.Fields(p.qualifiers[w]), w) {
			switch q {
			case "__device__", "__constant__", "__managed__":
				s.device = true
			case "__global__":
				s.kernel = true
			case "static", "inline", "__inline__", "__forceinline__", "constexpr":
				s.local = true
			}
		}
		if w == "(" || w == "=" {
			break
		}
	}
	end := slices.IndexFunc(stmt, func(w string) bool { return w == "(" || w == "=" || w == "[" || w == ":" })
	if end < 0 {
		end = len(stmt)
	}
	if end == 0 {
		return s, false
	}
	if end == 1 && end < len(stmt) && stmt[1] == "(" { // a macro, or a constructor inside its class
		p.cur.calls = append(p.cur.calls, stmt[0])
		if p.top().kind != 'c' {
			s.name, s.local = stmt[0], stmt[0] != "main"
			return s, s.name != ""
		}
	}
	if s.class, s.name = named(stmt[:end]); s.class == "" && p.top().kind != 'c' {
		s.class = p.space()
	}
	s.virtual = slices.Contains(stmt, "virtual") || slices.Contains(stmt, "override")
	s.external = slices.Contains(stmt, "extern") && !slices.Contains(stmt, "__shared__") && !isFunction(stmt)
	return s, s.name != ""
}

// named splits the name at the end of a declarator: a::b, a<int>::b, f<int>, operator+.
func named(stmt []string) (class, name string) {
	for i, w := range stmt {
		if w == "operator" {
			stmt = stmt[:i+1]
			break
		}
	}
	back := func() string {
		n := len(stmt)
		if n > 0 && (stmt[n-1] == ">" || stmt[n-1] == ">>>") {
			for i := n - 1; i >= 0; i-- {
				if stmt[i] == "<" && angled(stmt[i:]) >= n-i {
					stmt = stmt[:i]
					break
				}
			}
		}
		n = len(stmt)
		if n == 0 || !isWord(stmt[n-1][0]) {
			return ""
		}
		w := stmt[n-1]
		stmt = stmt[:n-1]
		return w
	}
	name = back()
	if n := len(stmt); n > 0 && stmt[n-1] == "~" {
		stmt = stmt[:n-1]
	}
	if n := len(stmt); n > 0 && stmt[n-1] == "::" {
		stmt = stmt[:n-1]
		class = back()
	}
	return class, name
}
