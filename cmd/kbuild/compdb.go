package main

import (
	"encoding/json"

	"github.com/kbuild-dev/kbuild/cmd/internal/compdb"
)

type compdbCmd struct {
	Targets []string `arg:"" optional:"" help:"Targets to list (default: all)."`
}

func (cmd compdbCmd) Run(c *cli) error {
	w := c.workspace()
	w.NoSplit = true
	p, want, err := w.PlanFor(cmd.Targets)
	if err != nil {
		return err
	}
	toolkit := ""
	if k := p.Facts.CUDA.Toolkit; k != nil {
		toolkit = k.Root
	}
	enc := json.NewEncoder(c.out.Raw())
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(compdb.Commands(p.Graph, want, p.Root, toolkit))
}
