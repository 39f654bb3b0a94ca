package execute

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// reason returns one line that explains why an action must run.
func (k *keys) reason(a *graph.Action, key actionKey) string {
	diffs := k.differences(a, key)
	if len(diffs) == 0 {
		return "no record of it"
	}
	if len(diffs) > 1 {
		return fmt.Sprintf("%s (and %d more)", diffs[0], len(diffs)-1)
	}
	return diffs[0]
}

// differences lists, field by field, what differs from the last run of a in this build tree.
func (k *keys) differences(a *graph.Action, key actionKey) []string {
	last := k.Records.Last(a.Outputs[0])
	if last == nil {
		return []string{sched.NoRecord}
	}
	out := k.unlike(last, a, key)
	if a.Test().Each {
		out = append(out, "it has cache = false")
	}
	for _, o := range last.Outputs {
		if a.Intermediate {
			break
		}
		if _, err := os.Lstat(k.abs(o.Path)); err != nil {
			out = append(out, "output "+o.Path+" is missing, and the cache does not hold it")
		} else if !k.has(o) {
			out = append(out, "output "+o.Path+" was changed by someone else")
		}
	}
	return out
}

// unlike lists what changed since a record was made.
func (k *keys) unlike(rec *cache.Record, a *graph.Action, key actionKey) []string {
	return slices.AppendSeq(diffFields(rec.Fields, k.fields(a, key)), k.discovery.Changes(a, rec))
}

// diffFields compares the texts of two keys. Arguments are compared as lists.
func diffFields(old, now []cache.Field) (out []string) {
	was, is := byName(old), byName(now)
	out = diffLists("argument", was["arg"], is["arg"])
	listed := map[string]bool{"arg": true}
	for _, f := range slices.Concat(now, old) {
		before, had := was[f.Name]
		after, has := is[f.Name]
		old, now := strings.Join(before, " "), strings.Join(after, " ")
		switch {
		case listed[f.Name]:
		case !had:
			out = append(out, "new: "+describe(f.Name, now))
		case !has:
			out = append(out, "no longer: "+describe(f.Name, old))
		case old != now:
			out = append(out, change(f.Name, old, now))
		}
		listed[f.Name] = true
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

// digests lists the kinds of fields whose value is a digest, with what a change of one means. The %
// stands for the rest of the field's name.
var digests = map[string]string{
	"input":   "% changed",
	"library": "the shared library % changed",
	"tool":    "the tools of % changed",
	"program": "the program it runs changed",
	"made":    "a source, header, tool or option behind the artifacts changed",
}

func describe(name, value string) string {
	if kind, _, _ := strings.Cut(name, " "); digests[kind] != "" {
		return name
	}
	return name + " " + value
}

func change(name, was, is string) string {
	if kind, of, _ := strings.Cut(name, " "); digests[kind] != "" {
		return strings.ReplaceAll(digests[kind], "%", of)
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
