package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

type buildCmd struct {
	Targets   []string `arg:"" optional:"" help:"Targets, outputs or sources to build (default: group default, or everything)."`
	CheckLink []string `placeholder:"LIST" help:"Link the LTO-IR of modules for these GPUs, for example sm_80,sm_90, and fail if it does not link."`
}

func (cmd buildCmd) Run(c *cli) error {
	c.fromMake(os.Getenv("MAKEFLAGS"))
	w := c.workspace()
	var err error
	if w.CheckLink, err = cmd.checkLink(); err != nil {
		return err
	}
	incremental := !c.JSON && !c.Verbose && c.Trace == "" && len(c.KeepCode) == 0 && !c.reports()
	req := engine.Request{Targets: c.named(cmd.Targets), AllowIncremental: incremental, KeepCode: c.KeepCode}
	sum, err := w.Build(req)
	if err != nil && !strings.Contains(err.Error(), "did you mean") {
		_, noFolder := os.Stat(c.Dir)
		_, noManifest := os.Stat(filepath.Join(c.Dir, c.manifestName()))
		try := "" // where a name is no target, or there is no manifest
		if noFolder == nil && (noManifest != nil || errors.As(err, new(engine.UsageError))) {
			try = c.meantCommand(cmd.Targets)
		}
		switch {
		case try == "":
		case errors.Is(err, engine.ErrDiagnosed): // already printed
			c.say("Try: %s", try)
		default:
			err = exitError{exitOf(err).status, fmt.Errorf("%w\nTry: %s", err, try)}
		}
	}
	return c.ended(sum, err)
}

// checkLink parses --check-link.
func (cmd buildCmd) checkLink() (*plan.CheckLink, error) {
	if len(cmd.CheckLink) == 0 {
		return nil, nil
	}
	check := &plan.CheckLink{Modules: cmd.Targets}
	for _, name := range cmd.CheckLink {
		code, err := gencode.Parse(name)
		if err != nil {
			return nil, usagef("--check-link: %v", err)
		}
		if code.Kind != gencode.SASS {
			return nil, usagef("--check-link %s: name the GPUs to link for, such as sm_80,sm_90", name)
		}
		check.Archs = append(check.Archs, code)
	}
	return check, nil
}
