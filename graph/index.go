package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Add appends an action, sets its ID and returns it.
func (g *Graph) Add(a *Action) *Action {
	a.ID = ActionID(len(g.Actions))
	g.Actions = append(g.Actions, a)
	if g.producer == nil {
		g.producer = map[string]ActionID{}
	}
	for _, o := range a.Outputs {
		g.producer[o] = a.ID
	}
	return a
}

// Producer returns the action that writes path.
func (g *Graph) Producer(path string) (ActionID, bool) {
	id, ok := g.producer[path]
	return id, ok
}

// Seal computes the edges of the graph and indexes its targets after the last Add. The graph is
// then safe for concurrent reads. Seal checks that every producer comes before its consumers, so
// that there is no cycle, and that no two actions write one file.
func (g *Graph) Seal() error {
	g.names = map[string][]*Target{}
	for _, t := range g.Targets {
		base, _, _ := strings.Cut(t.Name, ":")
		names := []string{t.Name, base, t.Kind + "." + base}
		if t.Kind != "group" && t.Kind != "test" && t.Kind != "prebuilt" {
			names = append(names, Folders(t.Name)...)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			g.names[name] = append(g.names[name], t)
		}
	}
	for _, t := range slices.Backward(g.Targets) {
		g.names[t.Label] = []*Target{t} // and no other that has it as a name
	}
	var edges []uint64
	for _, a := range g.Actions {
		for _, o := range a.Outputs {
			if last := g.producer[o]; last != a.ID {
				return fmt.Errorf("%s is written twice: by %s and by %s", o, a.Target, g.Actions[last].Target)
			}
		}
		for _, list := range [3][]string{a.Inputs, a.OrderOnly, a.Pass().DiagnosticInputs} {
			for _, in := range list {
				p, ok := g.producer[in]
				if ok && p > a.ID {
					return fmt.Errorf("BUG: action %d (%s) stands before action %d (%s), which it needs", a.ID, a.Name, p, g.Actions[p].Name)
				}
				if ok && p != a.ID {
					edges = append(edges, pairOf(int(a.ID), p))
				}
			}
		}
	}
	g.deps = newAdjacency(len(g.Actions), edges)
	return nil
}

// Deps returns the actions that write what id reads, sorted, each once. The graph must be sealed.
func (g *Graph) Deps(id ActionID) []ActionID { return g.deps.of(int(id)) }

// Closure returns want and their transitive dependencies, sorted.
func (g *Graph) Closure(want []ActionID) []ActionID { return g.deps.reach(want, nil) }

// Needs reports whether id depends on dep, directly or transitively.
func (g *Graph) Needs(id, dep ActionID) bool {
	return slices.Contains(g.Closure(g.Deps(id)), dep)
}

// Select resolves names on the command line: target labels and names, output files, and source
// files (everything compiled from them). unknown holds the names that match nothing.
func (g *Graph) Select(names []string) (want []ActionID, unknown []string) {
	for _, n := range names {
		targets := g.FindTarget(n)
		for _, t := range g.Expand(targets) {
			for _, o := range t.Outputs {
				if id, ok := g.Producer(o); ok {
					want = append(want, id)
				}
			}
		}
		if targets != nil {
			continue
		}
		id, ok := g.Producer(n)
		if !ok {
			id, ok = g.Producer(g.BuildDir + "/" + n)
		}
		ids := []ActionID{id}
		if !ok {
			ids = g.compiledFrom(n)
		}
		if want = append(want, ids...); ids == nil {
			unknown = append(unknown, n)
		}
	}
	slices.Sort(want)
	return slices.Compact(want), unknown
}

// compiledFrom returns the actions that compile a source; for a split compile, its last passes. A
// link of HIP code reads intermediates of compiles, but does not count.
func (g *Graph) compiledFrom(source string) []ActionID {
	var ids []ActionID
	within := map[ActionID]bool{}
	for _, a := range g.Actions {
		from := len(a.Inputs) > 0 && a.Inputs[0] == source
		for _, d := range g.Deps(a.ID) {
			from = from || within[d] && a.Kind != LLD
		}
		switch {
		case from && a.Intermediate:
			within[a.ID] = true
		case from:
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// Unbuilt returns the targets among names that cannot be built.
func (g *Graph) Unbuilt(names []string) []*Target {
	var named, out []*Target
	for _, n := range names {
		named = append(named, g.FindTarget(n)...)
	}
	for _, t := range g.Expand(named) {
		if t.Unbuilt != "" {
			out = append(out, t)
		}
	}
	return out
}

// Names returns the labels and names that a user may write, for completion and did-you-mean.
func (g *Graph) Names() []string { return slices.Sorted(maps.Keys(g.names)) }

// Folders returns the names by which a user selects everything that is built in a folder of an
// imported manifest, and below it: "math/...", "math/deep/...".
func Folders(name string) (folders []string) {
	for i, c := range name {
		if c == '/' {
			folders = append(folders, name[:i]+"/...")
		}
	}
	return folders
}

// FindTarget looks a target up by label ("library.solver") or by name, which may be ambiguous. A
// matrix module's base name ("gemm") finds all its instances, a folder ("math/...") everything
// built in it.
func (g *Graph) FindTarget(name string) []*Target { return g.names[name] }

// Expand replaces groups by their members, each target once: groups contain groups, so the number
// of paths through them can double at each level.
func (g *Graph) Expand(targets []*Target) (out []*Target) {
	seen := map[*Target]bool{}
	stack := slices.Clone(targets)
	slices.Reverse(stack)
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[t] {
			continue
		}
		seen[t], out = true, append(out, t)
		for _, d := range slices.Backward(t.Deps) {
			if t.Kind == "group" {
				members := slices.Clone(g.FindTarget(d))
				slices.Reverse(members)
				stack = append(stack, members...)
			}
		}
	}
	return out
}
