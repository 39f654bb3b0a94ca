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

// reason returns one line that explains why an action must run.
func (r *Runner) reason(a *graph.Action, key actionKey) string {
	diffs := r.differences(a, key)
	if len(diffs) == 0 {
		return "no record of it"
	}
	if len(diffs) > 1 {
		return fmt.Sprintf("%s (and %d more)", diffs[0], len(diffs)-1)
	}
	return diffs[0]
}

// differences lists, field by field, what differs from the last run of a in this build tree.
func (r *Runner) differences(a *graph.Action, key actionKey) []string {
	if len(a.Outputs) == 0 {
		return nil
	}
	last := r.Records.Last(a.Outputs[0])
	if last == nil {
		return []string{sched.NoRecord}
	}
	out := r.unlike(last, a, key)
	if a.Test().Each {
		out = append(out, "it has cache = false")
	}
	for _, o := range last.Outputs {
		if a.Intermediate {
			break
		}
		if _, err := os.Lstat(r.tree.abs(o.Path)); err != nil {
			out = append(out, "output "+o.Path+" is missing, and the cache does not hold it")
		} else if !r.tree.has(o) {
			out = append(out, "output "+o.Path+" was changed by someone else")
		}
	}
	return out
}

// unlike lists what changed since a record was made.
func (r *Runner) unlike(rec *cache.Record, a *graph.Action, key actionKey) []string {
	return slices.AppendSeq(diffFields(rec.Fields, r.keys.fields(a, key)), r.discovery.Changes(a, rec))
}

// diffFields compares the texts of two keys. Arguments are compared as lists.
func diffFields(old, now []cache.Field) (out []string) {
	was, is := byName(old), byName(now)
	out = diffLists("argument", was["arg"], is["arg"])
	told := map[string]bool{"arg": true}
	for _, f := range slices.Concat(now, old) {
		before, had := was[f.Name]
		after, has := is[f.Name]
		old, now := strings.Join(before, " "), strings.Join(after, " ")
		switch {
		case told[f.Name]:
		case !had:
			out = append(out, "new: "+describe(f.Name, now))
		case !has:
			out = append(out, "no longer: "+describe(f.Name, old))
		case old != now:
			out = append(out, change(f.Name, old, now))
		}
		told[f.Name] = true
	}
	return out
}

func byName(fields []cache.Field) map[string][]string {
	values := map[string][]string{}
	for _, f := range fields {
		values[f.Name] = append(values[f.Name], f.Value)
	}
	return values
}

func describe(name, value string) string {
	if strings.HasPrefix(name, "input ") || strings.HasPrefix(name, "tool ") || strings.HasPrefix(name, "library ") || name == "program" || name == "made from" {
		return name
	}
	return name + " " + value
}

func change(name, was, is string) string {
	switch {
	case strings.HasPrefix(name, "input "):
		return strings.TrimPrefix(name, "input ") + " changed"
	case strings.HasPrefix(name, "library "):
		return "the shared library " + strings.TrimPrefix(name, "library ") + " changed"
	case strings.HasPrefix(name, "tool "):
		return "the tools of " + strings.TrimPrefix(name, "tool ") + " changed"
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

// Explanation describes what a build would do with an action, and why.
type Explanation struct {
	Action   *graph.Action
	State    string // "up_to_date", "cached", "run", "failed"
	Why      []string
	Waits    bool     // Why lists the inputs that would be built first; nothing more is known
	Origin   string   // address of the remote cache that a valid record came from, or ""
	Imported []string // if the action would run: what differs from the record of an imported bundle
}

// Explain examines actions in order, without running or restoring anything. imported returns a
// bundle's record by the first output of an action, or nil.
func (r *Runner) Explain(ids []graph.ActionID, imported func(output string) *cache.Record) []Explanation {
	d := NewDryRun(r)
	var out []Explanation
	for _, id := range ids {
		a := r.Graph.Actions[id]
		e := Explanation{Action: a, State: "run"}
		switch v := d.judge(context.Background(), a); {
		case v.err != nil:
			e.State, e.Why = "failed", []string{v.err.Error()}
		case v.record != nil:
			e.Origin = v.record.Origin
			if e.State = string(v.status); v.status == sched.Cached {
				e.Why = r.differences(a, v.key)
			}
		case len(v.unmade) > 0:
			e.Waits = true
			for _, in := range v.unmade {
				e.Why = append(e.Why, in+" would be built first")
			}
		default:
			e.Why = r.differences(a, v.key)
			if rec := imported(a.Outputs[0]); rec != nil {
				e.Imported = r.unlike(rec, a, v.key)
			}
		}
		if e.State == "run" {
			d.mark(a)
		}
		out = append(out, e)
	}
	return out
}
