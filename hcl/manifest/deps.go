package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// deps reads a list of references to targets; a target that is listed twice counts once.
func (r *reader) deps(f *field) []Dep {
	var out []Dep
	places, seen := literals(f.expr), map[string]bool{}
	for _, e := range f.elements("references") {
		if e.IsNull() || e.Type() != referenceType {
			r.noReference(f, e, places)
			continue
		}
		t := e.EncapsulatedValue().(*target)
		rng := places.take(t.label(), f.rng)
		if !isTarget(t.kind) && !(t.kind == "group" && f.row.Name == "targets") {
			r.l.errorAt(rng, "Targets are "+strings.Join(targetKinds(), ", ")+".", "%s is no target",
				t.label())
			continue
		}
		if seen[t.label()] || !r.l.hasInstance(t, rng) {
			continue
		}
		seen[t.label()] = true
		out = append(out, Dep{Label: t.label(), Pos: position(rng)})
	}
	return out
}

func (r *reader) noReference(f *field, e cty.Value, places places) {
	s, ok := asText(e)
	if !ok || e.Type() != cty.String {
		r.l.errorAt(f.rng, "", "%s takes references such as library.solver, and one element is %s",
			f.row.Name, typeName(e))
		return
	}
	help := "System libraries go into libs."
	for _, k := range targetKinds() {
		name := strings.TrimPrefix(s, k+".")
		if r.l.has(k, name) {
			help = fmt.Sprintf("Write %s.%s, without quotes.", k, name)
		}
	}
	r.l.errorAt(places.take(s, f.rng), help, "%s takes references such as library.solver, not strings",
		f.row.Name)
}

// checkDeps reports targets that depend on themselves, also through a generated source.
func (l *loader) checkDeps() {
	edges := map[string][]Dep{}
	for _, t := range l.project.Targets {
		label := string(t.Kind) + "." + t.Base
		for _, d := range t.Deps {
			d.Label, _, _ = strings.Cut(d.Label, ":") // for an instance, the label of its block
			edges[label] = append(edges[label], d)
		}
		for _, s := range t.Sources {
			if s.Generated != "" {
				edges[label] = append(edges[label], Dep{s.Generated, s.Pos})
			}
		}
	}
	for _, g := range l.project.Groups {
		edges["group."+g.Name] = g.Targets
	}
	c := depCycles{l: l, edges: edges, state: map[string]nodeState{}}
	for _, b := range l.blocks {
		if isTarget(b.kind) || b.kind == "group" {
			c.visit(Dep{Label: b.key()})
		}
	}
}

// depCycles is a depth-first walk of the targets.
type depCycles struct {
	l     *loader
	edges map[string][]Dep
	state map[string]nodeState
	path  []Dep
}

func (c *depCycles) visit(to Dep) {
	c.path = append(c.path, to)
	switch c.state[to.Label] {
	case untouched:
		c.state[to.Label] = running
		for _, d := range c.edges[to.Label] {
			c.visit(d)
		}
		c.state[to.Label] = known
	case running:
		i := slices.IndexFunc(c.path, func(d Dep) bool { return d.Label == to.Label })
		steps := to.Label
		for _, d := range c.path[i+1:] {
			steps += fmt.Sprintf("\n  needs %s (%s)", d.Label, d.Pos)
		}
		c.l.addQuoted(Diagnostic{Summary: to.Label + " depends on itself", Detail: steps, Pos: to.Pos})
	}
	c.path = c.path[:len(c.path)-1]
}
