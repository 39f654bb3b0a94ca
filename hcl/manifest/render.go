package manifest

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Colors of the terminal, like those of rustc and terraform.
const (
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
	blue   = "\x1b[1;34m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// Write renders each diagnostic with its source line and a caret, separated by blank lines. It
// omits missing parts, so a diagnostic with only a summary is one line.
func (ds Diagnostics) Write(w io.Writer, color bool) {
	for i, d := range ds {
		if i > 0 {
			fmt.Fprintln(w)
		}
		io.WriteString(w, d.render(color))
	}
}

// painter colors text if it is true.
type painter bool

func (p painter) paint(color, text string) string {
	if !p || text == "" {
		return text
	}
	return color + text + plain
}

func (d Diagnostic) render(color bool) string {
	var b strings.Builder
	p := painter(color)
	d = d.printable()
	tone := red
	if d.Severity == Warning {
		tone = yellow
	}
	fmt.Fprintf(&b, "%s%s\n", p.paint(tone, d.Severity.String()), p.paint(bold, ": "+d.Summary))
	width := gutter(d)
	if d.Pos.Line > 0 {
		snippet(&b, p, width, "-->", "^", tone, Place{Pos: d.Pos, End: d.End, Source: d.Source})
	}
	if d.Also.Pos.Line > 0 {
		snippet(&b, p, width, ":::", "-", blue, d.Also)
	}
	for i, line := range strings.Split(strings.TrimRight(d.Detail, "\n"), "\n") {
		switch {
		case line == "":
		case i == 0:
			fmt.Fprintf(&b, "%*s %s help: %s\n", width, "", p.paint(blue, "="), line)
		default:
			fmt.Fprintf(&b, "%*s         %s\n", width, "", line)
		}
	}
	return b.String()
}

// printable returns d with control characters replaced by U+FFFD: they could move the cursor. A
// replacement has the same width as one character.
func (d Diagnostic) printable() Diagnostic {
	d.Summary, d.Source, d.Pos.File = plainText(d.Summary), plainText(d.Source), plainText(d.Pos.File)
	lines := strings.Split(d.Detail, "\n")
	for i, line := range lines {
		lines[i] = plainText(line)
	}
	d.Detail = strings.Join(lines, "\n")
	d.Also.Source, d.Also.Say = plainText(d.Also.Source), plainText(d.Also.Say)
	d.Also.Pos.File = plainText(d.Also.Pos.File)
	return d
}

func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, s)
}

// gutter returns the width of the line numbers.
func gutter(d Diagnostic) int {
	n := max(d.Pos.Line, d.Also.Pos.Line)
	if n == 0 {
		return 1
	}
	return max(2, len(fmt.Sprint(n)))
}

// snippet writes one position, its source line, and a mark below.
func snippet(b *strings.Builder, p painter, width int, arrow, mark, tone string, at Place) {
	fmt.Fprintf(b, "%*s%s %s\n", width, "", p.paint(blue, arrow), at.Pos)
	if at.Source == "" {
		if at.Say != "" {
			fmt.Fprintf(b, "%*s %s %s\n", width, "", p.paint(blue, "="), at.Say)
		}
		return
	}
	bar := p.paint(blue, "|")
	fmt.Fprintf(b, "%*s %s\n", width, "", bar)
	fmt.Fprintf(b, "%s %s %s\n", p.paint(blue, fmt.Sprintf("%*d", width, at.Pos.Line)), bar, at.Source)
	// Stay within the line.
	marks := strings.Repeat(mark,
		max(1, min(at.End-at.Pos.Column, utf8.RuneCountInString(at.Source)-at.Pos.Column+1)))
	if at.Say != "" {
		marks += " " + at.Say
	}
	fmt.Fprintf(b, "%*s %s %s%s\n", width, "", bar, indent(at.Source, at.Pos.Column),
		p.paint(tone, marks))
}

// indent returns white space up to column of line. It keeps tabs, whatever their width is.
func indent(line string, column int) string {
	var b strings.Builder
	for i, r := range []rune(line) {
		if i >= column-1 {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}
