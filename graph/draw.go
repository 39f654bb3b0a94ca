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
	clusters []*drawCluster // in the order of the manifest
	loose    []*drawNode    // prebuilt libraries, and sources that several targets share
	edges    []*drawEdge    // in the order of consumers, then of what they read
	kinds    []Kind         // kinds for the legend, in the order of the table
	actions  int            // number of actions that the nodes represent
	nodes    int
	small    bool // small enough for sources and file names

	collapsed bool
	targets   int // number of targets in a drawing of targets alone
}

// Above smallActions a drawing has no source files and no file names on its edges, which would
// dominate it. Above crowdedNodes a picture is unreadable, and a comment suggests an alternative.
const (
	smallActions = 24
	crowdedNodes = 400
)

type drawCluster struct {
	index       int
	label, kind string
	modes       []string
	archs       []string
	nodes       []*drawNode
}

type drawNode struct {
	id      string // "a12" for an action, "g3" for a group, "s0" for a source, "p1" for a prebuilt
	kind    Kind
	target  string
	cluster *drawCluster // nil if it is in none
	title   string
	file    string // of a source or prebuilt
	modes   []string
	archs   []string
	lto     bool // a device link that optimises
	whole   bool // it represents a target
	actions []ActionID
}

// drawIndex builds a drawing.
type drawIndex struct {
	g        *Graph
	opts     DrawOptions
	d        *drawing
	node     map[ActionID]*drawNode
	external map[string]*drawNode // sources and prebuilts by path
	owners   map[string]string    // path of a prebuilt -> its label
	edge     map[[2]*drawNode]*drawEdge
	carried  map[carriedFile]bool // a collapsed edge has thousands of files, each once
}

type carriedFile struct {
	edge *drawEdge
	file string
}

func (g *Graph) draw(opts DrawOptions) *drawing {
	ids := g.drawn(opts.Want)
	x := &drawIndex{
		g: g, opts: opts,
		d:        &drawing{actions: len(ids), collapsed: opts.Collapse || opts.Targets, small: !opts.Collapse && !opts.Targets && len(ids) <= smallActions},
		node:     map[ActionID]*drawNode{},
		external: map[string]*drawNode{},
		owners:   g.prebuiltOwners(),
		edge:     map[[2]*drawNode]*drawEdge{},
		carried:  map[carriedFile]bool{},
	}
	x.place(ids)
	for _, id := range ids {
		x.connect(g.Actions[id])
	}
	x.placeSources()
	x.finish()
	return x.d
}

// drawn returns the actions to draw, in order.
func (g *Graph) drawn(want []ActionID) []ActionID {
	if len(want) > 0 {
		return g.Closure(want)
	}
	ids := make([]ActionID, len(g.Actions))
	for i := range ids {
		ids[i] = ActionID(i)
	}
	return ids
}

// prebuiltOwners returns the label of each prebuilt file: from the target's outputs, or else from
// the device links that read it.
func (g *Graph) prebuiltOwners() map[string]string {
	owners := map[string]string{}
	for _, a := range g.Actions {
		if a.Work.Link == nil {
			continue
		}
		maps.Copy(owners, a.Link().Owners)
	}
	for _, t := range g.Targets {
		if t.Kind == "prebuilt" {
			for _, file := range t.Outputs {
				owners[file] = t.Label
			}
		}
	}
	return owners
}

// place creates a cluster for every target and a node for every action or group of actions.
func (x *drawIndex) place(ids []ActionID) {
	clusters := map[string]*drawCluster{}
	cluster := func(label, kind string) *drawCluster {
		if clusters[label] == nil {
			clusters[label] = &drawCluster{label: label, kind: kind}
			x.d.clusters = append(x.d.clusters, clusters[label])
		}
		return clusters[label]
	}
	for _, t := range x.g.Targets {
		cluster(t.Label, t.Kind)
	}
	groups, shared := map[groupKey]*drawNode{}, x.shared(ids)
	for _, id := range ids {
		a := x.g.Actions[id]
		target := a.Target
		if shared[id] {
			target = ""
		}
		n := x.nodeOf(a, target, groups)
		first := len(n.actions) == 0
		n.add(a)
		x.node[id] = n
		if shared[id] || x.opts.Targets {
			if first {
				x.d.loose = append(x.d.loose, n)
			}
			continue
		}
		c := cluster(target, "")
		if first {
			c.nodes = append(c.nodes, n)
			n.cluster = c
		}
		c.modes = union(c.modes, a.Mode)
		if !a.Intermediate {
			c.archs = union(c.archs, a.Archs...)
		}
	}
}

// shared returns the slices that device links of several targets read: they belong to none of them.
func (x *drawIndex) shared(ids []ActionID) map[ActionID]bool {
	reader, shared := map[ActionID]string{}, map[ActionID]bool{}
	if x.opts.Targets {
		return shared
	}
	for _, id := range ids {
		a := x.g.Actions[id]
		for _, dep := range x.g.Deps(id) {
			d := x.g.Actions[dep]
			if d.Kind != Slice && d.Kind != Unbundle {
				continue
			}
			if was, ok := reader[dep]; ok && was != a.Target {
				shared[dep] = true
			}
			reader[dep] = a.Target
		}
	}
	return shared
}

func (x *drawIndex) nodeOf(a *Action, target string, groups map[groupKey]*drawNode) *drawNode {
	switch {
	case x.opts.Targets:
		n := groupOf(a, groupKey{target: target}, groups)
		n.title, n.whole = target, true
		if !a.Intermediate {
			n.kind = a.Kind // of the last one, which writes the target's output
		}
		return n
	case x.opts.Collapse:
		return groupOf(a, groupKey{target, a.Kind}, groups)
	}
	return &drawNode{id: fmt.Sprintf("a%d", a.ID), kind: a.Kind, target: target, title: shortName(a.Name, a.Target)}
}

// shortName returns the name of an object in a build tree without the folder of its target, whose
// label is above it.
func shortName(name, target string) string { return strings.TrimPrefix(name, "obj/"+target+"/") }

func (n *drawNode) add(a *Action) {
	n.actions = append(n.actions, a.ID)
	n.modes = union(n.modes, a.Mode)
	if !n.whole || !a.Intermediate {
		n.archs = union(n.archs, a.Archs...)
	}
	n.lto = n.lto || a.Link().LTO
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

func (x *drawIndex) connect(a *Action) {
	for _, in := range a.Inputs {
		x.file(a, in, false)
	}
	for _, in := range a.OrderOnly {
		x.file(a, in, true)
	}
}

func (x *drawIndex) file(a *Action, in string, orderOnly bool) {
	from := x.origin(a, in, orderOnly)
	to := x.node[a.ID]
	if from == nil || from == to {
		return
	}
	e := x.edge[[2]*drawNode{from, to}]
	if e == nil {
		e = &drawEdge{from: from, to: to, orderOnly: true}
		x.edge[[2]*drawNode{from, to}] = e
		x.d.edges = append(x.d.edges, e)
	}
	if !x.carried[carriedFile{e, in}] {
		x.carried[carriedFile{e, in}] = true
		e.files = append(e.files, in)
	}
	e.orderOnly = e.orderOnly && orderOnly
	if a.Link().LTO {
		opaque := slices.Contains(a.Link().NonLTO, in)
		e.opaque = e.opaque || opaque
		e.lto = e.lto || !opaque
	}
}

// origin returns the node of a file: an action, a prebuilt library or a source. It returns nil if
// the file is not drawn.
func (x *drawIndex) origin(a *Action, in string, orderOnly bool) *drawNode {
	if id, ok := x.g.Producer(in); ok {
		return x.node[id]
	}
	n := x.external[in]
	switch {
	case n != nil || orderOnly:
	case isLibrary(in):
		n = &drawNode{id: fmt.Sprintf("p%d", len(x.external)), kind: drawPrebuilt, target: x.owners[in], file: in, title: cmp.Or(x.owners[in], path.Base(in))}
		x.d.loose = append(x.d.loose, n)
		x.external[in] = n
	case x.d.small:
		n = &drawNode{id: fmt.Sprintf("s%d", len(x.external)), kind: drawSource, target: a.Target, file: in, title: in}
		x.external[in] = n
	}
	return n
}

func isLibrary(file string) bool {
	return strings.HasSuffix(file, ".a") || strings.HasSuffix(file, ".so") || strings.Contains(path.Base(file), ".so.")
}

// placeSources puts a source into the cluster of its only target; shared ones stay outside.
func (x *drawIndex) placeSources() {
	targets := map[*drawNode][]string{}
	for _, e := range x.d.edges {
		if e.from.kind == drawSource {
			targets[e.from] = union(targets[e.from], e.to.target)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(x.external)) {
		n := x.external[file]
		if n.kind != drawSource {
			continue
		}
		if len(targets[n]) > 1 {
			x.d.loose = append(x.d.loose, n)
			continue
		}
		for _, c := range x.d.clusters {
			if c.label == n.target {
				c.nodes = append(c.nodes, n)
			}
		}
	}
}

// finish removes empty clusters and counts nodes.
func (x *drawIndex) finish() {
	d := x.d
	d.clusters = slices.DeleteFunc(d.clusters, func(c *drawCluster) bool { return len(c.nodes) == 0 })
	seen := map[Kind]bool{}
	if x.opts.Targets {
		d.targets = len(slices.DeleteFunc(slices.Clone(d.loose), func(n *drawNode) bool { return len(n.actions) == 0 }))
	}
	for i, c := range d.clusters {
		c.index = i
		for _, n := range c.nodes {
			seen[n.kind] = true
		}
		d.nodes += len(c.nodes)
	}
	for _, n := range d.loose {
		seen[n.kind] = true
	}
	d.nodes += len(d.loose)
	for _, k := range kinds {
		if seen[k.Kind] && k.Kind != drawSource {
			d.kinds = append(d.kinds, k.Kind)
		}
	}
}

// caption returns the line below a picture.
func (d *drawing) caption() string {
	targets := len(d.clusters)
	if d.targets > 0 {
		targets = d.targets
	}
	s := fmt.Sprintf("%s in %s", Count(d.actions, "action"), Count(targets, "target"))
	// An LTO link reads code that it cannot optimise.
	if slices.ContainsFunc(d.edges, func(e *drawEdge) bool { return e.opaque }) {
		s += " · partial LTO: dashed edges bring code that the link cannot optimise"
	}
	return s
}

// Count formats a number of things: "1 action", "2 actions".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// suggestion returns the comment for a drawing too large to read, or "".
func (d *drawing) suggestion(opts DrawOptions) string {
	if opts.Collapse || opts.Targets || d.nodes <= crowdedNodes {
		return ""
	}
	return fmt.Sprintf("%d nodes: `kbuild graph --collapse` draws one for each target and kind of action", d.nodes)
}

// shortList joins architectures; a long list keeps its ends.
func shortList(items []string) string {
	if len(items) > 6 {
		return fmt.Sprintf("%s … %s (%d)", strings.Join(items[:2], " "), items[len(items)-1], len(items))
	}
	return strings.Join(items, " ")
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

// groupKey identifies the actions that one node of a collapsed drawing represents.
type groupKey struct {
	target string
	kind   Kind
}

// groupOf returns the node for all actions with a key.
func groupOf(a *Action, key groupKey, groups map[groupKey]*drawNode) *drawNode {
	n := groups[key]
	if n == nil {
		n = &drawNode{id: fmt.Sprintf("g%d", len(groups)), kind: a.Kind, target: key.target, title: a.Name}
		groups[key] = n
	}
	return n
}

// size returns the number of actions that a node represents, "×37", or "" for one.
func (n *drawNode) size() string {
	if len(n.actions) < 2 {
		return ""
	}
	return fmt.Sprintf("×%d", len(n.actions))
}
