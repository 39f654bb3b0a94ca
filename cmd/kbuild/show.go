package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
)

type planCmd struct {
	Targets []string `arg:"" optional:"" help:"Targets to plan (default: what kbuild would build)."`
	List    bool     `help:"List targets, groups and variables instead."`
}

// Run shows the plan. It never runs a compiler.
func (cmd planCmd) Run(c *cli) error {
	s, err := c.plan()
	if err != nil {
		return err
	}
	if cmd.List {
		return s.list()
	}
	want, err := s.selectAll(cmd.Targets)
	if err != nil {
		return err
	}
	ids := s.graph.Closure(want)
	if c.JSON {
		return s.graph.WriteJSON(c.out, graph.DrawOptions{Want: want})
	}
	target := ""
	for _, id := range ids {
		a := s.graph.Actions[id]
		if a.Target != target {
			target = a.Target
			fmt.Fprintf(c.out, "%s (%s)\n", target, a.Pos)
		}
		fmt.Fprintf(c.out, "  %s %s%s\n", a.Kind, a.Name, codes(a))
		fmt.Fprintf(c.out, "    %s\n", term.ShellQuote(a.Argv))
	}
	return nil
}

// codes is " [lto: lto_80 lto_90]", or nothing for host work.
func codes(a *graph.Action) string {
	if len(a.Archs) == 0 {
		return ""
	}
	return fmt.Sprintf(" [%s: %s]", a.Mode, strings.Join(a.Archs, " "))
}

func (s *session) list() error {
	out := s.cli.out
	for _, t := range s.graph.Targets {
		fmt.Fprintf(out, "%-40s %s\n", t.Label, strings.Join(t.Outputs, " "))
	}
	for _, v := range s.project.Variables {
		fmt.Fprintf(out, "%-40s %s = %s (%s)\n", "var."+v.Name, v.Type, v.Value, v.Source)
	}
	return nil
}

type graphCmd struct {
	Targets  []string `arg:"" optional:"" help:"Targets to draw with all they need (default: what kbuild would build)."`
	Format   string   `enum:"dot,json,mermaid" default:"dot" help:"dot, json or mermaid."`
	Collapse bool     `help:"One node for each target and kind of action."`
}

func (cmd graphCmd) Run(c *cli) error {
	s, want, err := c.planned(cmd.Targets)
	if err != nil {
		return err
	}
	opts := graph.DrawOptions{Want: want, Collapse: cmd.Collapse}
	switch {
	case cmd.Format == "json" || c.JSON:
		return s.graph.WriteJSON(c.rawOut(), opts)
	case cmd.Format == "mermaid":
		return s.graph.WriteMermaid(c.out, opts)
	}
	return s.graph.WriteDOT(c.out, opts)
}

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
	Imported []string `json:"imported,omitempty"` // of one that would run: what is unlike the imported cache
	Whole    string   `json:"whole,omitempty"`    // why nvcc runs as one command
	Kept     []string `json:"kept,omitempty"`     // what a device link keeps for plain host code, and for whom
}

// Run says for each action what a build would do and why.
func (cmd whyCmd) Run(c *cli) error {
	c.DryRun = true
	s, want, t, err := c.opened(cmd.What)
	if err != nil {
		return err
	}
	defer t.close()
	ids := s.graph.Closure(want)
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	quiet := 0
	for _, v := range t.runner.Explain(ids, t.imported()) {
		a := v.Action
		e := whyEntry{"why", a.Target, a.Name, a.Outputs[0], v.State, v.Why, v.Imported, a.Whole, nil}
		isQuiet := v.State == "up_to_date" && len(cmd.What) == 0 && !c.JSON
		if !isQuiet {
			e.Kept = t.runner.Kept(a)
		}
		switch {
		case c.JSON:
			if err := enc.Encode(e); err != nil {
				return err
			}
		case isQuiet:
			quiet++
		default:
			arch := ""
			if a.Part && len(a.Archs) > 0 {
				arch = " " + a.Archs[0]
			}
			fmt.Fprintf(c.out, "%s %s %s%s (%s): %s\n", a.Target, a.Kind, a.Name, arch, a.Pos, stateWords[v.State])
			for _, w := range v.Why {
				fmt.Fprintf(c.out, "  %s\n", w)
			}
			for _, w := range v.Imported {
				fmt.Fprintf(c.out, "  unlike the imported cache: %s\n", w)
			}
			for _, k := range e.Kept {
				fmt.Fprintf(c.out, "  %s\n", k)
			}
			if a.Whole != "" {
				fmt.Fprintf(c.out, "  nvcc runs as one command: %s\n", a.Whole)
			}
		}
	}
	if quiet > 0 {
		fmt.Fprintf(c.out, "%d actions are up to date\n", quiet)
	}
	if len(cmd.What) == 0 && !c.JSON {
		c.tellDistrusted()
	}
	return nil
}

var stateWords = map[string]string{
	"up_to_date": "is up to date",
	"cached":     "would be restored from the cache",
	"run":        "would run",
	"failed":     "cannot run",
}
