package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type doctorCmd struct{}

// Run checks what a build needs; a manifest is not needed.
func (doctorCmd) Run(c *cli) error {
	w := c.workspace()
	dir, err := w.ActionCache()
	if err != nil {
		return err
	}
	r := probe.Request{Root: c.Dir, Env: os.Getenv, NeedCUDA: true, NeedNative: true}
	var misread func(plan.Facts) []string
	if _, err := os.Stat(filepath.Join(c.Dir, c.manifestName())); err == nil {
		if p, diags := manifest.Load(manifest.Options{Dir: c.Dir, File: c.File, Env: os.LookupEnv, Version: version}); !diags.HasErrors() {
			r = w.Request(p)
			r.NeedCUDA, r.NeedNative, r.MemoPath = r.NeedCUDA || !r.NeedHIP, true, ""
			misread = func(f plan.Facts) []string { return w.MisparsedBy(p, f) }
		}
	}
	if !probe.Doctor(context.Background(), c.out, r, dir, misread) {
		return exitError{status: exitRequirement}
	}
	return nil
}
