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

// Severity says whether a diagnostic stops the build.
type Severity int

const (
	Error   Severity = iota // the build cannot start
	Warning                 // it can, and the user should know
	Note                    // nothing is wrong
)

func (s Severity) String() string { return [...]string{"error", "warning", "note"}[s] }

// Diagnostic says what is wrong, where, and what to do. Only Summary must be set; a zero Pos means
// that no file is at fault (a command line option, the environment). Those of manifests, of plans
// and of builds are all of this type: it goes as it is from who finds a mistake to the terminal and
// the event stream.
type Diagnostic struct {
	Severity Severity
	Summary  string // what is wrong, one line
	Detail   string // what to do, or more about it; may have several lines
	Pos      Pos
	End      int    // column behind the last one of the fault, on the line of Pos; 0 is one column
	Source   string // the line of Pos, without its newline
	Also     Place  // the second position, where two sides disagree
}

// Place is a further position of a diagnostic.
type Place struct {
	Pos    Pos
	End    int
	Source string
	Say    string // what is there
}

// Error makes a single diagnostic usable as an error: "kernels.hcl:3:1: no library named ...".
func (d Diagnostic) Error() string {
	if d.Pos.Line == 0 {
		return d.Summary
	}
	return d.Pos.String() + ": " + d.Summary
}

// String is file:line:column.
func (p Pos) String() string {
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Diagnostics are all that one run found, in the order of the files.
type Diagnostics []Diagnostic

// HasErrors reports whether one of them is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

func (ds Diagnostics) sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}

// Quote fills in the source lines of diagnostics at positions that Load gave out.
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
	source = p.line(pos.File, pos.Line)
	return source, wordEnd(source, pos.Column)
}

// wordEnd gives the column behind the string, reference or word that starts at column.
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
	for i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]) || strings.ContainsRune("_-.", runes[i])) {
		i++
	}
	return max(i+1, column+1)
}

// said tells diagnostics apart.
type said struct {
	pos             Pos
	summary, detail string
}

// add keeps each diagnostic once: a mistake in `defaults` or in a matrix is found many times.
func (l *loader) add(d Diagnostic) {
	key := said{d.Pos, d.Summary, d.Detail}
	if l.said[key] {
		return
	}
	if len(l.diags) >= maxDiagnostics {
		l.dropped++
		return
	}
	l.said[key] = true
	l.diags = append(l.diags, d)
}

// errorAt reports an error at a range of a manifest.
func (l *loader) errorAt(r hcl.Range, detail, format string, args ...any) {
	l.add(l.at(r, detail, fmt.Sprintf(format, args...)))
}

// warnAt reports a warning at a range of a manifest.
func (l *loader) warnAt(r hcl.Range, detail, format string, args ...any) {
	d := l.at(r, detail, fmt.Sprintf(format, args...))
	d.Severity = Warning
	l.add(d)
}

// bothAt reports two ranges that disagree.
func (l *loader) bothAt(r, also hcl.Range, say, detail, format string, args ...any) {
	d := l.at(r, detail, fmt.Sprintf(format, args...))
	if also != r {
		second := l.at(also, "", "")
		d.Also = Place{Pos: second.Pos, End: second.End, Source: second.Source, Say: say}
	}
	l.add(d)
}

// errorf reports an error that no file is to blame for.
func (l *loader) errorf(detail, format string, args ...any) {
	l.add(Diagnostic{Summary: fmt.Sprintf(format, args...), Detail: detail})
}

func (l *loader) at(r hcl.Range, detail, summary string) Diagnostic {
	d := Diagnostic{Summary: summary, Detail: detail, Pos: position(r)}
	d.Source = l.project.line(r.Filename, r.Start.Line)
	d.End = r.End.Column
	if r.End.Line != r.Start.Line {
		d.End = wordEnd(d.Source, r.Start.Column)
	}
	return d
}

func position(r hcl.Range) Pos {
	return Pos{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
}

// addHCL takes over what the HCL library found.
func (l *loader) addHCL(diags hcl.Diagnostics) {
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

// inOurWords puts the reason of a failed function call first; HCL hides it behind "Invalid function
// argument".
func inOurWords(h *hcl.Diagnostic) (summary, detail string) {
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](h); ok && call.FunctionCallError() != nil {
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

// lines finds the lines of a text: a diagnostic shows its line, and there can be as many
// diagnostics as lines.
type lines struct {
	text   []byte
	starts []int
}

func newLines(text []byte) *lines {
	l := &lines{text: text, starts: []int{0}}
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return l
		}
		at += n + 1
		l.starts = append(l.starts, at)
	}
}

// at gives line n, counted from 1, without its newline; "" for one that is too long to be shown.
func (l *lines) at(n int) string {
	if n < 1 || n > len(l.starts) {
		return ""
	}
	line, _, _ := bytes.Cut(l.text[l.starts[n-1]:], []byte("\n"))
	if len(line) > tooLong {
		return ""
	}
	return string(bytes.TrimSuffix(line, []byte("\r")))
}

// line gives a line of a manifest.
func (p *Project) line(file string, n int) string {
	if p.lines[file] == nil {
		text, ok := p.sources[file]
		if !ok {
			text, _ = regular.Read(filepath.Join(p.Root, filepath.FromSlash(file)))
		}
		if p.lines == nil {
			p.lines = map[string]*lines{}
		}
		p.lines[file] = newLines(text)
	}
	return p.lines[file].at(n)
}
