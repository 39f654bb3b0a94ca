package graph

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
)

// The palette is Okabe and Ito's, which colour-blind readers can distinguish. Tints with a dark rim
// print well. Every node also names its kind, so no meaning depends on colour alone. The only full
// colour is the LTO device link, where a build spends its time.
type paint struct {
	fill, rim, ink string
	width          float64
	style          string
}

// paints holds the colours of lanes.
var paints = map[Lane]paint{
	laneGenerate: {fill: "#fdeac6", rim: "#b87a00", width: 1.2},
	laneDevice:   {fill: "#d6eaf8", rim: "#0072b2", width: 1.2},
	laneHost:     {fill: "#eceff1", rim: "#78909c", width: 1.2},
	lanePack:     {fill: "#e4e4f4", rim: "#5c5ca8", width: 1.2},
	laneModule:   {fill: "#f4dfeb", rim: "#a8487e", width: 1.2},
	laneArchive:  {fill: "#faf3c0", rim: "#a89200", width: 1.2},
	laneDevLink:  {fill: "#fbe0cf", rim: "#d55e00", width: 1.6},
	laneLink:     {fill: "#cdeee2", rim: "#00805c", width: 1.8},
	laneTest:     {fill: "#e4f0d0", rim: "#5b7f1f", width: 1.2},
	laneSource:   {fill: "#ffffff", rim: "#b0b7c0", ink: "#4b5563", width: 0.8, style: "filled"},
	lanePrebuilt: {fill: "#ffffff", rim: "#1f2937", width: 1.6, style: "filled"},
}

// The first kinds of a lane have its colour in three tints, and further ones repeat them in other
// shapes: each kind looks different.
var looks = []string{"filled,rounded", "filled", "filled,rounded,dashed"}

// paintByKind returns the paint of each kind.
var paintByKind = sync.OnceValue(func() map[Kind]paint {
	all, inLane := map[Kind]paint{}, map[Lane]int{}
	for _, k := range kinds {
		p, i := paints[k.Lane], inLane[k.Lane]
		p.fill = tint(p.fill, p.rim, 18*(i%3))
		p.ink, p.style = cmp.Or(p.ink, "#1f2937"), cmp.Or(p.style, looks[i/3%len(looks)])
		all[k.Kind] = p
		inLane[k.Lane]++
	}
	return all
})

func (l look) paint() paint {
	if l.lto {
		return paint{fill: ltoInk, rim: "#7a3100", ink: "#ffffff", width: 2.4, style: looks[0]}
	}
	return paintByKind()[l.kind]
}

// tint mixes percent of a colour into another, both "#rrggbb".
func tint(of, with string, percent int) string {
	var a, b [3]int
	fmt.Sscanf(of, "#%02x%02x%02x", &a[0], &a[1], &a[2])
	fmt.Sscanf(with, "#%02x%02x%02x", &b[0], &b[1], &b[2])
	for i := range a {
		a[i] += (b[i] - a[i]) * percent / 100
	}
	return fmt.Sprintf("#%02x%02x%02x", a[0], a[1], a[2])
}

const (
	ltoInk    = "#c24e00"
	opaqueInk = "#1f2937"
	plainInk  = "#9aa3ae"
	mutedInk  = "#6b7280"
)

// WriteDOT draws the graph for Graphviz. Targets are clusters with their mode and codes; actions
// are nodes; an edge is an artifact that one action writes and another reads. In an LTO link, solid
// edges bring LTO-IR and dashed ones bring code that the link cannot optimise.
func (g *Graph) WriteDOT(w io.Writer, opts DrawOptions) error {
	d := g.draw(opts)
	b := bufio.NewWriter(w)
	b.WriteString(d.suggestion("//"))
	fmt.Fprintf(b, "digraph kbuild {\n")
	fmt.Fprintf(b, "  graph [rankdir=LR, fontname=\"Helvetica\", fontsize=11, fontcolor=%q, bgcolor=\"#ffffff\",\n", mutedInk)
	fmt.Fprintf(b, "    compound=true, nodesep=0.16, ranksep=0.6, pad=0.3, labelloc=b, labeljust=l, tooltip=\"kbuild\",\n")
	fmt.Fprintf(b, "    label=<%s>];\n", dotLegend(d))
	fmt.Fprintf(b, "  node [shape=box, fontname=\"Helvetica\", fontsize=11, margin=\"0.10,0.04\", height=0.3];\n")
	fmt.Fprintf(b, "  edge [fontname=\"Helvetica\", fontsize=8, fontcolor=%q, color=%q, arrowsize=0.6, penwidth=1.0];\n", mutedInk, plainInk)
	for _, c := range d.clusters {
		dotCluster(b, c)
	}
	for _, n := range d.loose {
		dotNode(b, "  ", n)
	}
	for _, e := range d.bundled() {
		dotEdge(b, d, e)
	}
	fmt.Fprintf(b, "}\n")
	return b.Flush()
}

// dotLegend returns a row of swatches under the picture. It is the label of the graph, so that it
// never takes part in the layout.
func dotLegend(d *drawing) string {
	var s strings.Builder
	s.WriteString(`<table border="0" cellborder="0" cellspacing="0" cellpadding="0"><tr><td align="left">`)
	s.WriteString(`<table border="0" cellborder="0" cellspacing="5" cellpadding="3"><tr>`)
	if d.Targets || len(d.legend) == 0 { // target nodes name their kind
		s.WriteString(`<td></td>`) // dot rejects empty rows
	} else {
		for _, l := range d.legend {
			p, style, lto := l.paint(), "", ""
			if p.style == looks[2] {
				style = ` style="dashed"`
			}
			if l.lto {
				lto = ", LTO"
			}
			fmt.Fprintf(&s, `<td border="1"%s bgcolor="%s" color="%s"><font point-size="9" color="%s"> %s%s </font></td>`, style, p.fill, p.rim, p.ink, l.kind, lto)
		}
	}
	fmt.Fprintf(&s, `</tr></table></td></tr><tr><td align="left" cellpadding="6">%s</td></tr></table>`, dotText(d.caption()))
	return s.String()
}

func dotCluster(b *bufio.Writer, c *drawCluster) {
	label := fmt.Sprintf(`<b>%s</b>`, dotText(elide(c.label, 48)))
	if say := details(c.modes, c.archs); say != "" {
		label += fmt.Sprintf(`  <font point-size="9" color="%s">%s</font>`, mutedInk, dotText(say))
	}
	fmt.Fprintf(b, "  subgraph cluster_%d {\n", c.index)
	fmt.Fprintf(b, "    graph [label=<%s>, style=\"rounded,filled\", color=\"#d5dae0\", fillcolor=\"#f8f9fb\",\n", label)
	fmt.Fprintf(b, "      fontcolor=\"#1f2937\", fontsize=12, labelloc=t, labeljust=l, margin=10, tooltip=%s];\n", dotString(c.label))
	for _, n := range c.nodes {
		dotNode(b, "    ", n)
	}
	fmt.Fprintf(b, "  }\n")
}

func dotNode(b *bufio.Writer, indent string, n *drawNode) {
	p := n.paint()
	fmt.Fprintf(b, "%s%s [label=<%s>, style=%q, fillcolor=%q, color=%q, fontcolor=%q, penwidth=%g", indent, n.id,
		dotLabel(n, p), p.style, p.fill, p.rim, p.ink, p.width)
	switch n.kind {
	case drawSource:
		fmt.Fprintf(b, ", shape=note, fontsize=9")
	case drawPrebuilt:
		fmt.Fprintf(b, ", shape=box3d, margin=\"0.14,0.09\"")
	}
	fmt.Fprintf(b, ", tooltip=%s];\n", dotString(cmp.Or(n.file, strings.TrimSpace(string(n.kind)+" "+n.title+" · "+n.target))))
}

func dotLabel(n *drawNode, p paint) string {
	title, sub := n.lines()
	if n.kind == drawSource {
		return dotText(title)
	}
	if sub == "" { // dot rejects an empty <font>
		return "<b>" + dotText(title) + "</b>"
	}
	ink := "#4b5563"
	if p.ink == "#ffffff" {
		ink = p.ink
	}
	return fmt.Sprintf(`<table border="0" cellborder="0" cellspacing="0" cellpadding="1"><tr><td><b>%s</b></td></tr>`+
		`<tr><td><font point-size="9" color="%s">%s</font></td></tr></table>`, dotText(title), ink, dotText(sub))
}

func dotEdge(b *bufio.Writer, d *drawing, e *drawEdge) {
	fmt.Fprintf(b, "  %s -> %s [tooltip=%s", e.from.id, e.to.id, dotString(e.text(4)))
	if say := e.say(d); say != "" {
		fmt.Fprintf(b, ", label=<%s>", dotText(say))
	}
	switch {
	case e.opaque && !e.lto:
		fmt.Fprintf(b, ", style=dashed, color=%q, penwidth=1.4", opaqueInk)
	case e.opaque:
		fmt.Fprintf(b, ", style=dashed, color=%q, penwidth=2.0", ltoInk)
	case e.lto:
		fmt.Fprintf(b, ", color=%q, penwidth=2.0", ltoInk)
	case e.orderOnly:
		fmt.Fprintf(b, ", style=dotted, arrowhead=vee")
	}
	if e.tail != nil {
		fmt.Fprintf(b, ", ltail=cluster_%d", e.tail.index)
	}
	if e.head != nil {
		fmt.Fprintf(b, ", lhead=cluster_%d", e.head.index)
	}
	fmt.Fprintf(b, "];\n")
}

var dotEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", `\`, "&#92;&#8203;")

// dotText escapes an HTML-like label. Graphviz decodes entities first and then expands \N to the
// name of the node, so a zero-width space follows each backslash.
func dotText(s string) string { return dotEscapes.Replace(printable(s)) }

var dotQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// dotString quotes an attribute. Graphviz expands entities and backslashes in it, so both are
// escaped.
func dotString(s string) string {
	return `"` + dotQuotes.Replace(strings.ReplaceAll(printable(s), "&", "&amp;")) + `"`
}

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
