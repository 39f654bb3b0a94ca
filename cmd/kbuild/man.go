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

// Run names the pages that it has written on standard output.
func (cmd manCmd) Run(c *cli, parser *kong.Kong) error {
	pages := maps.Collect(reference.Man(parser.Model))
	if cmd.Folder == "" {
		return c.showPage(pages["kbuild.1"])
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

// showPage has man show a page on a terminal. Where there is no man, and where no person reads, it
// is written as it is.
func (c *cli) showPage(page []byte) error {
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
