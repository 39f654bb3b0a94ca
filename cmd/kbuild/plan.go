package main

import (
	"fmt"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
)

type planCmd struct {
	Targets []string `arg:"" optional:"" help:"Targets to plan (default: what kbuild would build)."`
	List    bool     `help:"List targets, groups and variables instead."`
}

// Run shows the plan. It compiles nothing.
func (cmd planCmd) Run(c *cli) error {
	p, err := c.workspace().Plan()
	if err != nil {
		return err
	}
	if cmd.List {
		listTargets(c, p)
		return nil
	}
	want, err := p.Select(c.named(cmd.Targets))
	if err != nil {
		return err
	}
	ids := p.Graph.Closure(want)
	if c.JSON {
		return p.Graph.WriteJSON(c.out, graph.DrawOptions{Want: want})
	}
	target := ""
	for _, id := range ids {
		a := p.Graph.Actions[id]
		if a.Target != target {
			target = a.Target
			fmt.Fprintf(c.out, "%s (%s)\n", target, a.Pos)
		}
		codes := "" // of host code
		if len(a.Archs) > 0 {
			codes = fmt.Sprintf(" [%s: %s]", a.Mode, strings.Join(a.Archs, " "))
		}
		fmt.Fprintf(c.out, "  %s %s%s\n", a.Kind, a.Name, codes)
		fmt.Fprintf(c.out, "    %s\n", term.ShellQuote(a.Argv))
	}
	for _, line := range p.Fallbacks(ids) {
		c.Note(line)
	}
	return nil
}

// targetEvent is a target in `kbuild plan --list --json`; variableEvent is a variable.
type (
	targetEvent struct {
		Event   string   `json:"event"`
		Target  string   `json:"target"`
		Kind    string   `json:"kind"`
		Outputs []string `json:"outputs"`
		Unbuilt string   `json:"unbuilt,omitempty"` // why it cannot be built on this machine
	}
	variableEvent struct {
		Event  string `json:"event"`
		Name   string `json:"name"`
		Type   string `json:"type"`
		Value  string `json:"value"` // in manifest syntax
		Source string `json:"source"`
	}
)

func listTargets(c *cli, p *engine.Project) {
	for _, t := range p.Graph.Targets {
		c.print(targetEvent{"target", t.Label, t.Kind, append([]string{}, t.Outputs...), t.Unbuilt},
			"%-40s %s\n", t.Label, strings.Join(t.Outputs, " "))
	}
	for _, v := range p.Variables {
		c.print(variableEvent{"variable", v.Name, v.Type, v.Value, v.Source},
			"%-40s %s = %s (%s)\n", "var."+v.Name, v.Type, v.Value, v.Source)
	}
}
