package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/inprocess"
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
		fmt.Fprintf(c.out, "%d actions are up to date\n", quiet)
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
