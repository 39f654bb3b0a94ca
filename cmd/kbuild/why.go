package main

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/actions/execute"
)

type whyCmd struct {
	What []string `arg:"" optional:"" help:"Targets, outputs or sources (default: everything)."`
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
	Whole    string   `json:"whole,omitempty"`    // why nvcc runs as one command
	Kept     []string `json:"kept,omitempty"`     // what a device link keeps for plain host code, and for whom
}

// Run says for each action what a build would do and why.
func (cmd whyCmd) Run(c *cli) error {
	w := c.workspace()
	w.DryRun = true
	p, t, want, err := w.Open(cmd.What)
	if err != nil {
		return err
	}
	defer t.Close()
	ids := p.Graph.Closure(want)
	quiet := 0
	for _, v := range t.Runner.Explain(ids, t.Imported()) {
		a := v.Action
		e := whyEntry{"why", a.Target, a.Name, a.Outputs[0], v.State, v.Why, v.Origin, v.Imported, a.Driver().UnsplitReason, nil}
		isQuiet := v.State == "up_to_date" && len(cmd.What) == 0 && !c.JSON
		if !isQuiet {
			e.Kept = t.Runner.Kept(a)
		}
		switch {
		case c.JSON:
			if err := c.out.Event(e); err != nil {
				return err
			}
		case isQuiet:
			quiet++
		default:
			arch := ""
			if a.Intermediate && len(a.Archs) > 0 {
				arch = " " + a.Archs[0]
			}
			fmt.Fprintf(c.out, "%s %s %s%s (%s): %s\n", a.Target, a.Kind, a.Name, arch, a.Pos, stateWords[v.State])
			for _, w := range v.Why {
				fmt.Fprintf(c.out, "  %s\n", w)
			}
			if from := origin(v); from != "" {
				fmt.Fprintf(c.out, "  %s\n", from)
			}
			for _, w := range v.Imported {
				fmt.Fprintf(c.out, "  unlike the imported cache: %s\n", w)
			}
			for _, k := range e.Kept {
				fmt.Fprintf(c.out, "  %s\n", k)
			}
			if a.Driver().UnsplitReason != "" {
				fmt.Fprintf(c.out, "  nvcc runs as one command: %s\n", a.Driver().UnsplitReason)
			}
		}
	}
	if quiet > 0 {
		fmt.Fprintf(c.out, "%d actions are up to date\n", quiet)
	}
	if len(cmd.What) == 0 && !c.JSON {
		for _, why := range w.Misparsed() {
			fmt.Fprintf(c.out, "misparsed: %s\n", why)
		}
	}
	return nil
}

// origin says where the record came from by which nothing has to run. Of what is up to date it may also be that of a run.
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
