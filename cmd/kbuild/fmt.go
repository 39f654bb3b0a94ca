package main

import (
	"bytes"
	"errors"
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
	return true, rewrite(name, out)
}

// rewrite replaces the content of a manifest, which may be behind a link, and leaves its mode.
func rewrite(name string, text []byte) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	err = regular.ReplaceFrom(real, func(f *os.File) error {
		_, err := f.Write(text)
		return errors.Join(err, f.Chmod(info.Mode().Perm()))
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
