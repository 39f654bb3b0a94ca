package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/cmd/internal/reference"
)

type manCmd struct {
	Folder string `arg:"" help:"Where to put them."`
}

// Run names the pages that it has written on standard output.
func (cmd manCmd) Run(c *cli, parser *kong.Kong) error {
	for name, text := range reference.Man(parser.Model) {
		file := c.seen(filepath.Join(cmd.Folder, name))
		if err := os.WriteFile(file, text, 0o666); err != nil {
			return err
		}
		fmt.Fprintln(c.out.Paths(), file)
	}
	return nil
}
