package importer

import (
	"go/scanner"
	"go/token"
	"strconv"
)

// The conditions of #if are evaluated as far as they are known without running a compiler. Go's
// scanner reads them, since the operators that matter are those of Go. What Go does not have, such
// as ?:, is unknown.

// tri is a truth value.
type tri int

const (
	no tri = iota
	maybe
	yes
)

func (t tri) not() tri { return yes - t }

// value is an integer that may be unknown.
type value struct {
	n     int64
	known bool
}

func (v value) truth() tri {
	switch {
	case !v.known:
		return maybe
	case v.n == 0:
		return no
	}
	return yes
}

func of(t tri) value { return value{int64(t) / 2, t != maybe} }

// longestCondition is the length from which on a condition is unknown.
const longestCondition = 4096

var (
	definedRE = pattern(`\bdefined\s+(\w+)`)
	hasRE     = pattern(`\b__has_include\s*\(\s*([<"][^>"]*[>"])\s*\)`)
	numberRE  = pattern(`\b(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\b`)
)

// evaluate returns the value of a condition in a file. Without a tree every header may exist.
func (u *unit) evaluate(t *tree, from, text string, depth int) value {
	if len(text) > longestCondition || depth > 20 {
		return value{}
	}
	text = hasRE().ReplaceAllStringFunc(text, func(call string) string {
		switch header := hasRE().FindStringSubmatch(call)[1]; {
		case t == nil:
			return "unknown()"
		case t.resolve(u, from, header).how == lacks:
			return "0"
		}
		return "1"
	})
	text = definedRE().ReplaceAllString(text, "defined($1)")
	text = numberRE().ReplaceAllString(text, "$1")
	var scan scanner.Scanner
	scan.Init(token.NewFileSet().AddFile("", -1, len(text)), []byte(text), nil, 0)
	c := &condition{unit: u, depth: depth}
	for c.next.tok != token.EOF {
		_, tok, text := scan.Scan()
		c.next = word{tok, text}
		c.words = append(c.words, c.next)
	}
	c.advance()
	v := c.binary(1)
	if c.next.tok != token.SEMICOLON { // the scanner adds it at the end
		return value{}
	}
	return v
}

// condition is an expression that is being evaluated.
type condition struct {
	*unit
	depth int // of macros
	next  word
	words []word // from next on
}

type word struct {
	tok  token.Token
	text string
}

// advance returns the next word, and goes on to the one after it.
func (c *condition) advance() word {
	w := c.next
	if len(c.words) > 0 {
		c.next, c.words = c.words[0], c.words[1:]
	}
	return w
}

// binary evaluates operators of a precedence or higher ones.
func (c *condition) binary(precedence int) value {
	left := c.unary()
	for c.next.tok.Precedence() >= precedence {
		op := c.advance().tok
		left = operate(op, left, c.binary(op.Precedence()+1))
	}
	return left
}

func (c *condition) unary() value {
	switch w := c.advance(); w.tok {
	case token.NOT:
		return of(c.unary().truth().not())
	case token.SUB:
		v := c.unary()
		return value{-v.n, v.known}
	case token.LPAREN:
		v := c.binary(1)
		if c.advance().tok != token.RPAREN {
			return value{}
		}
		return v
	case token.INT:
		n, err := strconv.ParseInt(w.text, 0, 64)
		return value{n, err == nil}
	case token.IDENT:
		if c.next.tok != token.LPAREN {
			return c.valueOf(w.text, c.depth)
		}
		c.advance()
		name := c.next.text
		for depth := 1; depth > 0 && c.next.tok != token.EOF; {
			switch c.advance().tok {
			case token.LPAREN:
				depth++
			case token.RPAREN:
				depth--
			}
		}
		if w.text == "defined" {
			return of(c.definedness(name))
		}
	}
	return value{} // such as a function-like macro
}

func operate(op token.Token, a, b value) value {
	is := func(b bool) value { return of(map[bool]tri{false: no, true: yes}[b]) }
	switch {
	case op == token.LOR:
		return of(max(a.truth(), b.truth()))
	case op == token.LAND:
		return of(min(a.truth(), b.truth()))
	case !a.known || !b.known || (op == token.QUO || op == token.REM) && b.n == 0:
		return value{}
	}
	switch op {
	case token.EQL:
		return is(a.n == b.n)
	case token.NEQ:
		return is(a.n != b.n)
	case token.LSS:
		return is(a.n < b.n)
	case token.GTR:
		return is(a.n > b.n)
	case token.LEQ:
		return is(a.n <= b.n)
	case token.GEQ:
		return is(a.n >= b.n)
	case token.ADD:
		return value{a.n + b.n, true}
	case token.SUB:
		return value{a.n - b.n, true}
	case token.MUL:
		return value{a.n * b.n, true}
	case token.QUO:
		return value{a.n / b.n, true}
	case token.REM:
		return value{a.n % b.n, true}
	}
	return value{}
}
