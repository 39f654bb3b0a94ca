package main

import (
	"context"
	"fmt"

	"github.com/kbuild-dev/kbuild/actions/probe"
)

type doctorCmd struct{}

// Run checks what a build needs. It works without a manifest.
func (doctorCmd) Run(c *cli) error {
	ok, err := c.workspace().Doctor(context.Background(), func(f probe.Finding) {
		if c.JSON {
			c.out.Event(struct {
				Event  string `json:"event"`
				Status string `json:"status"`
				What   string `json:"what"`
				Text   string `json:"text"`
			}{"check", f.Status, f.What, f.Text})
			return
		}
		fmt.Fprintln(c.out, f)
	})
	if err == nil && !ok {
		return exitError{status: exitRequirement}
	}
	return err
}
