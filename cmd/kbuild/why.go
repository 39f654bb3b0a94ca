package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/inprocess"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

type whyCmd struct {
	What []string `arg:"" optional:"" help:"Targets, outputs or sources, each of whose actions is told of (default: everything, in sum)."`
	Last bool     `help:"Say what the last build did that had something to do."`
}

// whyEntry is one action of `kbuild why --json`.
type whyEntry struct {
	Event    string   `json:"event"`
	Target   string   `json:"target"`
	Name     string   `json:"name"`
	Output   string   `json:"output"`
	State    string   `json:"state"` // "up_to_date", "cached", "run", "failed"
	Why      []string `json:"why"`
	Origin   string   `json:"origin,omitempty"`   // address of the remote cache that had the record
	Imported []string `json:"imported,omitempty"` // for run: the differences to the imported cache
	Whole    string   `json:"whole,omitempty"`    // why the compiler runs unsplit
	Kept     []string `json:"kept,omitempty"`     // what a device link keeps for host code, and why
}

// Run reports what a build would do and why. It prints a summary, or every action with -v or for
// named targets.
func (cmd whyCmd) Run(c *cli) error {
	if cmd.Last {
		if len(cmd.What) > 0 {
			return usagef("--last tells of a whole build, and takes no names")
		}
		return cmd.last(c)
	}
	w := c.workspace()
	w.DryRun = true
	p, t, want, err := w.Open(c.named(cmd.What))
	if err != nil {
		return err
	}
	defer t.Close()
	list := execute.NewDryRun(t.Runner).Explain(p.Graph.Closure(want), t.Imported())
	if len(cmd.What) == 0 && !c.JSON && !c.Verbose {
		cmd.summary(c, p.Graph, list)
	} else if err := cmd.each(c, p.Graph, t.Runner, list); err != nil {
		return err
	}
	if len(cmd.What) == 0 && !c.JSON {
		for _, why := range slices.Sorted(maps.Values(p.SplitFailures)) {
			fmt.Fprintf(c.out, "misparsed: %s\n", why)
		}
	}
	return nil
}

// each reports every action. Actions that are up to date are listed only for named targets or with
// --json.
func (cmd whyCmd) each(c *cli, g *graph.Graph, r *execute.Runner, list []execute.Explanation) error {
	_, causes := engine.WouldRunFor(g, list)
	quiet := 0
	for i, v := range list {
		a := v.Action
		e := whyEntry{"why", a.Target, a.Name, a.Outputs[0], v.State, v.Why, v.Origin, v.Imported, a.Driver().UnsplitReason, nil}
		if v.State == "up_to_date" && len(cmd.What) == 0 && !c.JSON {
			quiet++
			continue
		}
		e.Kept = inprocess.Kept(r.Root, a)
		if c.JSON {
			if err := c.out.Event(e); err != nil {
				return err
			}
			continue
		}
		why := v.Why
		if v.Waits && !c.Verbose && len(causes[i]) > 0 {
			why = []string{"waits for others, for which " + strings.Join(causes[i], ", ")}
		}
		writeWhy(c.out, v, why, e.Kept)
	}
	if quiet > 0 {
		fmt.Fprintf(c.out, "%s\n", inState(quiet, "up_to_date"))
	}
	return nil
}

// writeWhy prints one action.
func writeWhy(out io.Writer, v execute.Explanation, why, kept []string) {
	a := v.Action
	arch := ""
	if a.Intermediate && len(a.Archs) > 0 {
		arch = " " + a.Archs[0]
	}
	fmt.Fprintf(out, "%s %s %s%s (%s): %s\n", a.Target, a.Kind, a.Name, arch, a.Pos, stateWords[v.State])
	for _, w := range why {
		fmt.Fprintf(out, "  %s\n", w)
	}
	if from := origin(v); from != "" {
		fmt.Fprintf(out, "  %s\n", from)
	}
	for _, w := range v.Imported {
		fmt.Fprintf(out, "  unlike the imported cache: %s\n", w)
	}
	for _, k := range kept {
		fmt.Fprintf(out, "  %s\n", k)
	}
	if whole := a.Driver().UnsplitReason; whole != "" {
		fmt.Fprintf(out, "  %s runs as one command: %s\n", a.DriverName(), whole)
	}
}

// origin returns where the record came from that makes running the action unnecessary. It is "" for
// an up-to-date action whose record is local.
func origin(v execute.Explanation) string {
	switch {
	case v.Origin != "":
		return "its record came from the remote cache " + v.Origin
	case v.State == "cached":
		return "its record is from the cache of this machine"
	}
	return ""
}

var stateWords = map[string]string{
	"up_to_date": "is up to date",
	"cached":     "would be restored from the cache",
	"run":        "would run",
	"failed":     "cannot run",
}

// mostCauses limits the causes in a summary. The first causes account for most actions.
const mostCauses = 12

// writeCauses prints each cause with the actions of all that it triggers: "up to 17 actions: 1
// source, 2 device links, executable.app". If they have run, it prints how long they took.
func writeCauses(out io.Writer, causes []engine.Cause, all []engine.LastAction, ran bool) {
	for i, c := range causes {
		if i == mostCauses {
			fmt.Fprintf(out, "and %s more\n", graph.Count(len(causes)-i, "cause"))
			break
		}
		var ms int64
		for _, i := range c.Actions {
			ms += all[i].ElapsedMS
		}
		many := graph.Count(len(c.Actions), "action")
		if ran {
			many += fmt.Sprintf(", %.1fs", float64(ms)/1000)
		} else {
			many = "up to " + many
		}
		fmt.Fprintf(out, "%s\n  %s: %s\n", c.Why, many, madeBy(c.Actions, all))
	}
}

// madeBy summarizes the outputs of actions: sources compiled, device links, targets.
func madeBy(ids []int, all []engine.LastAction) string {
	sources, targets, links := map[[2]string]bool{}, []string{}, 0
	for _, i := range ids {
		a := all[i]
		switch info := a.Kind.Info(); {
		case info.Reads == graph.FormSource, info.Reads == graph.FormText:
			sources[[2]string{a.Target, a.Name}] = true
		case info.Pool == graph.DeviceLinkPool:
			links++
		}
		if !slices.Contains(targets, a.Target) {
			targets = append(targets, a.Target)
		}
	}
	var parts []string
	if len(sources) > 0 {
		parts = append(parts, graph.Count(len(sources), "source"))
	}
	if links > 0 {
		parts = append(parts, graph.Count(links, "device link"))
	}
	slices.Sort(targets)
	if more := len(targets) - 3; more > 1 {
		targets = append(targets[:3], fmt.Sprintf("%d more targets", more))
	}
	return strings.Join(append(parts, targets...), ", ")
}

// summary prints the summary that `kbuild why` shows without names.
func (cmd whyCmd) summary(c *cli, g *graph.Graph, list []execute.Explanation) {
	causes, _ := engine.WouldRunFor(g, list)
	all := make([]engine.LastAction, len(list))
	for i, e := range list {
		all[i] = engine.LastAction{Kind: e.Action.Kind, Target: e.Action.Target, Name: e.Action.Name}
	}
	writeCauses(c.out, causes, all, false)
	states, whole := map[string]int{}, map[string]int{}
	for _, e := range list {
		states[e.State]++
		if why := e.Action.Driver().UnsplitReason; why != "" {
			whole[e.Action.DriverName()+"\n"+why]++
		}
		if e.State == "failed" {
			fmt.Fprintf(c.out, "%s %s cannot run: %s\n", e.Action.Target, e.Action.Name, strings.Join(e.Why, ", "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		driver, why, _ := strings.Cut(key, "\n")
		fmt.Fprintf(c.out, "%s runs as one command (%s): %s\n", driver, graph.Count(whole[key], "action"), why)
	}
	for _, state := range []string{"cached", "up_to_date"} {
		if n := states[state]; n > 0 {
			fmt.Fprintln(c.out, inState(n, state))
		}
	}
	if states["run"] > 0 {
		fmt.Fprintf(c.out, "An output that comes out as it was stops what waits for it, so that fewer may run. `kbuild why -v` tells of each action, `kbuild why NAME` of some.\n")
	}
}

// inState says that a number of actions are in a state: "1 action is up to date".
func inState(n int, state string) string {
	be := stateWords[state]
	if n > 1 {
		be = strings.Replace(be, "is ", "are ", 1)
	}
	return graph.Count(n, "action") + " " + be
}

// last prints what the last build did.
func (cmd whyCmd) last(c *cli) error {
	l, ok := c.workspace().LastBuild()
	if !ok {
		return usagef("no build in this build tree has run anything yet, as far as it is known; `kbuild why` says what one would run")
	}
	states := map[sched.Status]int{}
	for _, a := range l.Actions {
		states[a.Status]++
		if c.JSON {
			if err := c.out.Event(lastEntry(a)); err != nil {
				return err
			}
		}
	}
	if c.JSON {
		return nil
	}
	var parts []string
	for _, s := range []struct {
		status sched.Status
		word   string
	}{{sched.Ran, "ran"}, {sched.Cached, "came from the cache"}, {sched.Failed, "failed"}, {sched.Skipped, "not reached"}} {
		if n := states[s.status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.word))
		}
	}
	fmt.Fprintf(c.out, "The build of %s: of %s, %s.\n", l.Began.Local().Format(time.DateTime), graph.Count(l.Total, "action"), strings.Join(parts, ", "))
	writeCauses(c.out, l.Causes(), l.Actions, true)
	if c.Verbose {
		for _, a := range l.Actions {
			took := ""
			if a.ElapsedMS > 0 {
				took = fmt.Sprintf(", %.1fs", float64(a.ElapsedMS)/1000)
			}
			fmt.Fprintf(c.out, "%s %s %s%s%s (%s): %s%s\n", a.Target, a.Kind, a.Name,
				after(" ", strings.Join(a.Archs, " ")), took, a.Pos, a.Status, after(": ", a.Reason))
		}
	}
	return nil
}

// after prepends before to a non-empty text.
func after(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// lastEntry builds an event of `kbuild why --last --json`.
func lastEntry(a engine.LastAction) any {
	return struct {
		Event     string       `json:"event"`
		Target    string       `json:"target"`
		Kind      graph.Kind   `json:"kind"`
		Name      string       `json:"name"`
		Archs     []string     `json:"archs"`
		Output    string       `json:"output"`
		Status    sched.Status `json:"status"`
		Reason    string       `json:"reason"`
		Causes    []string     `json:"causes"`
		ElapsedMS int64        `json:"elapsed_ms"`
	}{"why_last", a.Target, a.Kind, a.Name, a.Archs, a.Output, a.Status, a.Reason, a.Causes, a.ElapsedMS}
}
