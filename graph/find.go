package graph

import "strings"

// Targets by name. A manifest has thousands of them, and a plan looks each up by name more than once, so there is a map.

// nameIndex finds targets by what a user may call them.
type nameIndex struct {
	labels map[string]*Target
	others map[string][]*Target // by name, base name and kind.base, in order
}

func indexNames(targets []*Target) *nameIndex {
	x := &nameIndex{labels: make(map[string]*Target, len(targets)), others: make(map[string][]*Target, len(targets))}
	for _, t := range targets {
		if x.labels[t.Label] == nil {
			x.labels[t.Label] = t
		}
		base, _, _ := strings.Cut(t.Name, ":")
		x.others[t.Name] = append(x.others[t.Name], t)
		if base != t.Name {
			x.others[base] = append(x.others[base], t)
		}
		if kind := t.Kind + "." + base; kind != t.Label {
			x.others[kind] = append(x.others[kind], t)
		}
	}
	return x
}

// FindTarget looks a target up by label ("library.solver") or by name, which must be unique then.
// A matrix module's base name ("gemm") finds all its instances.
func (g *Graph) FindTarget(name string) []*Target {
	if t := g.names.labels[name]; t != nil {
		return []*Target{t}
	}
	return g.names.others[name]
}

// expand replaces groups by what they name, each target once: groups name groups, and the ways through them double at each level.
func (g *Graph) expand(targets []*Target) []*Target {
	var out []*Target
	seen := map[*Target]bool{}
	var visit func(t *Target)
	visit = func(t *Target) {
		if seen[t] {
			return
		}
		seen[t] = true
		out = append(out, t)
		if t.Kind != "group" {
			return
		}
		for _, d := range t.Deps {
			for _, u := range g.FindTarget(d) {
				visit(u)
			}
		}
	}
	for _, t := range targets {
		visit(t)
	}
	return out
}
