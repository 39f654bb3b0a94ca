package main

import "github.com/kbuild-dev/kbuild/graph"

type graphCmd struct {
	Targets  []string `arg:"" optional:"" help:"Targets to draw with all they need (default: what kbuild would build)."`
	Format   string   `enum:"dot,json,mermaid" default:"dot" help:"dot, json or mermaid."`
	Collapse bool     `xor:"nodes" help:"One node for each target and kind of action."`
	Whole    bool     `name:"targets" xor:"nodes" help:"One node for each target."`
}

func (cmd graphCmd) Run(c *cli) error {
	p, want, err := c.workspace().PlanFor(c.named(cmd.Targets))
	if err != nil {
		return err
	}
	opts := graph.DrawOptions{Want: want, Collapse: cmd.Collapse, Targets: cmd.Whole}
	switch {
	case cmd.Format == "json" || c.JSON:
		return p.Graph.WriteJSON(c.out.Raw(), opts)
	case cmd.Format == "mermaid":
		return p.Graph.WriteMermaid(c.out, opts)
	}
	return p.Graph.WriteDOT(c.out, opts)
}
