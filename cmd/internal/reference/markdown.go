package reference

import (
	"fmt"
	"io"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// markdown is a page of docs/.
type markdown struct {
	w     io.Writer
	items bool // the last element was an item
}

func (m *markdown) gap() {
	if m.items {
		fmt.Fprintln(m.w)
	}
	m.items = false
}

func (m *markdown) section(level int, title string) {
	m.gap()
	fmt.Fprintf(m.w, "%s %s\n\n", strings.Repeat("#", level), title)
}

func (m *markdown) text(s string) {
	m.gap()
	fmt.Fprintf(m.w, "%s\n\n", s)
}

func (m *markdown) code(s string) {
	m.gap()
	fmt.Fprintf(m.w, "```hcl\n%s\n```\n\n", s)
}

func (m *markdown) item(term, s string) {
	m.items = true
	fmt.Fprintf(m.w, "- %s: %s\n", term, s)
}

func (m *markdown) see(where string) { m.item("more", "["+where+"]("+where+")") }

const manifestHead = `<!-- Written from hcl/manifest/schema*.go by ` + "`go test ./cmd/internal/reference -update`" + `. Edit those. -->

`

// ManifestPage writes docs/manifest.md.
func ManifestPage(w io.Writer) {
	io.WriteString(w, manifestHead)
	p := &markdown{w: w}
	p.section(1, "kernels.hcl: blocks and attributes")
	p.text("`kbuild explain NAME` prints the entry of a block or attribute. How values, device code, device links, flags, generated files " +
		"and modules work is in [language.md](language.md).")
	p.text("`kbuild schema` prints a JSON schema (draft 2020-12) of the structure in the JSON syntax of HCL, as `hcl2json kernels.hcl` " +
		"writes it: for editors of files in that form, and for tools that write or check manifests. kbuild reads the native syntax alone.")
	Manifest(p)
	p.gap()
}

// Manifest writes every block and every attribute once.
func Manifest(p page) {
	for _, s := range subjects(entries("", manifest.Schema())) {
		level := 3
		if s.attribute == nil {
			level = 2
		}
		p.section(level, s.short())
		s.write(p)
	}
}
