package execute

import (
	"iter"

	"github.com/kbuild-dev/kbuild/graph"
)

// Where few actions of very many are affected, Runner.Graph holds those alone, with the parts that they need. What others write
// is a file like any other to them. Only the rules about generated files ask who else there is.

// maker is the action that writes a file; nil if none does.
func (r *Runner) maker(file string) *graph.Action {
	if id, ok := r.Graph.Producer(file); ok {
		return r.Graph.Actions[id]
	}
	if r.Outer != nil {
		if id, ok := r.Outer.Producer(file); ok {
			return r.Outer.Action(id)
		}
	}
	return nil
}

// needs reports whether a needs b, directly or through others.
func (r *Runner) needs(a, b *graph.Action) bool {
	if r.Outer == nil {
		return r.Graph.Needs(a.ID, b.ID)
	}
	from, ok := r.Outer.Producer(a.Outputs[0])
	to, ok2 := r.Outer.Producer(b.Outputs[0])
	return ok && ok2 && r.Outer.Needs(from, to)
}

// all are the actions of the whole graph.
func (r *Runner) all() iter.Seq[*graph.Action] {
	return func(yield func(*graph.Action) bool) {
		if r.Outer != nil {
			for id := range r.Outer.Len() {
				if !yield(r.Outer.Action(graph.ActionID(id))) {
					return
				}
			}
			return
		}
		for _, a := range r.Graph.Actions {
			if !yield(a) {
				return
			}
		}
	}
}
