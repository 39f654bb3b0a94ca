package graph

import (
	"fmt"
	"path"
	"strings"
)

type drawEdge struct {
	from, to   *drawNode
	tail, head *drawCluster // set on a bundle: the edge leaves or enters the whole target
	files      []string
	orderOnly  bool // every file is needed first but not read by declaration
	lto        bool // brings LTO-IR to a link that optimises it
	opaque     bool // brings code that an LTO link cannot optimise: the link is partial
}

// bundleKey holds what the edges of one bundle have in common: one end, the target at the other
// end, and their style.
type bundleKey struct {
	node                   *drawNode
	cluster                *drawCluster
	orderOnly, lto, opaque bool
}

// bundled returns the edges to draw. A large drawing joins the edges from one target to one action
// of another, and those from one action to another target. A device link of four libraries then has
// four edges, not one for each source.
func (d *drawing) bundled() []*drawEdge {
	if d.small || d.collapsed {
		return d.edges
	}
	out := bundle(d.edges, func(e *drawEdge) bundleKey {
		return bundleKey{e.to, e.from.cluster, e.orderOnly, e.lto, e.opaque}
	}, func(e *drawEdge, c *drawCluster) { e.tail = c })
	return bundle(out, func(e *drawEdge) bundleKey {
		if e.tail != nil {
			return bundleKey{}
		}
		return bundleKey{e.from, e.to.cluster, e.orderOnly, e.lto, e.opaque}
	}, func(e *drawEdge, c *drawCluster) { e.head = c })
}

// bundle joins edges with equal keys. A key without a cluster, or with the node's own, joins
// nothing.
func bundle(edges []*drawEdge, key func(*drawEdge) bundleKey, mark func(*drawEdge, *drawCluster)) []*drawEdge {
	byKey := map[bundleKey][]*drawEdge{}
	for _, e := range edges {
		byKey[key(e)] = append(byKey[key(e)], e)
	}
	var out []*drawEdge
	for _, e := range edges {
		k := key(e)
		peers := byKey[k]
		if k.cluster == nil || k.cluster == k.node.cluster || len(peers) < 2 {
			out = append(out, e)
			continue
		}
		if peers[0] == e {
			out = append(out, join(peers, k.cluster, mark))
		}
	}
	return out
}

// join takes its ends from the middle edge, so that a bundle leaves a target in the middle.
func join(peers []*drawEdge, c *drawCluster, mark func(*drawEdge, *drawCluster)) *drawEdge {
	sum := *peers[len(peers)/2]
	sum.files = nil
	seen := map[string]bool{}
	for _, e := range peers {
		for _, f := range e.files {
			if !seen[f] {
				seen[f] = true
				sum.files = append(sum.files, f)
			}
		}
	}
	mark(&sum, c)
	return &sum
}

// say returns the label of an edge. It is the artifact in a small drawing. In a collapsed one it is
// the number of files, if the node's actions do not each bring one. An edge from a source or a
// prebuilt has none, since its node names the file. Bundles have none: Graphviz places labels of
// long edges far from their edges.
func (e *drawEdge) say(d *drawing) string {
	switch {
	case d.small && e.opaque:
		return "no LTO"
	case d.small && e.from.kind != drawSource && e.from.kind != drawPrebuilt:
		return e.text(1)
	case d.collapsed && d.targets == 0 && len(e.files) > 1 && len(e.files) != len(e.from.actions):
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
