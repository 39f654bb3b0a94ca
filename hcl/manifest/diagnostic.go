package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Severity determines whether a diagnostic stops the build.
type Severity int

const (
	Error   Severity = iota // the build cannot start
	Warning                 // the build continues
	Note                    // for information
)

func (s Severity) String() string { return [...]string{"error", "warning", "note"}[s] }

// Diagnostic describes a problem, its position and what to do. Only Summary must be set; a zero Pos
// means that no file is at fault (a command line option, the environment). Manifests, plans and
// builds all use this type, from the code that finds a problem to the terminal and the event
// stream.
type Diagnostic struct {
	Severity Severity
	Summary  string // what is wrong, one line
	Detail   string // what to do, or more about it; may have several lines
	Pos      Pos
	// Column after the last one of the range, on the line of Pos; 0 means one column.
	End    int
	Source string // the line of Pos, without its newline
	Also   Place  // the second position of a conflict
}

// Place is a further position of a diagnostic.
type Place struct {
	Pos    Pos
	End    int
	Source string
	Say    string // label of this position
}

// Error returns the diagnostic in one line: "kernels.hcl:3:1: no library named ...".
func (d Diagnostic) Error() string {
	if d.Pos.Line == 0 {
		return d.Summary
	}
	return d.Pos.String() + ": " + d.Summary
}

// String returns file:line:column.
func (p Pos) String() string {
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Diagnostics are all diagnostics of one run, in the order of the files.
type Diagnostics []Diagnostic

// HasErrors reports whether one of the diagnostics is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

func (ds Diagnostics) sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}

// Quote sets the source lines of diagnostics whose positions are from this Project.
func (p *Project) Quote(ds Diagnostics) {
	for i := range ds {
		d := &ds[i]
		d.Source, d.End = p.quote(d.Pos)
		d.Also.Source, d.Also.End = p.quote(d.Also.Pos)
	}
}

func (p *Project) quote(pos Pos) (source string, end int) {
	if pos.Line == 0 {
		return "", 0
	}
	text, ok := p.sources[pos.File]
	if !ok {
		text, _ = regular.Read(filepath.Join(p.Root, filepath.FromSlash(pos.File)))
	}
	at := 0
	for range pos.Line - 1 {
		n := bytes.IndexByte(text[at:], '\n') + 1
		if at += n; n == 0 {
			return "", wordEnd("", pos.Column)
		}
	}
	source = lineAt(text, at)
	return source, wordEnd(source, pos.Column)
}

// wordEnd returns the column after the string, reference or word that starts at column.
func wordEnd(line string, column int) int {
	runes := []rune(line)
	i := column - 1
	if i < 0 || i >= len(runes) {
		return column + 1
	}
	if runes[i] == '"' {
		for i++; i < len(runes) && runes[i] != '"'; i++ {
		}
		return min(i, len(runes)) + 2
	}
	for i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]) ||
		strings.ContainsRune("_-.", runes[i])) {
		i++
	}
	return max(i+1, column+1)
}

// reports collects the diagnostics of a load.
type reports struct {
	project  *Project
	diags    Diagnostics
	reported map[reported]bool // for reporting each diagnostic once
	dropped  int               // number of diagnostics beyond maxDiagnostics
	compared int               // number of names compared for suggestions
}

// reported is the key for removing duplicate diagnostics.
type reported struct {
	pos             Pos
	summary, detail string
}

// add adds a diagnostic once: a mistake in `defaults` or in a matrix is found repeatedly.
func (l *reports) add(d Diagnostic) {
	key := reported{d.Pos, d.Summary, d.Detail}
	if l.reported[key] {
		return
	}
	if len(l.diags) >= maxDiagnostics {
		l.dropped++
		return
	}
	l.reported[key] = true
	l.diags = append(l.diags, d)
}

// addQuoted adds a diagnostic whose source lines are not set.
func (l *reports) addQuoted(d Diagnostic) {
	ds := Diagnostics{d}
	l.project.Quote(ds)
	l.add(ds[0])
}

func (l *reports) errorAt(r hcl.Range, detail, format string, args ...any) {
	l.add(l.at(r, detail, fmt.Sprintf(format, args...)))
}

func (l *reports) warnAt(r hcl.Range, detail, format string, args ...any) {
	d := l.at(r, detail, fmt.Sprintf(format, args...))
	d.Severity = Warning
	l.add(d)
}

// bothAt reports two ranges that conflict.
func (l *reports) bothAt(r, also hcl.Range, say, detail, format string, args ...any) {
	d := l.at(r, detail, fmt.Sprintf(format, args...))
	if also != r {
		second := l.at(also, "", "")
		d.Also = Place{Pos: second.Pos, End: second.End, Source: second.Source, Say: say}
	}
	l.add(d)
}

// errorf reports an error without a position.
func (l *reports) errorf(detail, format string, args ...any) {
	l.add(Diagnostic{Summary: fmt.Sprintf(format, args...), Detail: detail})
}

func (l *reports) at(r hcl.Range, detail, summary string) Diagnostic {
	d := Diagnostic{Summary: summary, Detail: detail, Pos: position(r)}
	text := l.project.sources[r.Filename]
	d.Source = lineAt(text, min(r.Start.Byte, len(text)))
	d.End = r.End.Column
	if r.End.Line != r.Start.Line {
		d.End = wordEnd(d.Source, r.Start.Column)
	}
	return d
}

func position(r hcl.Range) Pos {
	return Pos{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
}

// addHCL adds diagnostics of the HCL library.
func (l *reports) addHCL(diags hcl.Diagnostics) {
	for _, h := range diags {
		summary, detail := inOurWords(h)
		d := Diagnostic{Summary: summary, Detail: detail}
		if h.Subject != nil {
			d = l.at(*h.Subject, detail, summary)
		}
		if help := helpImport(d.Source); help != "" && summary == "invalid block definition" {
			d.Detail = help
		}
		if h.Severity == hcl.DiagWarning {
			d.Severity = Warning
		}
		l.add(d)
	}
}

// inOurWords returns the summary and detail of an HCL diagnostic. For a failed function call it
// returns the reason, which HCL hides behind "Invalid function argument".
func inOurWords(h *hcl.Diagnostic) (summary, detail string) {
	call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](h)
	if ok && call.FunctionCallError() != nil {
		name, _, _ := strings.Cut(call.CalledFunctionName(), "\x00")
		return name + "(): " + call.FunctionCallError().Error(), ""
	}
	if why, ok := strings.CutPrefix(h.Detail, "Error during operation: "); ok {
		return strings.TrimSuffix(why, "."), ""
	}
	if summary, detail, ok := unknownKey(h); ok {
		return summary, detail
	}
	summary = h.Summary
	if summary != "" {
		summary = strings.ToLower(summary[:1]) + summary[1:]
	}
	return summary, h.Detail
}

// lineAt returns the line of a text around an offset, without its newline; "" if it is too long to
// show.
func lineAt(text []byte, at int) string {
	from := max(0, at-tooLong)
	start := from + bytes.LastIndexByte(text[from:at], '\n') + 1
	line, _, _ := bytes.Cut(text[start:], []byte("\n"))
	if len(line) > tooLong || start == from && from > 0 {
		return ""
	}
	return string(bytes.TrimSuffix(line, []byte("\r")))
}
