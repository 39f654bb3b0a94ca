package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type fmtCmd struct {
	Check bool     `help:"Change nothing; exit 1 and name the files that are not formatted."`
	Files []string `arg:"" optional:"" help:"Files (default: kernels.hcl, what it imports, and kernels.local.hcl); - formats standard input to standard output."`
}

func (cmd fmtCmd) Run(c *cli) error {
	files := cmd.Files
	if len(files) == 0 {
		c.locate()
		files = []string{c.manifestName()}
		project, _ := manifest.Load(c.workspace().Manifest) // formatting each file reports errors
		for _, f := range project.Files {
			if f != project.File && f != manifest.LocalFile && filepath.Ext(f) == filepath.Ext(project.File) {
				files = append(files, filepath.Join(filepath.Dir(c.manifestName()), f))
			}
		}
		if _, err := os.Lstat(filepath.Join(c.Dir, "kernels.local.hcl")); err == nil {
			files = append(files, "kernels.local.hcl")
		}
	}
	differ := false
	for _, f := range files {
		shown, name := f, c.seen(f)
		var src []byte
		var err error
		if f == "-" {
			shown = "standard input"
			src, err = io.ReadAll(io.LimitReader(os.Stdin, manifest.MaxSource+1))
			if err == nil && len(src) > manifest.MaxSource {
				err = usagef("standard input is too large for a manifest")
			}
		} else if src, err = regular.ReadAtMost(name, manifest.MaxSource); err != nil {
			err = exitError{exitUsage, err}
		}
		if err != nil {
			return err
		}
		out, diags := manifest.Format(src, shown)
		if diags.HasErrors() {
			c.Diagnose(diags)
			return exitError{status: exitUsage}
		}
		changed := !bytes.Equal(src, out)
		differ = differ || changed
		if f == "-" {
			if !cmd.Check {
				_, err = c.out.Raw().Write(out)
			}
		} else if changed {
			fmt.Fprintln(c.out.Paths(), f)
			if !cmd.Check {
				err = regular.Rewrite(name, out)
			}
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", shown, err)
		}
	}
	if cmd.Check && differ {
		return exitError{status: exitFailed}
	}
	return nil
}
