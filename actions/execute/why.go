package execute

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// reason says in one line why an action that is not settled must run.
func (r *Runner) reason(a *graph.Action, p pending) string {
	diffs := r.differences(a, p)
	if len(diffs) == 0 {
		return "no record of it"
	}
	if len(diffs) > 1 {
		return fmt.Sprintf("%s (and %d more)", diffs[0], len(diffs)-1)
	}
	return diffs[0]
}

// differences lists, field by field, what is unlike the last run of a in this build tree.
func (r *Runner) differences(a *graph.Action, p pending) []string {
	if len(a.Outputs) == 0 {
		return nil
	}
	last := r.Journal.Last(a.Outputs[0])
	if last == nil {
		return []string{"no record of an earlier run in this build tree"}
	}
	out := r.unlike(last, a, p)
	for _, o := range last.Outputs {
		if a.Intermediate {
			break
		}
		if _, err := os.Lstat(r.abs(o.Path)); err != nil {
			out = append(out, "output "+o.Path+" is missing, and the cache does not hold it")
		} else if !r.isPlaced(o) {
			out = append(out, "output "+o.Path+" was changed by someone else")
		}
	}
	return out
}

// unlike lists the fields of a record that are not as they are today.
func (r *Runner) unlike(rec *cache.Record, a *graph.Action, p pending) []string {
	return slices.AppendSeq(DiffFields(rec.Fields, p.fields), r.discovery.Changes(a, rec))
}

// DiffFields compares the texts of two keys. Arguments are compared as lists.
func DiffFields(old, now []cache.Field) []string {
	var out []string
	oldArgs, oldRest := split(old)
	nowArgs, nowRest := split(now)
	out = append(out, diffLists("argument", oldArgs, nowArgs)...)
	for _, f := range now {
		was, had := oldRest[f.Name]
		switch is := nowRest[f.Name]; {
		case f.Name == "arg":
		case !had:
			out = append(out, "new: "+describe(f.Name, is))
		case was != is:
			out = append(out, change(f.Name, was, is))
		}
		delete(nowRest, f.Name)
		nowRest[f.Name] = was // reported once
	}
	_, nowRest = split(now)
	for _, f := range old {
		if _, have := nowRest[f.Name]; f.Name != "arg" && !have {
			out = append(out, "no longer: "+describe(f.Name, oldRest[f.Name]))
			nowRest[f.Name] = ""
		}
	}
	return out
}

// split separates arguments from the other fields; fields of one name are joined.
func split(fields []cache.Field) (args []string, rest map[string]string) {
	rest = map[string]string{}
	for _, f := range fields {
		if f.Name == "arg" {
			args = append(args, f.Value)
			continue
		}
		if have, ok := rest[f.Name]; ok {
			f.Value = have + " " + f.Value
		}
		rest[f.Name] = f.Value
	}
	return args, rest
}

func describe(name, value string) string {
	if strings.HasPrefix(name, "input ") || strings.HasPrefix(name, "tool ") || name == "program" || name == "made from" {
		return name
	}
	return name + " " + value
}

func change(name, was, is string) string {
	switch {
	case strings.HasPrefix(name, "input "):
		return strings.TrimPrefix(name, "input ") + " changed"
	case strings.HasPrefix(name, "tool "):
		return "the tools behind " + strings.TrimPrefix(name, "tool ") + " changed"
	case name == "program":
		return "the program it runs changed"
	case name == "made from":
		return "a source, header, tool or option behind the artifacts changed"
	}
	return fmt.Sprintf("%s was %q, is %q", name, was, is)
}

// diffLists names what was added to and removed from a list, or that its order changed.
func diffLists(what string, old, now []string) []string {
	count := map[string]int{}
	for _, s := range old {
		count[s]--
	}
	for _, s := range now {
		count[s]++
	}
	var out []string
	for _, s := range now {
		if count[s] > 0 {
			out = append(out, fmt.Sprintf("%s added: %s", what, s))
			count[s]--
		}
	}
	for _, s := range old {
		if count[s] < 0 {
			out = append(out, fmt.Sprintf("%s removed: %s", what, s))
			count[s]++
		}
	}
	if out == nil && strings.Join(old, "\x00") != strings.Join(now, "\x00") {
		out = append(out, what+"s in another order")
	}
	return out
}

// Explanation is what a build would do with an action, and why.
type Explanation struct {
	Action   *graph.Action
	State    string // "up_to_date", "cached", "run", "failed"
	Why      []string
	Imported []string // of one that would run: what is unlike the record of a bundle that was imported
}

// Explain looks at actions in order, without running or restoring anything. imported gives the record of a bundle by the first
// output of an action, or nil.
func (r *Runner) Explain(ids []graph.ActionID, imported func(output string) *cache.Record) []Explanation {
	d := NewDryRun(r)
	var out []Explanation
	for _, id := range ids {
		a := r.Graph.Actions[id]
		e := Explanation{Action: a}
		res, settled := d.Check(context.Background(), a)
		switch {
		case settled && res.Status == sched.Failed:
			e.State, e.Why = "failed", []string{res.Err.Error()}
		case settled:
			e.State = string(res.Status)
			if p, err := r.key(a); err == nil && res.Status == sched.Cached {
				e.Why = r.differences(a, p)
			}
		case d.stale(a):
			e.State, e.Why = "run", d.because(a)
			d.mark(a)
		default:
			e.State = "run"
			if p, err := r.key(a); err == nil {
				e.Why = r.differences(a, p)
				if rec := imported(a.Outputs[0]); rec != nil {
					e.Imported = r.unlike(rec, a, p)
				}
			}
			d.mark(a)
		}
		out = append(out, e)
	}
	return out
}
