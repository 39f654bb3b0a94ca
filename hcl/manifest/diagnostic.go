package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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
	reported map[Diagnostic]bool
	compared int // number of names compared for suggestions
}

// add adds a diagnostic once: a mistake in `defaults` or in a matrix is found repeatedly.
func (l *reports) add(d Diagnostic) {
	if l.reported[d] {
		return
	}
	l.reported[d] = true
	l.diags = append(l.diags, d)
}

// addQuoted adds a diagnostic whose source lines are not set.
func (l *reports) addQuoted(d Diagnostic) {
	ds := Diagnostics{d}
	l.project.Quote(ds)
	l.add(ds[0])
}

// errorAt reports an error. It returns false, as checks that fail do.
func (l *reports) errorAt(r hcl.Range, detail, format string, args ...any) bool {
	l.add(l.at(r, detail, fmt.Sprintf(format, args...)))
	return false
}

// bothAt reports two ranges that conflict. It returns false, as errorAt does.
func (l *reports) bothAt(r, also hcl.Range, say, detail, format string, args ...any) bool {
	d := l.at(r, detail, fmt.Sprintf(format, args...))
	if also != r {
		second := l.at(also, "", "")
		d.Also = Place{Pos: second.Pos, End: second.End, Source: second.Source, Say: say}
	}
	l.add(d)
	return false
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
		if f := strings.Fields(d.Source); len(f) == 2 && f[0] == importKind &&
			summary == "invalid block definition" {
			d.Detail = "Write " + strings.Join(f, " ") + " {}." // an import without braces
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
	width := 1 // of the line numbers
	if n := max(d.Pos.Line, d.Also.Pos.Line); n > 0 {
		width = max(2, len(fmt.Sprint(n)))
	}
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
	indent := []rune(at.Source)
	indent = indent[:max(0, min(at.Pos.Column-1, len(indent)))]
	for i, r := range indent {
		if r != '\t' { // a tab stays, however wide it is
			indent[i] = ' '
		}
	}
	fmt.Fprintf(b, "%*s %s %s%s\n", width, "", bar, string(indent), p.paint(tone, marks))
}

// synonyms maps words of other build tools to those of a manifest.
var synonyms = map[string]string{
	"srcs": "sources", "src": "sources", "files": "sources",
	"dependencies": "deps", "link": "deps", "link_libraries": "deps", "depends": "deps",
	"include_dirs": "includes", "include_directories": "includes", "hdrs": "includes",
	"inherits":    "defaults",
	"definitions": "defines", "copts": "flags", "cflags": "flags", "options": "flags",
	"nvcc_flags": "flags",
	"arch":       "code", "archs": "code", "architectures": "code", "cuda_architectures": "code",
	"cxx_std": "std", "standard": "std", "regs": "max_registers", "maxrregcount": "max_registers",
	"args": "command", "cmd": "command", "optimize": "opt", "optimization": "opt",
	"use_fast_math":  "fast_math",
	"static_library": "library", "shared_library": "library", "binary": "executable",
	"program":        "executable",
	"custom_command": "generate", "target": "executable", "local": "locals", "vars": "variable",
}

// Nearest returns the known name closest to a misspelt one; "" if none is close.
func Nearest(name string, known []string) string {
	known = slices.Sorted(slices.Values(known))
	if s := synonyms[name]; s != "" && slices.Contains(known, s) {
		return s
	}
	best, limit := "", max(1, (utf8.RuneCountInString(name)+2)/4)
	for _, k := range known {
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d <= limit && d < len(name) {
			best, limit = k, d-1
		}
	}
	return best
}

// comparisons limits the names that one load compares for suggestions. If the folder of 16,000
// sources was renamed, each of them is missing, and comparing all pairs would take minutes.
const comparisons = 200_000

// nearest is Nearest within the limit of comparisons.
func (l *reports) nearest(name string, known []string) string {
	if l.compared += len(known); l.compared > comparisons {
		return ""
	}
	return Nearest(name, known)
}

// didYouMean is didYouMean within that limit.
func (l *reports) didYouMean(name string, known []string) string {
	return meant(l.nearest(name, known))
}

// didYouMean returns the end of a summary: `; did you mean "solver"?`, or "".
func didYouMean(name string, known []string) string {
	return meant(Nearest(name, known))
}

// unknown reports a name that is none of the known ones. format is followed by a suggestion.
func (l *reports) unknown(
	rng hcl.Range, what, name string, known []string, format string, args ...any,
) {
	l.errorAt(rng, knownNames(what, known), format+"%s", append(args, l.didYouMean(name, known))...)
}

func meant(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", name)
}

// knownNames returns a help line with the known names, if they are few.
func knownNames(what string, known []string) string {
	if len(known) == 0 {
		return "There is no " + what + " in this manifest."
	}
	if len(known) > 12 {
		return ""
	}
	return allNames(known)
}

// allNames returns a help line with all known names.
func allNames(known []string) string {
	return "Known: " + strings.Join(slices.Sorted(slices.Values(known)), ", ") + "."
}

// distance counts insertions, deletions, substitutions and swaps of neighbors (optimal string
// alignment), since swaps are common typing errors.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	d := make([][]int, len(x)+1)
	for i := range d {
		d[i] = make([]int, len(y)+1)
		for j := range d[i] {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
			case x[i-1] == y[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j], d[i][j-1], d[i-1][j-1])
				if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
					d[i][j] = min(d[i][j], 1+d[i-2][j-2])
				}
			}
		}
	}
	return d[len(x)][len(y)]
}
