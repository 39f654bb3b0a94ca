package reference

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// roff is a man page in the portable man macros.
type roff struct{ w io.Writer }

func (r roff) Section(level int, title string) {
	switch level {
	case 1, 2:
		fmt.Fprintf(r.w, ".SH %s\n", quoted(strings.ToUpper(title)))
	default:
		fmt.Fprintf(r.w, ".SS %s\n", quoted(title))
	}
}

func (r roff) Text(s string) { fmt.Fprintf(r.w, ".PP\n%s\n", marked(s)) }

func (r roff) Code(s string) {
	fmt.Fprintf(r.w, ".PP\n.RS 4\n.nf\n%s\n.fi\n.RE\n", noRequest(special.Replace(s)))
}

func (r roff) Item(term, s string) { fmt.Fprintf(r.w, ".TP 14\n%s\n%s\n", marked(term), marked(s)) }

func (r roff) See(where string) { r.Item("more", "docs/"+where) }

// special replaces the characters that roff interprets.
var special = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// noRequest returns text of which no line starts with a dot, as requests of roff do.
func noRequest(s string) string {
	return strings.ReplaceAll("\n"+s, "\n.", "\n\\&.")[1:]
}

// marked sets text in backquotes in bold.
func marked(s string) string {
	parts := strings.Split(s, "`")
	for i, part := range parts {
		if parts[i] = special.Replace(part); i%2 == 1 {
			parts[i] = `\fB` + parts[i] + `\fP`
		}
	}
	return noRequest(strings.Join(parts, ""))
}

func quoted(s string) string { return `"` + strings.ReplaceAll(special.Replace(s), `"`, `\(dq`) + `"` }

// Man returns the man pages by file name.
func Man(app *kong.Application) map[string][]byte {
	var command, language bytes.Buffer
	commandMan(&command, app)
	manifestMan(&language)
	return map[string][]byte{"kbuild.1": command.Bytes(), "kernels.hcl.5": language.Bytes()}
}

func manifestMan(w io.Writer) {
	p := begin(w, "kernels.hcl", "5", "what kbuild builds")
	p.Section(1, "description")
	p.Text("`kernels.hcl` in the root of a project says which programs, libraries and device code there are, in HCL, as Terraform reads it. " +
		"`kernels.local.hcl` beside it may set variables for one machine. `kbuild explain NAME` prints an entry of this page.")
	Manifest(p)
	p.Section(1, "see also")
	fmt.Fprintln(w, ".BR kbuild (1)")
}

func commandMan(w io.Writer, app *kong.Application) {
	p := begin(w, "kbuild", "1", "build multi-architecture GPU programs")
	p.Section(1, "synopsis")
	p.Text("`kbuild` [OPTION...] [COMMAND] [ARGUMENT...]")
	p.Section(1, "description")
	p.Text(app.Help)
	Commands(p, app)
	p.Section(1, "see also")
	fmt.Fprintln(w, ".BR kernels.hcl (5)")
}

func begin(w io.Writer, name, section, what string) roff {
	fmt.Fprintf(w, ".TH %s %s \"\" kbuild\n.nh\n.ad l\n", strings.ToUpper(name), section)
	p := roff{w}
	p.Section(1, "name")
	fmt.Fprintln(w, name+` \- `+what)
	return p
}

// Manifest writes every block and every attribute once.
func Manifest(p Page) {
	for _, s := range subjects(entries("", manifest.Schema())) {
		level := 3
		if s.attribute == nil {
			level = 2
		}
		p.Section(level, s.short())
		s.write(p)
	}
}

// terminal is a page with lines of at most 80 columns.
type terminal struct {
	w     io.Writer
	wrote bool // separate paragraphs with a blank line
	items bool // the last element was an item
}

const columns = 80

func (t *terminal) gap() {
	if t.wrote {
		fmt.Fprintln(t.w)
	}
	t.wrote, t.items = true, false
}

func (t *terminal) Section(_ int, title string) { t.Text(title) }

func (t *terminal) Text(s string) {
	t.gap()
	fmt.Fprintln(t.w, strings.Join(wrap(s, columns), "\n"))
}

func (t *terminal) Code(s string) {
	t.gap()
	for line := range strings.SplitSeq(s, "\n") {
		fmt.Fprintln(t.w, strings.TrimRight("    "+line, " "))
	}
}

// item writes a term and its description. The description of a long term starts on the next line.
func (t *terminal) Item(term, s string) {
	const indent = 14
	if !t.items {
		t.gap()
		t.items = true
	}
	lines := wrap(s, columns-indent)
	if len(term)+2 < indent {
		fmt.Fprintf(t.w, "%-*s%s\n", indent, term, lines[0])
		lines = lines[1:]
	} else {
		fmt.Fprintln(t.w, strings.Join(wrap(term, columns), "\n"))
	}
	for _, line := range lines {
		fmt.Fprintf(t.w, "%*s%s\n", indent, "", line)
	}
}

func (t *terminal) See(where string) { t.Item("more", "docs/"+where) }

// wrap breaks s into lines of at most width columns. A longer word gets its own line. Texts are
// ASCII.
func wrap(s string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(s) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
