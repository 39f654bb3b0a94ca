package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/cmd/internal/reference"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

type manCmd struct {
	Folder string `arg:"" optional:"" help:"Where to put kbuild.1 and kernels.hcl.5 (default: kbuild.1 is shown)."`
}

// Run writes the pages into a folder and prints their paths, or shows kbuild.1.
func (cmd manCmd) Run(c *cli, parser *kong.Kong) error {
	pages := reference.Man(parser.Model)
	if cmd.Folder == "" {
		return showPage(c, pages["kbuild.1"])
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

// showPage shows a page with man. It prints the source instead if man is not installed or standard
// output is not a terminal.
func showPage(c *cli, page []byte) error {
	man, err := exec.LookPath("man")
	if err != nil || !term.IsTerminal(c.out.To) {
		_, err := c.out.Raw().Write(page)
		return err
	}
	dir, err := os.MkdirTemp("", "kbuild-man-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "kbuild.1")
	if err := os.WriteFile(file, page, 0o666); err != nil {
		return err
	}
	show := exec.Command(man, "-l", file)
	show.Stdin, show.Stdout, show.Stderr = os.Stdin, os.Stdout, os.Stderr
	return show.Run()
}
