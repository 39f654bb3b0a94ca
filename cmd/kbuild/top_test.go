package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// kbuild top shows at once, at each tick, and until it is told to end.
func TestWatch(t *testing.T) {
	failed := errors.New("no table")
	for name, end := range map[string]func(keys chan byte, stop func()){
		"q":      func(keys chan byte, stop func()) { keys <- 'x'; keys <- 'q' },
		"Ctrl-C": func(keys chan byte, stop func()) { close(keys); stop() },
		"error":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			keys, ticks, shown := make(chan byte), make(chan time.Time), make(chan bool)
			var want error
			ended := make(chan error)
			go func() {
				n := 0
				ended <- watch(ctx, keys, ticks, func() error {
					shown <- true
					if n++; n == 3 && end == nil {
						return failed
					}
					return nil
				})
			}()
			<-shown
			ticks <- time.Time{}
			<-shown
			ticks <- time.Time{}
			<-shown
			if end != nil {
				end(keys, stop)
			} else {
				want = failed
			}
			if err := <-ended; err != want {
				t.Errorf("error %v, want %v", err, want)
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
