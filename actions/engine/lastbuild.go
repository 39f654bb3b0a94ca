package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

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

var moreRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` \(and \d+ more\)$`) })

// write stores l in the build tree. Only people read it, so errors are ignored.
func (l *LastBuild) write(g *graph.Graph, want []graph.ActionID, state string) {
	if len(l.Actions) == 0 {
		return
	}
	own := map[graph.ActionID][]string{}
	for _, a := range l.Actions {
		if own[a.id] = nil; a.Reason != "" {
			own[a.id] = []string{moreRE().ReplaceAllString(a.Reason, "")}
		}
	}
	causes := attribute(g, g.Closure(want), own)
	for i, a := range l.Actions {
		l.Actions[i].Causes = causes[a.id]
	}
	if text, err := json.Marshal(l); err == nil {
		regular.ReplaceFrom(filepath.Join(state, lastBuildFile), func(f *os.File) error {
			_, err := f.Write(text)
			return err
		})
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
