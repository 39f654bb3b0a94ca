package main

import (
	"context"
	"testing"
	"time"
)

// kbuild top waits for the next tick, whatever is typed, until it is told to end.
func TestNextTick(t *testing.T) {
	for _, test := range []struct {
		name   string
		events func(keys chan byte, ticks chan time.Time, stop func())
		want   bool
	}{
		{"tick", func(_ chan byte, ticks chan time.Time, _ func()) { ticks <- time.Time{} }, true},
		{"other key", func(keys chan byte, ticks chan time.Time, _ func()) { keys <- 'x'; ticks <- time.Time{} }, true},
		{"end of input", func(keys chan byte, ticks chan time.Time, _ func()) { close(keys); ticks <- time.Time{} }, true},
		{"q", func(keys chan byte, _ chan time.Time, _ func()) { keys <- 'x'; keys <- 'q' }, false},
		{"Ctrl-C", func(keys chan byte, _ chan time.Time, stop func()) { close(keys); stop() }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			keys, ticks := make(chan byte), make(chan time.Time)
			go test.events(keys, ticks, stop)
			if got := nextTick(ctx, keys, ticks); got != test.want {
				t.Errorf("goes on: %v, want %v", got, test.want)
			}
		})
	}
}

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
