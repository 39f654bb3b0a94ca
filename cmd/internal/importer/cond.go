package importer

import (
	"strconv"
	"strings"
)

// tri is the truth value of a condition, as far as it is known without running a compiler.
type tri int

const (
	no tri = iota
	maybe
	yes
)

func (t tri) not() tri { return yes - t }

func truth(b bool) tri {
	if b {
		return yes
	}
	return no
}

// value is an integer that may be unknown.
type value struct {
	n     int64
	known bool
}

func (v value) truth() tri {
	if !v.known {
		return maybe
	}
	return truth(v.n != 0)
}

func of(t tri) value { return value{int64(t) / 2, t != maybe} }

// condition evaluates the expression of an #if.
type condition struct {
	words   []string
	at      int
	defined func(name string) tri
	value   func(name string) value
	has     func(header string) tri
}

func (c *condition) peek() string {
	if c.at < len(c.words) {
		return c.words[c.at]
	}
	return ""
}

func (c *condition) next() string {
	w := c.peek()
	c.at++
	return w
}

// operators lists the binary operators by precedence, lowest first.
var operators = [][]string{{"||"}, {"&&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"+", "-"}, {"*", "/", "%"}}

func (c *condition) level(l int) value {
	if l == len(operators) {
		return c.unary()
	}
	left := c.level(l + 1)
	for {
		op := ""
		for _, o := range operators[l] {
			if c.peek() == o {
				op = o
			}
		}
		if op == "" {
			return left
		}
		c.at++
		left = operate(op, left, c.level(l+1))
	}
}

func operate(op string, a, b value) value {
	switch op {
	case "||":
		return of(max(a.truth(), b.truth()))
	case "&&":
		return of(min(a.truth(), b.truth()))
	}
	if !a.known || !b.known {
		return value{}
	}
	switch op {
	case "==":
		return of(truth(a.n == b.n))
	case "!=":
		return of(truth(a.n != b.n))
	case "<":
		return of(truth(a.n < b.n))
	case ">":
		return of(truth(a.n > b.n))
	case "<=":
		return of(truth(a.n <= b.n))
	case ">=":
		return of(truth(a.n >= b.n))
	case "+":
		return value{a.n + b.n, true}
	case "-":
		return value{a.n - b.n, true}
	case "*":
		return value{a.n * b.n, true}
	}
	if b.n == 0 {
		return value{}
	}
	if op == "/" {
		return value{a.n / b.n, true}
	}
	return value{a.n % b.n, true}
}

func (c *condition) unary() value {
	switch w := c.next(); {
	case w == "!":
		return of(c.unary().truth().not())
	case w == "-":
		v := c.unary()
		return value{-v.n, v.known}
	case w == "(":
		v := c.level(0)
		c.next()
		return v
	case w == "defined":
		name := c.next()
		if name == "(" {
			name = c.next()
			c.next()
		}
		return of(c.defined(name))
	case w == "__has_include":
		header := ""
		for depth := 0; c.at < len(c.words); {
			w := c.next()
			if w == ")" {
				break
			}
			if depth++; depth > 1 {
				header += w
			}
		}
		return of(c.has(header))
	case w == "" || !isWord(w[0]):
		return value{}
	case w[0] >= '0' && w[0] <= '9':
		n, err := strconv.ParseInt(strings.TrimRight(w, "uUlL"), 0, 64)
		return value{n, err == nil}
	default:
		v := c.value(w)
		if c.peek() == "(" { // a function-like macro
			c.at += bracketed(c.words[c.at:])
			return value{}
		}
		return v
	}
}

// conditionWords splits a condition into identifiers, numbers, operators and strings.
func conditionWords(text string) (out []string) {
	for i := 0; i < len(text); {
		n := 1
		switch {
		case text[i] == ' ' || text[i] == '\t':
			i++
			continue
		case isWord(text[i]):
			for i+n < len(text) && isWord(text[i+n]) {
				n++
			}
		case i+1 < len(text) && strings.Contains("|| && == != <= >=", text[i:i+2]) && text[i+1] != ' ':
			n = 2
		}
		out = append(out, text[i:i+n])
		i += n
	}
	return out
}
