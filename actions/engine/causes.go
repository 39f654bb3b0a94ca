package engine

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/graph"
)

// attribute returns the causes of actions that run, which are in the order of a closure. A cause is
// a change by the user, not a change of a file between two passes. own has the actions that run or
// were restored, with the reasons of each. An action without a reason of its own has the causes of
// the actions that it depends on.
func attribute(g *graph.Graph, ids []graph.ActionID, own map[graph.ActionID][]string) map[graph.ActionID][]string {
	causes := map[graph.ActionID][]string{}
	ran := func(id graph.ActionID) bool { _, ok := own[id]; return ok }
	for _, id := range ids {
		if !ran(id) {
			continue
		}
		var of []string
		for _, why := range own[id] {
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
	own := map[graph.ActionID][]string{}
	ids := make([]graph.ActionID, len(list))
	for i, e := range list {
		ids[i] = e.Action.ID
		if e.State != "run" {
			continue
		}
		if own[e.Action.ID] = nil; !e.Waits {
			own[e.Action.ID] = e.Why
		}
	}
	causes := attribute(g, ids, own)
	of := make([][]string, len(list))
	for i, e := range list {
		of[i] = causes[e.Action.ID]
	}
	return causesOf(of), of
}
