package main

import (
	"bytes"
	"errors"
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
		files = append([]string{c.manifestName()}, importedFiles(c)...)
		if _, err := os.Lstat(filepath.Join(c.Dir, "kernels.local.hcl")); err == nil {
			files = append(files, "kernels.local.hcl")
		}
	}
	differ := false
	for _, f := range files {
		if f == "-" {
			changed, err := formatStream(c, os.Stdin, cmd.Check)
			if err != nil {
				return err
			}
			differ = differ || changed
			continue
		}
		changed, err := formatFile(c, f, cmd.Check)
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

// importedFiles returns the manifests that this project's manifest imports. Load errors are ignored
// here: formatting each file reports them.
func importedFiles(c *cli) (files []string) {
	project, _ := manifest.Load(c.workspace().Manifest)
	for _, f := range project.Files {
		if f != project.File && f != manifest.LocalFile && filepath.Ext(f) == filepath.Ext(project.File) {
			files = append(files, filepath.Join(filepath.Dir(c.manifestName()), f))
		}
	}
	return files
}

// formatStream formats a stream to standard output. With check it writes nothing.
func formatStream(c *cli, in io.Reader, check bool) (changed bool, err error) {
	src, err := io.ReadAll(io.LimitReader(in, manifest.MaxSource+1))
	switch {
	case err != nil:
		return false, fmt.Errorf("reading standard input: %w", err)
	case len(src) > manifest.MaxSource:
		return false, exitError{exitUsage, errors.New("standard input is too large for a manifest")}
	}
	out, diags := manifest.Format(src, "standard input")
	if diags.HasErrors() {
		c.Diagnose(diags)
		return false, exitError{status: exitUsage}
	}
	if !check {
		_, err = c.out.Raw().Write(out)
	}
	return !bytes.Equal(src, out), err
}

// formatFile rewrites one file. If the file changes, format prints its name.
func formatFile(c *cli, file string, check bool) (changed bool, err error) {
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
