package reference

import (
	"fmt"
	"io"
	"strings"
)

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

func (t *terminal) section(_ int, title string) { t.text(title) }

func (t *terminal) text(s string) {
	t.gap()
	fmt.Fprintln(t.w, strings.Join(wrap(s, columns), "\n"))
}

func (t *terminal) code(s string) {
	t.gap()
	for line := range strings.SplitSeq(s, "\n") {
		fmt.Fprintln(t.w, strings.TrimRight("    "+line, " "))
	}
}

// item writes a term and its description. The description of a long term starts on the next line.
func (t *terminal) item(term, s string) {
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

func (t *terminal) see(where string) { t.item("more", "docs/"+where) }

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
