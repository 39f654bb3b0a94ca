package execute

import (
	"iter"

	"github.com/kbuild-dev/kbuild/graph"
)

// makers knows which action writes a file. Where few actions of very many are affected, graph holds
// those alone, with the passes that they need, and outer all. What others write is a file like any
// other to those few. Only the rules about generated files ask who else there is.
type makers struct {
	graph *graph.Graph
	outer *graph.Packed // nil if graph is whole
}

// maker is the action that writes a file; nil if none does.
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

// isMade reports a file that an action writes.
func (m makers) isMade(file string) bool { return m.maker(file) != nil }

// isIntermediate reports a file that a compiler pass writes for others.
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

// all are the actions of the whole graph.
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
