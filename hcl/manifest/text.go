package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits of parsing. HCL's parser recurses for each level of nesting and needs about 150 bytes for
// each token. So a million brackets crash the process, and a megabyte of commas takes 300 MiB. In a
// binary file it reports every byte. checkText finds all of these before parsing, in one pass over
// the bytes.

const (
	maxWords   = 500_000 // tokens of a manifest: names, numbers, signs
	maxNesting = 1_000   // nested brackets and nested operators
)

// marks are the byte order marks of other encodings.
var marks = []struct {
	mark     string
	encoding string
}{{"\xff\xfe\x00\x00", "UTF-32"}, {"\x00\x00\xfe\xff", "UTF-32"}, {"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"}}

// checkText reports a file that must not be parsed.
func (l *loader) checkText(file string, src []byte) bool {
	for _, m := range marks {
		if bytes.HasPrefix(src, []byte(m.mark)) {
			l.add(Diagnostic{Pos: position(placeOf(file, src, 0)), Summary: fmt.Sprintf("%s is %s, not UTF-8", file, m.encoding), Detail: "Save it as UTF-8."})
			return false
		}
	}
	if at := notText(src); at >= 0 {
		l.add(Diagnostic{Pos: position(placeOf(file, src, at)), Summary: fmt.Sprintf("%s is no text: it holds the byte 0x%02x", file, src[at]),
			// Without its source line, which may harm the terminal.
			Detail: "Manifests are text in UTF-8."})
		return false
	}
	if at := wordsEnd(src); at >= 0 {
		l.errorAt(placeOf(file, src, at), "Put lists of files into glob(), and alike targets into a module with a matrix.",
			"%s has more than %d words", file, maxWords)
		return false
	}
	if mayNest(src) {
		return l.checkNesting(file, src)
	}
	return true
}

// notText returns the offset of the first byte that UTF-8 text cannot contain; -1 if there is none.
func notText(src []byte) int {
	at := bytes.IndexByte(src, 0)
	if utf8.Valid(src) {
		return at
	}
	for i := 0; i != at && i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return at
}

// placeOf returns the range of a byte.
func placeOf(file string, src []byte, at int) hcl.Range {
	before := src[:at]
	line := bytes.LastIndexByte(before, '\n') + 1
	pos := hcl.Pos{Line: bytes.Count(before, []byte("\n")) + 1, Column: utf8.RuneCount(before[line:]) + 1, Byte: at}
	end := pos
	end.Column, end.Byte = pos.Column+1, at+1
	return hcl.Range{Filename: file, Start: pos, End: end}
}

// wordsEnd returns the offset at which there are more than maxWords words; -1 if there are not. It
// also counts words in strings.
func wordsEnd(src []byte) int {
	words, within := 0, false
	for i, c := range src {
		letter := c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
		if !letter && c != ' ' && c != '\t' || letter && !within {
			words++
		}
		if within = letter; words > maxWords {
			return i
		}
	}
	return -1
}

// mayNest reports whether there are many brackets or operators, even in comments and strings. It is
// a fast approximation: few manifests have so many.
func mayNest(src []byte) bool {
	const many = maxNesting / 4
	depth, signs := 0, 0
	for _, c := range src {
		switch c {
		case '(', '[', '{':
			depth++
			signs++
		case ')', ']', '}':
			depth--
		case ',', '\n':
			signs = 0
		case '+', '-', '*', '/', '%', '!', '<', '>', '=', '&', '|', '?', ':':
			signs++
		}
		if depth > many || signs > many {
			return true
		}
	}
	return bytes.Count(src, []byte("%{")) > many
}

// checkNesting counts the nesting of tokens: open brackets, and in each bracket the operators since
// the last comma.
func (l *loader) checkNesting(file string, src []byte) bool {
	tokens, _ := hclsyntax.LexConfig(src, file, hcl.InitialPos) // the parser reports these errors
	open, operators, nesting := []hclsyntax.TokenType{}, []int{0}, 0
	for _, t := range tokens {
		top := len(operators) - 1
		switch {
		case slices.Contains(opening, t.Type):
			operators[top]++
			open, operators = append(open, t.Type), append(operators, 0)
			nesting += 2
		case slices.Contains(closing, t.Type) && len(open) > 0:
			nesting -= operators[top] + 1
			open, operators = open[:top-1], operators[:top]
		case t.Type == hclsyntax.TokenComma, t.Type == hclsyntax.TokenNewline && (top == 0 || open[top-1] == hclsyntax.TokenOBrace):
			nesting -= operators[top]
			operators[top] = 0
		case t.Type < unicode.MaxLatin1 && bytes.ContainsRune([]byte("+-*/%!<>?:"), rune(t.Type)), hclsyntax.TokenEqualOp <= t.Type && t.Type <= hclsyntax.TokenGreaterThanEq,
			t.Type == hclsyntax.TokenNotEqual, t.Type == hclsyntax.TokenAnd, t.Type == hclsyntax.TokenOr:
			operators[top]++
			nesting++
		}
		if nesting > maxNesting {
			l.errorAt(t.Range, "Give parts of it names in locals { ... }.", "this nests deeper than %d levels", maxNesting)
			return false
		}
	}
	return true
}

var (
	opening = []hclsyntax.TokenType{hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
		hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl}
	closing = []hclsyntax.TokenType{hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
		hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd}
)

// tooLong is the size in bytes above which a diagnostic does not show its line.
const tooLong = 4 << 10

// maxDiagnostics limits the diagnostics that are kept. The rest are counted.
const maxDiagnostics = 1_000

// curtail adds a diagnostic with the number of those that were dropped.
func (l *loader) curtail() {
	if l.dropped > 0 {
		l.diags = append(l.diags, Diagnostic{Summary: fmt.Sprintf("and %d more like these", l.dropped)})
	}
}
