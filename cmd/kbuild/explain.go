package main

import "github.com/kbuild-dev/kbuild/cmd/internal/reference"

type explainCmd struct {
	Name string `arg:"" optional:"" help:"A block (library), an attribute (library.type, opt) or a key of one (flags.nvcc). Without it the blocks are listed."`
}

func (cmd explainCmd) Run(c *cli) error {
	if err := reference.Explain(c.out, cmd.Name); err != nil {
		return exitError{exitUsage, err}
	}
	return nil
}

type schemaCmd struct{}

func (schemaCmd) Run(c *cli) error { return reference.JSONSchema(c.out) }
