package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/cmd/internal/reference"
)

type manCmd struct {
	Folder string `arg:"" optional:"" help:"Where to put kbuild.1 and kernels.hcl.5 (default: kbuild.1 is written to standard output, for man -l -)."`
}

// Run writes the pages into a folder and prints their paths, or writes kbuild.1 to standard output.
func (cmd manCmd) Run(c *cli, parser *kong.Kong) error {
	pages := reference.Man(parser.Model)
	if cmd.Folder == "" {
		_, err := c.out.Raw().Write(pages["kbuild.1"])
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		file := c.seen(filepath.Join(cmd.Folder, name))
		if err := os.WriteFile(file, pages[name], 0o666); err != nil {
			return err
		}
		fmt.Fprintln(c.out.Paths(), file)
	}
	return nil
}
