package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// What costs every later build is said at the end of each: that nvcc runs as one command though nobody asked for it.

// Fallbacks are lines about actions that run nvcc as one command though nobody asked for it, one for each reason.
func (p *Project) Fallbacks(ids []graph.ActionID) (lines []string) {
	type group struct {
		first *graph.Action
		kinds map[string]int // by what they do
	}
	groups := map[string]*group{}
	var order []string
	for _, id := range ids {
		a := p.Graph.Actions[id]
		d := a.Work.Driver
		if d == nil || !d.Fallback {
			continue
		}
		g := groups[d.UnsplitReason]
		if g == nil {
			g = &group{a, map[string]int{}}
			groups[d.UnsplitReason], order = g, append(order, d.UnsplitReason)
		}
		kind := "compile"
		if a.Kind == graph.DeviceLink {
			kind = "device link"
		}
		g.kinds[kind]++
	}
	for _, reason := range order {
		g := groups[reason]
		var what []string
		for _, kind := range slices.Sorted(maps.Keys(g.kinds)) {
			what = append(what, graph.Count(g.kinds[kind], kind))
		}
		lines = append(lines, fmt.Sprintf("CUDA %s: nvcc runs as one command for %s: %s; see kbuild why %s", p.Facts.CUDA.Version,
			strings.Join(what, " and "), strings.ReplaceAll(reason, "\n", " "), g.first.Target))
	}
	return lines
}

// fallbacks are those of the plan that a view was left of.
func (n *note) fallbacks() []string {
	return strings.FieldsFunc(n.whole, func(c rune) bool { return c == '\n' })
}
