package engine

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/graph"
)

// attribute returns the causes of each of ids, which are in the order of a closure. A cause is a
// change by the user, not a change of a file between two passes. own returns why an action runs by
// itself. ran reports whether an action ran or was restored. An action without a reason of its own
// has the causes of the actions that it depends on.
func attribute(g *graph.Graph, ids []graph.ActionID, own func(graph.ActionID) []string, ran func(graph.ActionID) bool) map[graph.ActionID][]string {
	causes := map[graph.ActionID][]string{}
	for _, id := range ids {
		if !ran(id) {
			continue
		}
		var of []string
		for _, why := range own(id) {
			maker, made := makerOf(g, id, inputOf(why))
			switch {
			case made && ran(maker):
				of = append(of, causes[maker]...)
			case g.Actions[id].Driver().Argv != nil && strings.HasPrefix(why, "argument ") && slices.ContainsFunc(g.Deps(id), ran):
				// A pass has arguments for each architecture. Those of a new architecture came with
				// the passes that build its code.
			default:
				of = append(of, why)
			}
		}
		if len(of) == 0 {
			for _, dep := range g.Deps(id) {
				of = append(of, causes[dep]...)
			}
		}
		slices.Sort(of)
		causes[id] = slices.Compact(of)
	}
	return causes
}

// makerOf returns the action that writes an input of id, if there is one. A file between two passes
// is named without its folder.
func makerOf(g *graph.Graph, id graph.ActionID, file string) (graph.ActionID, bool) {
	if maker, made := g.Producer(file); made {
		return maker, true
	}
	for _, dep := range g.Deps(id) {
		for _, o := range g.Actions[dep].Outputs {
			if g.Actions[dep].Intermediate && (strings.HasSuffix(o, "/"+file) || strings.HasSuffix(o, "."+file)) {
				return dep, true
			}
		}
	}
	return 0, false
}

// inputOf returns the file that a reason names: "a.o changed", "new: input a.o".
func inputOf(why string) string {
	for _, before := range []string{"new: input ", "no longer: input "} {
		if file, ok := strings.CutPrefix(why, before); ok {
			return file
		}
	}
	file, _ := strings.CutSuffix(why, " changed")
	return file
}

// A Cause is a change, and the actions that run for it.
type Cause struct {
	Why     string
	Actions []int // by their index in the list
}

// causesOf groups a list of actions by their causes. The cause with the most actions comes first.
func causesOf(of [][]string) (list []Cause) {
	at := map[string]int{}
	for i, causes := range of {
		for _, why := range causes {
			k, ok := at[why]
			if !ok {
				k = len(list)
				at[why] = k
				list = append(list, Cause{Why: why})
			}
			list[k].Actions = append(list[k].Actions, i)
		}
	}
	slices.SortStableFunc(list, func(a, b Cause) int { return len(b.Actions) - len(a.Actions) })
	return joinCauses(list)
}

// joinCauses joins causes that have the same actions: "a.h changed, b.h changed".
func joinCauses(list []Cause) (out []Cause) {
	for _, c := range list {
		if i := slices.IndexFunc(out, func(o Cause) bool { return slices.Equal(o.Actions, c.Actions) }); i >= 0 {
			out[i].Why += ", " + c.Why
			continue
		}
		out = append(out, c)
	}
	return out
}

// WouldRunFor returns the causes of the explained actions that would run, and the causes of each
// action by its index in the list.
func WouldRunFor(g *graph.Graph, list []execute.Explanation) ([]Cause, [][]string) {
	at := map[graph.ActionID]int{}
	ids := make([]graph.ActionID, len(list))
	for i, e := range list {
		ids[i], at[e.Action.ID] = e.Action.ID, i
	}
	own := func(id graph.ActionID) []string {
		if e := list[at[id]]; !e.Waits {
			return e.Why
		}
		return nil
	}
	causes := attribute(g, ids, own, func(id graph.ActionID) bool { return list[at[id]].State == "run" })
	of := make([][]string, len(list))
	for i, e := range list {
		of[i] = causes[e.Action.ID]
	}
	return causesOf(of), of
}
