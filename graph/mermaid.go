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
	if s := d.suggestion(opts); s != "" {
		fmt.Fprintf(b, "%%%% %s\n", s)
	}
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
	mermaidClasses(b, d)
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
	case info.Lane == LaneLink:
		left, right = "([", "])"
	}
	fmt.Fprintf(b, "%s%s%s\"%s\"%s:::%s\n", indent, n.id, left, text, right, mermaidClass(n.kind, n.lto))
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
func mermaidClass(kind Kind, lto bool) string {
	s := "k_" + strings.ReplaceAll(string(kind), "-", "_")
	if lto {
		s += "_lto"
	}
	return s
}

func mermaidClasses(b *bufio.Writer, d *drawing) {
	write := func(kind Kind, lto bool) {
		p := paintOf(kind, lto)
		dashes := ""
		if strings.HasSuffix(p.style, "dashed") {
			dashes = ",stroke-dasharray:4"
		}
		fmt.Fprintf(b, "  classDef %s fill:%s,stroke:%s,color:%s,stroke-width:%gpx%s\n",
			mermaidClass(kind, lto), p.fill, p.rim, p.ink, p.width, dashes)
	}
	for _, k := range d.kinds {
		if d.has(k, true) {
			write(k, true)
		}
		if d.has(k, false) {
			write(k, false)
		}
	}
	if d.small {
		write(drawSource, false)
	}
}

var mermaidEscapes = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;", "&", "#amp;")

// mermaidText escapes a quoted label; Mermaid's own entities start with '#'.
func mermaidText(s string) string { return mermaidEscapes.Replace(printable(s)) }
