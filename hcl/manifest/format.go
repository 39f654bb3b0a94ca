package manifest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Format returns src in the canonical layout: indentation and aligned equal signs, comments and
// everything else untouched. A file that does not parse is returned as diagnostics.
func Format(src []byte, file string) ([]byte, Diagnostics) {
	l := newLoader(Options{})
	if l.parse(file, src); l.diags.HasErrors() {
		l.curtail()
		return nil, l.diags
	}
	return layout(src), nil
}

// The layout is that of hclwrite.Format, byte for byte; TestLayout compares them. hclwrite itself
// is not linked: it brings go-cmp, whose regular expressions take a tenth of the time of a null
// build.

// formatToken is a token with the spaces to write before it.
type formatToken struct {
	hclsyntax.Token
	spaces int
}

// formatLine has the cells of a line. Equal cells of neighboring lines are aligned.
type formatLine [3][]formatToken

const (
	leadCell    = iota // everything outside the other cells
	assignCell         // "= value" of an attribute, if the value ends on the line
	commentCell        // a comment that ends the line
)

// layout returns the tokens of src with canonical space between them.
func layout(src []byte) []byte {
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	lines := formatLines(tokens)
	indentLines(lines)
	for _, l := range lines {
		for _, cell := range l {
			before := hclsyntax.TokenNil
			for i := 1; i < len(cell); i++ {
				if spaceBetween(before, cell[i-1].Token, cell[i].Type) {
					cell[i].spaces = 1
				}
				before = cell[i-1].Type
			}
		}
	}
	align(lines, assignCell)
	align(lines, commentCell)
	var out bytes.Buffer
	for _, l := range lines {
		for _, t := range slices.Concat(l[:]...) {
			out.WriteString(strings.Repeat(" ", t.spaces))
			out.Write(t.Bytes)
		}
	}
	return out.Bytes()
}

// formatLines splits tokens into lines, and lines into cells.
func formatLines(tokens hclsyntax.Tokens) (lines []formatLine) {
	var line []formatToken
	for _, t := range tokens {
		if t.Type != hclsyntax.TokenEOF {
			line = append(line, formatToken{Token: t})
		}
		ends := t.Type == hclsyntax.TokenNewline || t.Type == hclsyntax.TokenComment
		if ends && bytes.HasSuffix(t.Bytes, []byte("\n")) ||
			t.Type == hclsyntax.TokenEOF && line != nil {
			var l formatLine
			if last := len(line) - 1; last > 0 && line[last].Type == hclsyntax.TokenComment {
				line, l[commentCell] = line[:last], line[last:]
			}
			equal := slices.IndexFunc(line,
				func(t formatToken) bool { return t.Type == hclsyntax.TokenEqual })
			if equal > 0 && openedBy(line[equal:]) == 0 {
				line, l[assignCell] = line[:equal], line[equal:]
			}
			l[leadCell] = line
			lines, line = append(lines, l), nil
		}
	}
	return lines
}

// openedBy returns how many more brackets are opened than closed, up to the first heredoc.
func openedBy(tokens []formatToken) (n int) {
	for _, t := range tokens {
		if t.Type == hclsyntax.TokenOHeredoc {
			break
		}
		n += bracket(t.Type)
	}
	return n
}

func bracket(t hclsyntax.TokenType) int {
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
		hclsyntax.TokenTemplateControl, hclsyntax.TokenTemplateInterp:
		return 1
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen,
		hclsyntax.TokenTemplateSeqEnd:
		return -1
	}
	return 0
}

// indentLines indents lines. Brackets that are opened on one line add one level.
func indentLines(lines []formatLine) {
	var levels []int // number of open brackets of each level
	for _, l := range lines {
		lead := l[leadCell]
		if lead[0].Type == hclsyntax.TokenNewline {
			continue
		}
		opened := openedBy(lead)
		for opened < 0 && len(levels) > 0 {
			top := len(levels) - 1
			levels[top], opened = levels[top]+opened, min(0, levels[top]+opened)
			if levels[top] <= 0 {
				levels = levels[:top]
			}
		}
		lead[0].spaces = 2 * len(levels)
		if opened > 0 {
			levels = append(levels, opened)
		}
	}
}

// align aligns a cell of consecutive lines that have it.
func align(lines []formatLine, cell int) {
	for len(lines) > 0 {
		n := slices.IndexFunc(lines, func(l formatLine) bool { return l[cell] == nil })
		if n < 0 {
			n = len(lines)
		}
		widest := 0
		for _, l := range lines[:n] {
			widest = max(widest, l.columns(cell))
		}
		for _, l := range lines[:n] {
			l[cell][0].spaces = widest - l.columns(cell) + 1
		}
		lines = lines[min(n+1, len(lines)):]
	}
}

// columns returns the width of the cells before one.
func (l *formatLine) columns(cell int) (n int) {
	for _, t := range slices.Concat(l[:cell]...) {
		n += t.spaces + t.Range.End.Column - t.Range.Start.Column
	}
	return n
}

// spaceBetween reports whether a space separates t from the token after it.
func spaceBetween(before hclsyntax.TokenType, t hclsyntax.Token, after hclsyntax.TokenType) bool {
	switch {
	case after == hclsyntax.TokenNewline,
		t.Type == hclsyntax.TokenIdent &&
			(after == hclsyntax.TokenOParen || after == hclsyntax.TokenDoubleColon),
		t.Type == hclsyntax.TokenDoubleColon && after == hclsyntax.TokenIdent,
		t.Type == hclsyntax.TokenDot, after == hclsyntax.TokenDot,
		after == hclsyntax.TokenComma, after == hclsyntax.TokenEllipsis:
		return false
	case t.Type == hclsyntax.TokenComma:
		return true
	}
	switch t.Type { // templates keep their text
	case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenOQuote,
		hclsyntax.TokenOHeredoc:
		return false
	}
	switch after {
	case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenCQuote,
		hclsyntax.TokenCHeredoc:
		return false
	}
	interpolates := func(t hclsyntax.TokenType) bool {
		return t == hclsyntax.TokenTemplateInterp || t == hclsyntax.TokenTemplateControl
	}
	switch {
	case t.Type == hclsyntax.TokenIdent && string(t.Bytes) == "in" && before == hclsyntax.TokenIdent:
		return true // for x in [1]
	case after == hclsyntax.TokenOBrack &&
		(t.Type == hclsyntax.TokenIdent || t.Type == hclsyntax.TokenNumberLit || bracket(t.Type) < 0),
		t.Type == hclsyntax.TokenBang:
		return false
	case t.Type == hclsyntax.TokenMinus:
		return !slices.Contains(beforeNegation, before)
	case t.Type == hclsyntax.TokenOBrace || after == hclsyntax.TokenCBrace:
		return t.Type != hclsyntax.TokenOBrace || after != hclsyntax.TokenCBrace
	case interpolates(t.Type) && after == hclsyntax.TokenOBrace,
		t.Type == hclsyntax.TokenCBrace && after == hclsyntax.TokenTemplateSeqEnd:
		return true
	case t.Type == hclsyntax.TokenTemplateSeqEnd && interpolates(after):
		return false
	}
	return bracket(t.Type) <= 0 && bracket(after) >= 0
}

// beforeNegation are the tokens after which a minus is a sign and not an operator.
var beforeNegation = []hclsyntax.TokenType{
	hclsyntax.TokenNil, hclsyntax.TokenOParen, hclsyntax.TokenOBrace, hclsyntax.TokenOBrack,
	hclsyntax.TokenEqual, hclsyntax.TokenColon, hclsyntax.TokenComma, hclsyntax.TokenQuestion,
	hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
	hclsyntax.TokenMinus, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
	hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenLessThan,
	hclsyntax.TokenLessThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang,
}
