package graph

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// DrawOptions select what a drawing shows.
type DrawOptions struct {
	Want     []ActionID // draw these and their transitive dependencies; empty draws the whole graph
	Collapse bool       // one node for all actions of one kind in one target
	Targets  bool       // one node for each target
}

// A drawing is the graph reduced to nodes in clusters and edges between them. The renderers (DOT,
// Mermaid, JSON) share it and only write it out.
type drawing struct {
	DrawOptions
	actions  []ActionID     // that the nodes represent, in order
	clusters []*drawCluster // in the order of the manifest
	loose    []*drawNode    // prebuilt libraries, and sources that several targets share
	edges    []*drawEdge    // in the order of consumers, then of what they read
	legend   []look         // of the nodes that are no sources, in the order of the table of kinds

	collapsed bool
	small     bool // small enough for sources and file names
}

// Above smallActions a drawing has no source files and no file names on its edges, which would
// dominate it. Above crowdedNodes a picture is unreadable, and a comment suggests an alternative.
const (
	smallActions = 24
	crowdedNodes = 400
)

// look decides how a node is painted.
type look struct {
	kind Kind
	lto  bool // a device link that optimises
}

type drawCluster struct {
	index        int
	label        string
	modes, archs []string
	nodes        []*drawNode
}

type drawNode struct {
	look
	id      string // "a12" for an action, "g3" for a group, "s0" for a source, "p1" for a prebuilt
	target  string
	cluster *drawCluster // nil if it is in none
	title   string
	file    string // of a source or prebuilt
	modes   []string
	archs   []string
	whole   bool // it represents a target
	actions []ActionID
}

type drawEdge struct {
	from, to   *drawNode
	tail, head *drawCluster // set on a bundle: the edge leaves or enters the whole target
	files      []string
	orderOnly  bool // every file is needed first but not read by declaration
	lto        bool // brings LTO-IR to a link that optimises it
	opaque     bool // brings code that an LTO link cannot optimise: the link is partial
}

// groupKey identifies the actions that one node represents.
type groupKey struct {
	target string
	kind   Kind
	action ActionID
}

func (g *Graph) draw(opts DrawOptions) *drawing {
	d := &drawing{DrawOptions: opts, collapsed: opts.Collapse || opts.Targets}
	for i := range g.Actions {
		d.actions = append(d.actions, ActionID(i))
	}
	if len(opts.Want) > 0 {
		d.actions = g.Closure(opts.Want)
	}
	d.small = !d.collapsed && len(d.actions) <= smallActions

	// Labels of prebuilt files: from the target's outputs, or else from the device links that read
	// them.
	owners, clusters := map[string]string{}, map[string]*drawCluster{}
	for _, a := range g.Actions {
		maps.Copy(owners, a.Link().Owners)
	}
	for _, t := range g.Targets {
		clusters[t.Label] = &drawCluster{label: t.Label}
		d.clusters = append(d.clusters, clusters[t.Label])
		for _, file := range t.Outputs {
			if t.Kind == "prebuilt" {
				owners[file] = t.Label
			}
		}
	}

	// Slices that device links of several targets read belong to none of them.
	reader, shared := map[ActionID]string{}, map[ActionID]bool{}
	for _, id := range d.actions {
		target := g.Actions[id].Target
		for _, dep := range g.Deps(id) {
			if kind := g.Actions[dep].Kind; opts.Targets || kind != Slice && kind != Unbundle {
				continue
			}
			if was, ok := reader[dep]; ok && was != target {
				shared[dep] = true
			}
			reader[dep] = target
		}
	}

	node, groups := map[ActionID]*drawNode{}, map[groupKey]*drawNode{}
	for _, id := range d.actions {
		a := g.Actions[id]
		key := groupKey{target: a.Target, kind: a.Kind}
		if shared[id] {
			key.target = ""
		}
		if opts.Targets {
			key.kind = ""
		} else if !opts.Collapse {
			key.action = id + 1
		}
		n := groups[key]
		if n == nil {
			n = &drawNode{id: fmt.Sprintf("g%d", len(groups)), look: look{kind: a.Kind}, target: key.target, title: a.Name, whole: opts.Targets}
			if n.whole {
				n.title = a.Target
			} else if !opts.Collapse { // the label of the target is above the node
				n.id, n.title = fmt.Sprintf("a%d", id), strings.TrimPrefix(a.Name, "obj/"+a.Target+"/")
			}
			if n.cluster = clusters[key.target]; n.whole || n.cluster == nil {
				n.cluster, d.loose = nil, append(d.loose, n)
			} else {
				n.cluster.nodes = append(n.cluster.nodes, n)
			}
			groups[key] = n
		}
		node[id], n.actions = n, append(n.actions, id)
		n.modes, n.lto = union(n.modes, a.Mode), n.lto || a.Link().LTO
		if n.whole && !a.Intermediate {
			n.kind = a.Kind // of the last one, which writes the target's output
		}
		if !n.whole || !a.Intermediate {
			n.archs = union(n.archs, a.Archs...)
		}
		if c := n.cluster; c != nil {
			if c.modes = union(c.modes, a.Mode); !a.Intermediate {
				c.archs = union(c.archs, a.Archs...)
			}
		}
	}

	files := map[string]*drawNode{} // sources and prebuilts
	edges := map[[2]*drawNode]*drawEdge{}
	type carried struct {
		edge *drawEdge
		file string
	}
	brought := map[carried]bool{} // a collapsed edge has thousands of files, each once
	for _, id := range d.actions {
		a, to := g.Actions[id], node[id]
		for i, in := range slices.Concat(a.Inputs, a.OrderOnly) {
			orderOnly := i >= len(a.Inputs)
			maker, made := g.Producer(in)
			from := files[in]
			switch {
			case made:
				from = node[maker]
			case from != nil || orderOnly:
			case strings.HasSuffix(in, ".a") || strings.HasSuffix(in, ".so") || strings.Contains(path.Base(in), ".so."):
				from = &drawNode{id: fmt.Sprintf("p%d", len(files)), look: look{kind: drawPrebuilt}, file: in, target: owners[in], title: cmp.Or(owners[in], path.Base(in))}
				files[in], d.loose = from, append(d.loose, from)
			case d.small:
				from = &drawNode{id: fmt.Sprintf("s%d", len(files)), look: look{kind: drawSource}, file: in, target: a.Target, title: in, cluster: clusters[a.Target]}
				files[in] = from
			}
			if from == nil || from == to {
				continue
			}
			if from.kind == drawSource && from.target != to.target {
				from.cluster = nil
			}
			e := edges[[2]*drawNode{from, to}]
			if e == nil {
				e = &drawEdge{from: from, to: to, orderOnly: true}
				edges[[2]*drawNode{from, to}] = e
				d.edges = append(d.edges, e)
			}
			if !brought[carried{e, in}] {
				brought[carried{e, in}] = true
				e.files = append(e.files, in)
			}
			e.orderOnly = e.orderOnly && orderOnly
			if l := a.Link(); l.LTO {
				opaque := slices.Contains(l.NonLTO, in)
				e.opaque, e.lto = e.opaque || opaque, e.lto || !opaque
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) { // sources that targets share are loose
		if n := files[file]; n.kind == drawSource && n.cluster != nil {
			n.cluster.nodes = append(n.cluster.nodes, n)
		} else if n.kind == drawSource {
			d.loose = append(d.loose, n)
		}
	}

	d.clusters = slices.DeleteFunc(d.clusters, func(c *drawCluster) bool { return len(c.nodes) == 0 })
	seen := map[look]bool{}
	for i, c := range d.clusters {
		c.index = i
	}
	for _, n := range d.all() {
		n.lto = n.lto && n.kind.Info().optimises()
		seen[n.look] = true
	}
	for _, k := range kinds {
		for _, l := range []look{{k.Kind, true}, {k.Kind, false}} {
			if seen[l] && l.kind != drawSource {
				d.legend = append(d.legend, l)
			}
		}
	}
	return d
}

// all returns the nodes.
func (d *drawing) all() (nodes []*drawNode) {
	for _, c := range d.clusters {
		nodes = append(nodes, c.nodes...)
	}
	return append(nodes, d.loose...)
}

// union appends new strings and keeps the order of the manifest.
func union(have []string, more ...string) []string {
	for _, m := range more {
		if m != "" && !slices.Contains(have, m) {
			have = append(have, m)
		}
	}
	return have
}

// bundled returns the edges to draw. A large drawing joins the edges from one target to one action
// of another, and those from one action to another target. A device link of four libraries then has
// four edges, not one for each source.
func (d *drawing) bundled() []*drawEdge {
	if d.small || d.collapsed {
		return d.edges
	}
	return bundle(bundle(d.edges, true), false)
}

// bundle joins edges of one style with one end in common and the other in the same other target: at
// their tails or at their heads.
func bundle(edges []*drawEdge, tails bool) (out []*drawEdge) {
	type key struct {
		node                   *drawNode
		cluster                *drawCluster
		orderOnly, lto, opaque bool
	}
	keys, peers := make([]key, len(edges)), map[key][]*drawEdge{}
	for i, e := range edges {
		k := key{e.to, e.from.cluster, e.orderOnly, e.lto, e.opaque}
		if !tails {
			k.node, k.cluster = e.from, e.to.cluster
		}
		if k.cluster != nil && k.cluster != k.node.cluster && e.tail == nil {
			keys[i], peers[k] = k, append(peers[k], e)
		}
	}
	for i, e := range edges {
		same := peers[keys[i]]
		if len(same) < 2 {
			out = append(out, e)
		}
		if len(same) < 2 || same[0] != e {
			continue
		}
		sum := *same[len(same)/2] // so that it leaves a target in the middle
		sum.files = nil
		seen := map[string]bool{}
		for _, e := range same {
			for _, f := range e.files {
				if !seen[f] {
					seen[f], sum.files = true, append(sum.files, f)
				}
			}
		}
		if tails {
			sum.tail = keys[i].cluster
		} else {
			sum.head = keys[i].cluster
		}
		out = append(out, &sum)
	}
	return out
}

// say returns the label of an edge. It is the artifact in a small drawing. In a collapsed one it is
// the number of files, if the node's actions do not each bring one. An edge from a source or a
// prebuilt has none, since its node names the file. Bundles have none: Graphviz places labels of
// long edges far from their edges.
func (e *drawEdge) say(d *drawing) string {
	switch {
	case d.small && e.opaque:
		return "no LTO"
	case d.small && e.from.file == "":
		return e.text(1)
	case d.collapsed && !d.Targets && len(e.files) > 1 && len(e.files) != len(e.from.actions):
		return fmt.Sprintf("×%d", len(e.files))
	}
	return ""
}

// text lists up to limit of the files of an edge.
func (e *drawEdge) text(limit int) string {
	var names []string
	for _, f := range e.files[:min(limit, len(e.files))] {
		names = append(names, elide(path.Base(f), 32))
	}
	s := strings.Join(names, ", ")
	if more := len(e.files) - limit; more > 0 {
		s += fmt.Sprintf(" +%d", more)
	}
	return s
}

// lines returns the two lines of a node: what it writes, and how.
func (n *drawNode) lines() (title, sub string) {
	title, sub = cmp.Or(elide(n.title, 40), n.id), details(n.modes, n.archs)
	switch {
	case n.kind == drawSource:
		return title, ""
	case n.kind == drawPrebuilt:
		return title, elide(n.file, 44)
	case n.whole:
		return title, cmp.Or(sub, string(n.kind))
	case len(n.actions) > 1:
		return fmt.Sprintf("%s ×%d", n.kind, len(n.actions)), sub
	case sub != "":
		return title, string(n.kind) + " · " + sub
	}
	return title, string(n.kind)
}

// details formats modes and codes in one line: "lto, rdc · sm_80 sm_90". A long list of codes keeps
// its ends.
func details(modes, archs []string) string {
	parts := []string{strings.Join(modes, ", "), strings.Join(archs, " ")}
	if len(archs) > 6 {
		parts[1] = fmt.Sprintf("%s … %s (%d)", strings.Join(archs[:2], " "), archs[len(archs)-1], len(archs))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// caption returns the line below a picture.
func (d *drawing) caption() string {
	targets := len(d.clusters)
	for _, n := range d.loose {
		if n.whole {
			targets++
		}
	}
	s := fmt.Sprintf("%s in %s", Count(len(d.actions), "action"), Count(targets, "target"))
	// An LTO link reads code that it cannot optimise.
	if slices.ContainsFunc(d.edges, func(e *drawEdge) bool { return e.opaque }) {
		s += " · partial LTO: dashed edges bring code that the link cannot optimise"
	}
	return s
}

// suggestion returns the comment for a drawing too large to read, or "".
func (d *drawing) suggestion(comment string) string {
	n := len(d.all())
	if d.collapsed || n <= crowdedNodes {
		return ""
	}
	return fmt.Sprintf("%s %d nodes: `kbuild graph --collapse` draws one for each target and kind of action\n", comment, n)
}

// Count formats a number of things: "1 action", "2 actions", "2 libraries".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		noun = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// elide keeps both ends of a long name; the end of a path is more informative.
func elide(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	head := limit / 3
	return string(r[:head]) + "…" + string(r[len(r)-(limit-head-1):])
}

// printable makes a name safe to draw: valid UTF-8 on one line, without control characters.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '␣'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}
