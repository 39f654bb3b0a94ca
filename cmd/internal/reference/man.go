package reference

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/alecthomas/kong"
)

// roff is a man page in the portable man macros.
type roff struct{ w io.Writer }

func (r roff) section(level int, title string) {
	switch level {
	case 1, 2:
		fmt.Fprintf(r.w, ".SH %s\n", quoted(strings.ToUpper(title)))
	default:
		fmt.Fprintf(r.w, ".SS %s\n", quoted(title))
	}
}

func (r roff) text(s string) { fmt.Fprintf(r.w, ".PP\n%s\n", marked(s)) }

func (r roff) code(s string) { fmt.Fprintf(r.w, ".PP\n.RS 4\n.nf\n%s\n.fi\n.RE\n", escaped(s)) }

func (r roff) item(term, s string) { fmt.Fprintf(r.w, ".TP 14\n%s\n%s\n", marked(term), marked(s)) }

func (r roff) see(where string) { r.item("more", "docs/"+where) }

// escaped escapes text so that roff interprets none of it.
func escaped(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// marked sets text in backquotes in bold.
func marked(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			b.WriteString(`\fB` + strings.ReplaceAll(escaped(part), `\&`, "") + `\fP`)
		} else {
			b.WriteString(strings.ReplaceAll(escaped(part), `\&`, ""))
		}
	}
	if s := b.String(); strings.HasPrefix(s, ".") {
		return `\&` + s
	}
	return b.String()
}

func quoted(s string) string { return `"` + strings.ReplaceAll(escaped(s), `"`, `\(dq`) + `"` }

// Man returns the man pages by file name.
func Man(app *kong.Application) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		var command, language bytes.Buffer
		commandMan(&command, app)
		manifestMan(&language)
		_ = yield("kbuild.1", command.Bytes()) && yield("kernels.hcl.5", language.Bytes())
	}
}

func manifestMan(w io.Writer) {
	p := begin(w, "kernels.hcl", "5", "what kbuild builds")
	p.section(1, "description")
	p.text("`kernels.hcl` in the root of a project says which programs, libraries and device code there are, in HCL, as Terraform reads it. " +
		"`kernels.local.hcl` beside it may set variables for one machine. `kbuild explain NAME` prints an entry of this page.")
	Manifest(p)
	p.section(1, "see also")
	fmt.Fprintln(w, ".BR kbuild (1)")
}

func commandMan(w io.Writer, app *kong.Application) {
	p := begin(w, "kbuild", "1", "build multi-architecture GPU programs")
	p.section(1, "synopsis")
	p.text("`kbuild` [OPTION...] [COMMAND] [ARGUMENT...]")
	p.section(1, "description")
	p.text(app.Help)
	Commands(p, app)
	p.section(1, "see also")
	fmt.Fprintln(w, ".BR kernels.hcl (5)")
}

func begin(w io.Writer, name, section, what string) roff {
	fmt.Fprintf(w, ".TH %s %s \"\" kbuild\n.nh\n.ad l\n", strings.ToUpper(name), section)
	p := roff{w}
	p.section(1, "name")
	fmt.Fprintln(w, name+` \- `+what)
	return p
}
