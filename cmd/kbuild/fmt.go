package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type fmtCmd struct {
	Check bool     `help:"Change nothing; exit 1 and name the files that are not formatted."`
	Files []string `arg:"" optional:"" help:"Files (default: kernels.hcl and kernels.local.hcl)."`
}

func (cmd fmtCmd) Run(c *cli) error {
	files := cmd.Files
	if len(files) == 0 {
		files = []string{c.manifestName()}
		if _, err := os.Lstat(filepath.Join(c.Dir, "kernels.local.hcl")); err == nil {
			files = append(files, "kernels.local.hcl")
		}
	}
	differ := false
	for _, f := range files {
		changed, err := c.format(f, cmd.Check)
		if err != nil {
			return err
		}
		differ = differ || changed
	}
	if cmd.Check && differ {
		return exitError{status: exitFailed}
	}
	return nil
}

// format rewrites one file, and names it on standard output if it changed.
func (c *cli) format(file string, check bool) (changed bool, err error) {
	name := c.seen(file)
	src, err := regular.ReadAtMost(name, manifest.MaxSource)
	if err != nil {
		return false, exitError{exitUsage, err}
	}
	out, diags := manifest.Format(src, file)
	if diags.HasErrors() {
		c.Diagnose(diags)
		return false, exitError{status: exitUsage}
	}
	if bytes.Equal(src, out) {
		return false, nil
	}
	fmt.Fprintln(c.out.Paths(), file)
	if check {
		return true, nil
	}
	if err := regular.Rewrite(name, out); err != nil {
		return true, fmt.Errorf("writing %s: %w", name, err)
	}
	return true, nil
}
