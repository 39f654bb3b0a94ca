package main

import "testing"

// What the user sets for all is the default of a build, and what he names for one is that of the
// one.
func TestLimitsOfAll(t *testing.T) {
	t.Setenv("KBUILD_JOBS", "3")
	t.Setenv("KBUILD_MEM", "5GiB")
	t.Setenv("MAKEFLAGS", "")
	c := &cli{}
	all := c.ofAll()
	if all.Processors != 3 || all.Memory != 5<<30 {
		t.Errorf("of all: %+v", all)
	}
	if o := c.schedule(all); o.Jobs != 3 || o.Budget != 5<<30 {
		t.Errorf("-j %d --mem %d", o.Jobs, o.Budget)
	}
	c.Jobs, c.Mem.bytes = 2, 1<<30
	if o := c.schedule(all); o.Jobs != 2 || o.Budget != 1<<30 {
		t.Errorf("-j %d --mem %d", o.Jobs, o.Budget)
	}
}
