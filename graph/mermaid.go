package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteMermaid draws the graph as a Mermaid flowchart, for pages that render it (README files,
// issues). Thick edges bring LTO-IR to an LTO link; dotted ones are order-only or cannot be
// optimised by the link.
func (g *Graph) WriteMermaid(w io.Writer, opts DrawOptions) error {
	d := g.draw(opts)
	b := bufio.NewWriter(w)
	b.WriteString(d.suggestion("%%"))
	fmt.Fprintf(b, "flowchart LR\n")
	for _, c := range d.clusters {
		title := c.label
		if say := details(c.modes, c.archs); say != "" {
			title += " · " + say
		}
		fmt.Fprintf(b, "  subgraph c%d[\"%s\"]\n", c.index, mermaidText(title))
		for _, n := range c.nodes {
			mermaidNode(b, "    ", n)
		}
		fmt.Fprintf(b, "  end\n")
	}
	for _, n := range d.loose {
		mermaidNode(b, "  ", n)
	}
	for _, e := range d.bundled() {
		mermaidEdge(b, d, e)
	}
	classes := d.legend
	if d.small {
		classes = append(classes, look{kind: drawSource})
	}
	for _, l := range classes {
		p, dashes := l.paint(), ""
		if strings.HasSuffix(p.style, "dashed") {
			dashes = ",stroke-dasharray:4"
		}
		fmt.Fprintf(b, "  classDef %s fill:%s,stroke:%s,color:%s,stroke-width:%gpx%s\n",
			l.mermaidClass(), p.fill, p.rim, p.ink, p.width, dashes)
	}
	return b.Flush()
}

// mermaidNode writes one node; its shape repeats the meaning of its colour.
func mermaidNode(b *bufio.Writer, indent string, n *drawNode) {
	title, sub := n.lines()
	text := mermaidText(title)
	if sub != "" {
		text += "<br/>" + mermaidText(sub)
	}
	left, right := "[", "]"
	switch info := n.kind.Info(); {
	case info.Lane == laneSource:
		left, right = ">", "]"
	case info.Lane == lanePrebuilt:
		left, right = "[(", ")]"
	case info.optimises():
		left, right = "{{", "}}"
	case info.Lane == laneLink:
		left, right = "([", "])"
	}
	fmt.Fprintf(b, "%s%s%s\"%s\"%s:::%s\n", indent, n.id, left, text, right, n.mermaidClass())
}

func mermaidEdge(b *bufio.Writer, d *drawing, e *drawEdge) {
	arrow := "-->"
	switch {
	case e.opaque && !e.lto:
		arrow = "-.->"
	case e.lto:
		arrow = "==>"
	case e.orderOnly:
		arrow = "-.->"
	}
	if say := e.say(d); say != "" {
		arrow += fmt.Sprintf("|\"%s\"|", mermaidText(say))
	}
	from, to := e.from.id, e.to.id
	if e.tail != nil {
		from = fmt.Sprintf("c%d", e.tail.index)
	}
	if e.head != nil {
		to = fmt.Sprintf("c%d", e.head.index)
	}
	fmt.Fprintf(b, "  %s %s %s\n", from, arrow, to)
}

// mermaidClass returns the name of a style. Mermaid accepts no hyphens in it, and the prefix avoids
// its keywords.
func (l look) mermaidClass() string {
	s := "k_" + strings.ReplaceAll(string(l.kind), "-", "_")
	if l.lto {
		s += "_lto"
	}
	return s
}

var mermaidEscapes = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;", "&", "#amp;")

// mermaidText escapes a quoted label; Mermaid's own entities start with '#'.
func mermaidText(s string) string { return mermaidEscapes.Replace(printable(s)) }
