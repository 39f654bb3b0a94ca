package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// mostLost is how many commands may be lost one after the other. Then all others run here.
const mostLost = 3

// firstRate is how many bytes a second are taken to move before any have, and latency what each command takes besides.
const (
	firstRate = 20 << 20
	latency   = 100 * time.Millisecond
)

// execution is what is known of commands on other machines. The lock of the cache guards it.
type execution struct {
	on    bool
	lost  int // one after the other
	bytes int64
	took  time.Duration
}

// ErrBeaten is the cause of a context that ends a command because the same has ended here.
var ErrBeaten = errors.New("it has ended here")

// Executes reports whether commands may run on other machines now.
func (c *Cache) Executes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exec.on && !c.isOff()
}

// Ready is closed when the server has said what it does, or was given up.
func (c *Cache) Ready() <-chan struct{} { return c.ready }

// Overhead is how much longer a command takes elsewhere than here, by the bytes that move for it.
func (c *Cache) Overhead(bytes int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	rate := float64(c.exec.bytes+firstRate) / (c.exec.took + time.Second).Seconds()
	return latency + time.Duration(float64(bytes)/rate*float64(time.Second))
}

// Execute runs a command on another machine. There is no limit of time: the server is asked meanwhile whether it is there.
func (c *Cache) Execute(ctx context.Context, cmd Command) (*Outcome, error) {
	a, err := c.ask(ctx, Request{Operation: Execute, Run: &cmd}, &waiting{answer: make(chan Answer, 1)})
	if err == nil && a.Ran == nil {
		err = errors.New("kbuild-remote does not say how a command ended")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.exec.bytes += a.Ran.Sent + a.Ran.Received
		c.exec.took += a.Ran.Moving
		c.stats.Submitted += a.Ran.Sent
		c.stats.Returned += a.Ran.Received
	}
	switch {
	case err == nil && a.Ran.ExitCode == 0:
		c.exec.lost = 0
	case errors.Is(context.Cause(ctx), ErrBeaten):
		c.stats.Beaten++
	case ctx.Err() == nil:
		c.lose(a, err)
	}
	return a.Ran, err
}

// lose counts a command that must run here: it was lost, or failed, which may be the machine's fault. c.mu is held.
func (c *Cache) lose(a Answer, err error) {
	c.exec.lost++
	c.stats.Lost++
	if !c.exec.on || !a.Fatal && c.exec.lost < mostLost {
		return
	}
	c.exec.on = false
	if err == nil {
		said, _, _ := strings.Cut(strings.TrimSpace(string(append(a.Ran.Stdout, a.Ran.Stderr...))), "\n")
		err = fmt.Errorf("%d commands, one after the other, ended there with a status that is not 0, the last with %d (%q)", c.exec.lost, a.Ran.ExitCode, said)
	}
	go c.warnOnce(fmt.Sprintf("running commands by %s: %v; from now on all of them run here", c.opts.Address, err))
}

// Used counts a command whose outputs were used.
func (c *Cache) Used() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Executed++
}
