package main

import (
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/scaffold"
)

type initCmd struct {
	Force bool   `help:"Replace an existing kernels.hcl."`
	From  string `placeholder:"DIR" help:"Write it for what another build tool builds: DIR is a build tree of CMake, or has a compile_commands.json, or is one. Never replaces a kernels.hcl."`
}

// Run writes a manifest that builds the sources found: one executable per file with a main, and
// libraries of the rest.
func (cmd initCmd) Run(c *cli) error {
	if cmd.From != "" {
		return cmd.from(c)
	}
	file := filepath.Join(c.Dir, c.manifestName())
	if _, err := os.Lstat(file); err == nil && !cmd.Force {
		return usagef("%s exists; --force replaces it", file)
	}
	found, err := scaffold.Find(c.Dir)
	if err != nil {
		return err
	}
	if len(found.Programs)+len(found.Others) == 0 {
		return usagef("no .cu, .hip, .c, .cc, .cpp or .cxx file below %s", c.Dir)
	}
	err = regular.ReplaceFrom(file, func(f *os.File) error {
		_, err := f.WriteString(scaffold.Manifest(found))
		return err
	})
	if err != nil {
		return err
	}
	c.say("kbuild: wrote %s: %d programs, %d other sources. Try: kbuild plan", file, len(found.Programs), len(found.Others))
	return nil
}
