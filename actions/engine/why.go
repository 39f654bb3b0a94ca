package engine

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// LastBuild describes what the last build that had something to do did, and why.
type LastBuild struct {
	Began   time.Time
	Total   int          // number of actions, with those that were up to date
	Actions []LastAction // the others, in the order in which they ended
}

// LastAction is an action that was not up to date.
type LastAction struct {
	Target    string
	Kind      graph.Kind
	Name      string
	Archs     []string `json:",omitempty"`
	Pos       string
	Output    string
	Status    sched.Status
	Reason    string   `json:",omitempty"` // why it ran, by its key
	Causes    []string `json:",omitempty"` // the changes that it ran for
	ElapsedMS int64

	id graph.ActionID
}

const lastBuildFile = "last.json"

// note adds the result of an action.
func (l *LastBuild) note(a *graph.Action, r sched.Result) {
	if r.Status == sched.UpToDate {
		return
	}
	l.Actions = append(l.Actions, LastAction{a.Target, a.Kind, a.Name, a.Archs, a.Pos.String(), a.Outputs[0], r.Status, r.Reason, nil, r.Elapsed.Milliseconds(), a.ID})
}

// write stores l in the build tree. Only people read it, so errors are ignored.
func (l *LastBuild) write(g *graph.Graph, want []graph.ActionID, state string) {
	if len(l.Actions) == 0 {
		return
	}
	own := map[graph.ActionID][]string{}
	for _, a := range l.Actions {
		own[a.id] = nil
		if reason := a.Reason; reason != "" {
			if i := strings.LastIndex(reason, " (and "); i >= 0 && strings.HasSuffix(reason, " more)") {
				reason = reason[:i]
			}
			own[a.id] = []string{reason}
		}
	}
	causes := attribute(g, g.Closure(want), own)
	for i, a := range l.Actions {
		l.Actions[i].Causes = causes[a.id]
	}
	if text, err := json.Marshal(l); err == nil {
		regular.Replace(filepath.Join(state, lastBuildFile), text)
	}
}

// LastBuild returns what the last build in the tree did; ok is false if that is not known.
func (w *Workspace) LastBuild() (l LastBuild, ok bool) {
	text, err := regular.Read(filepath.Join(w.StateDir(), lastBuildFile))
	return l, err == nil && json.Unmarshal(text, &l) == nil
}

// Causes returns the causes of its actions.
func (l LastBuild) Causes() []Cause {
	of := make([][]string, len(l.Actions))
	for i, a := range l.Actions {
		of[i] = a.Causes
	}
	return causesOf(of)
}

// attribute returns the causes of actions that run, which are in the order of a closure. A cause is
// a change by the user, not a change of a file between two passes. own has the actions that run or
// were restored, with the reasons of each. An action without a reason of its own has the causes of
// the actions that it depends on.
func attribute(g *graph.Graph, ids []graph.ActionID, own map[graph.ActionID][]string) map[graph.ActionID][]string {
	causes := map[graph.ActionID][]string{}
	for _, id := range ids {
		reasons, runs := own[id]
		if !runs {
			continue
		}
		var of []string
		for _, why := range reasons {
			file := inputOf(why)
			maker, made := g.Producer(file)
			anyRan := false
			for _, dep := range g.Deps(id) {
				_, ran := own[dep]
				anyRan = anyRan || ran
				// a file between two passes is named without its folder
				if !made && g.Actions[dep].Intermediate && slices.ContainsFunc(g.Actions[dep].Outputs, func(o string) bool {
					return strings.HasSuffix(o, "/"+file) || strings.HasSuffix(o, "."+file)
				}) {
					maker, made = dep, true
				}
			}
			_, makerRan := own[maker]
			switch {
			case made && makerRan:
				of = append(of, causes[maker]...)
			case anyRan && g.Actions[id].Driver().Argv != nil && strings.HasPrefix(why, "argument "):
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
// Causes that have the same actions are joined: "a.h changed, b.h changed".
func causesOf(of [][]string) (list []Cause) {
	actions := map[string][]int{}
	var order []string
	for i, causes := range of {
		for _, why := range causes {
			if actions[why] == nil {
				order = append(order, why)
			}
			actions[why] = append(actions[why], i)
		}
	}
	for _, why := range order {
		if i := slices.IndexFunc(list, func(c Cause) bool { return slices.Equal(c.Actions, actions[why]) }); i >= 0 {
			list[i].Why += ", " + why
		} else {
			list = append(list, Cause{why, actions[why]})
		}
	}
	slices.SortStableFunc(list, func(a, b Cause) int { return len(b.Actions) - len(a.Actions) })
	return list
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
