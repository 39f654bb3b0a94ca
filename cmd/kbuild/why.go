package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/execute"
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
	Origin   string   `json:"origin,omitempty"`   // of one that is up to date or cached: address of the remote cache that its record came from
	Imported []string `json:"imported,omitempty"` // of one that would run: what is unlike the imported cache
	Whole    string   `json:"whole,omitempty"`    // why the compiler runs as one command
	Kept     []string `json:"kept,omitempty"`     // what a device link keeps for plain host code, and for whom
}

// Run says what a build would do and why: in sum, or of each action with -v or where something is
// named.
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
	list := t.Runner.Explain(p.Graph.Closure(want), t.Imported())
	if len(cmd.What) == 0 && !c.JSON && !c.Verbose {
		cmd.summary(c, p.Graph, list)
	} else if err := cmd.each(c, p.Graph, t.Runner, list); err != nil {
		return err
	}
	if len(cmd.What) == 0 && !c.JSON {
		for _, why := range w.Misparsed() {
			fmt.Fprintf(c.out, "misparsed: %s\n", why)
		}
	}
	return nil
}

// each tells of every action; of those that are up to date, only where something is named.
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
		e.Kept = r.Kept(a)
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

// writeWhy tells of an action.
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

// origin says where the record came from by which nothing has to run. Of what is up to date it may
// also be that of a run.
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
