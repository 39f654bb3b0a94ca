package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// A fallback slows down every later build, so each build reports it at the end: nvcc, hipcc or
// clang runs unsplit though the user did not ask for that.

// Fallbacks returns lines about actions that run a compiler unsplit though the user did not ask for
// that, one for each reason.
func (p *Project) Fallbacks(ids []graph.ActionID) (lines []string) {
	type group struct {
		first *graph.Action
		kinds map[string]int // by what the actions do
	}
	groups := map[string]*group{}
	var order []string
	for _, id := range ids {
		a := p.Graph.Actions[id]
		d := a.Work.Driver
		if d == nil || !d.Fallback {
			continue
		}
		key := p.Facts.Driver(a) + d.UnsplitReason
		g := groups[key]
		if g == nil {
			g = &group{a, map[string]int{}}
			groups[key], order = g, append(order, key)
		}
		kind := "compile"
		switch a.Kind.Info().Lane {
		case graph.LaneDevLink:
			kind = "device link"
		case graph.LaneLink:
			kind = "link"
		}
		g.kinds[kind]++
	}
	for _, key := range order {
		g := groups[key]
		var what []string
		for _, kind := range slices.Sorted(maps.Keys(g.kinds)) {
			what = append(what, graph.Count(g.kinds[kind], kind))
		}
		reason := strings.ReplaceAll(g.first.Work.Driver.UnsplitReason, "\n", " ")
		lines = append(lines, fmt.Sprintf("%s runs as one command for %s: %s; see kbuild why %s", p.Facts.Driver(g.first), strings.Join(what, " and "), reason, g.first.Target))
	}
	return lines
}
