package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/cmd/internal/reference"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type helpCmd struct {
	About []string `arg:"" optional:"" help:"A command (cache stats), or a block or attribute of kernels.hcl (library.sources)."`
}

// Run shows the help of a command, or explains a block or attribute of the manifest.
func (cmd helpCmd) Run(c *cli, parser *kong.Kong) error {
	node := parser.Model.Node
	for _, word := range cmd.About {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		if i < 0 {
			return cmd.explain(c, parser)
		}
		node = node.Children[i]
	}
	if status := c.run(append(slices.Clone(cmd.About), "--help")); status != 0 {
		return exitError{status: status}
	}
	return nil
}

func (cmd helpCmd) explain(c *cli, parser *kong.Kong) error {
	err := reference.Explain(c.out, cmd.About[0])
	if err == nil {
		return nil
	}
	if near := nearCommand(parser.Model.Node, cmd.About[0]); near != "" {
		return usagef("there is no command %q; did you mean `kbuild %s`?", cmd.About[0], near)
	}
	return exitError{exitUsage, err}
}

// nearCommand returns the command with the most similar name, or "".
func nearCommand(app *kong.Node, word string) string {
	var names []string
	for _, n := range app.Children {
		names = append(names, n.Name)
	}
	return manifest.Nearest(word, names)
}

// meantCommand returns the command line that the user may have meant with a target that does not
// exist.
func (c *cli) meantCommand(targets []string) string {
	if len(targets) == 0 {
		return ""
	}
	if own := ownWords(targets[0]); own != "" || strings.ContainsAny(targets[0], "./") {
		return own
	}
	line := commandLine{cli: &cli{out: c.out, err: c.err}}
	if near := nearCommand(line.parser().Model.Node, targets[0]); near != "" {
		return "kbuild " + near
	}
	return ""
}

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
