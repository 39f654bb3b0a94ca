package execute

import (
	"iter"

	"github.com/kbuild-dev/kbuild/graph"
)

// makers finds the action that writes a file. If few of very many actions are affected, graph has
// only those and the passes that they need. outer then has all actions.
type makers struct {
	graph *graph.Graph
	outer *graph.Packed // nil if graph is complete
}

// maker returns the action that writes a file, or nil.
func (m makers) maker(file string) *graph.Action {
	if id, ok := m.graph.Producer(file); ok {
		return m.graph.Actions[id]
	}
	if m.outer != nil {
		if id, ok := m.outer.Producer(file); ok {
			return m.outer.Action(id)
		}
	}
	return nil
}

// isMade reports whether an action writes a file.
func (m makers) isMade(file string) bool { return m.maker(file) != nil }

// isIntermediate reports whether a compiler pass of graph writes a file for other actions.
func (m makers) isIntermediate(file string) bool {
	id, made := m.graph.Producer(file)
	return made && m.graph.Actions[id].Intermediate
}

// needs reports whether a needs b, directly or through others.
func (m makers) needs(a, b *graph.Action) bool {
	if m.outer == nil {
		return m.graph.Needs(a.ID, b.ID)
	}
	from, ok := m.outer.Producer(a.Outputs[0])
	to, ok2 := m.outer.Producer(b.Outputs[0])
	return ok && ok2 && m.outer.Needs(from, to)
}

// all returns the actions of the complete graph.
func (m makers) all() iter.Seq[*graph.Action] {
	return func(yield func(*graph.Action) bool) {
		if m.outer != nil {
			for id := range m.outer.Len() {
				if !yield(m.outer.Action(graph.ActionID(id))) {
					return
				}
			}
			return
		}
		for _, a := range m.graph.Actions {
			if !yield(a) {
				return
			}
		}
	}
}
