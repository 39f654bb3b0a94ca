package main

import (
	"context"

	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

type doctorCmd struct{}

// Run checks what a build needs. It works without a manifest.
func (doctorCmd) Run(c *cli) error {
	list, err := c.workspace().Doctor(context.Background())
	if err != nil {
		return err
	}
	for _, f := range list {
		c.print(struct {
			Event  string `json:"event"`
			Status string `json:"status"`
			What   string `json:"what"`
			Text   string `json:"text"`
		}{"check", f.Status, f.What, f.Text}, "%v\n", f)
		if f.Status == find.Fails {
			err = exitError{status: exitRequirement}
		}
	}
	return err
}
