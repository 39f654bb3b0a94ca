package main

import (
	"os"

	"github.com/kbuild-dev/kbuild/actions/engine"
)

type cleanCmd struct{}

// Run removes what kbuild wrote into the build tree and into the trees of profiles below it. The
// cache is not touched.
func (cleanCmd) Run(c *cli) error {
	c.fromMake(os.Getenv("MAKEFLAGS"))
	cleaned, err := c.workspace().Clean()
	did := "removed"
	if c.DryRun {
		did = "would remove"
	}
	for _, tree := range cleaned {
		switch {
		case c.Quiet || !c.DryRun && len(tree.Others) == 0:
		case len(tree.Others) == 0:
			c.say("kbuild: %s %s", did, tree.Dir)
		default:
			c.say("kbuild: %s what kbuild has written into %s; the rest stays: %s", did, tree.Dir,
				engine.Few(tree.Others))
		}
	}
	return err
}
