package main

import "context"

type doctorCmd struct{}

// Run checks what a build needs; a manifest is not needed.
func (doctorCmd) Run(c *cli) error {
	ok, err := c.workspace().Doctor(context.Background(), c.out)
	if err == nil && !ok {
		return exitError{status: exitRequirement}
	}
	return err
}
