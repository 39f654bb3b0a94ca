package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/cmd/internal/reference"
)

type completionCmd struct {
	Shell string `arg:"" optional:"" enum:"bash,zsh,fish,targets" default:"bash" help:"bash, zsh or fish."`
}

// Run writes the script. `kbuild completion targets` is what the scripts call for target names.
func (cmd completionCmd) Run(c *cli, parser *kong.Kong) error {
	if cmd.Shell != "targets" {
		return reference.Completion(c.out, cmd.Shell, parser.Model)
	}
	if p, err := c.workspace().Plan(); err == nil { // a shell that completes must not be told off
		fmt.Fprintln(c.out.Paths(), strings.Join(p.Graph.Names(), "\n"))
	}
	return nil
}
