package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// mostLost is how many commands may be lost one after the other. Then all others run here.
//
// One that ended there with a status that is not 0 is lost only where the same ends well here: the
// compiler may be right about the sources. Until that is known it is doubtful, and while so many
// are with none that ended well after them, no more are sent to a machine that may do nothing but
// fail.
const mostLost = 3

// firstRate is how many bytes a second are taken to move before any have, and latency what each
// command takes besides.
const (
	firstRate = 20 << 20
	latency   = 100 * time.Millisecond
)

// execution is what is known of commands on other machines. The lock of the cache guards it.
type execution struct {
	on       bool
	lost     int                   // one after the other
	doubtful map[*Outcome]struct{} // since the last that ended well
	bytes    int64
	took     time.Duration
}

// ErrBeaten is the cause of a context that ends a command because the same has ended here.
var ErrBeaten = errors.New("it has ended here")

// Executes reports whether commands may run on other machines now.
func (c *Cache) Executes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exec.on && len(c.exec.doubtful) < mostLost && !c.isOff()
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

// Execute runs a command on another machine. There is no limit of time: the server is asked
// meanwhile whether it is there. An outcome with another status than 0 is to be given to Judge.
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
		c.exec.lost, c.exec.doubtful = 0, map[*Outcome]struct{}{}
	case err == nil:
		c.exec.doubtful[a.Ran] = struct{}{}
	case errors.Is(context.Cause(ctx), ErrBeaten):
		c.stats.Beaten++
	case ctx.Err() == nil:
		c.lose(err, a.Fatal)
	}
	return a.Ran, err
}

// Judge tells what became here of a command that ended elsewhere with a status that is not 0. One
// that did not end well here either is no fault of the machine's.
func (c *Cache) Judge(out *Outcome, well bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exec.doubtful, out)
	if well {
		said, _, _ := strings.Cut(strings.TrimSpace(string(slices.Concat(out.Stdout, out.Stderr))), "\n")
		c.lose(fmt.Errorf("%d commands, one after the other, were lost; the last ended there with status %d (%q), and well here", c.exec.lost+1, out.ExitCode, said), false)
	}
}

// lose counts a command that must run here. fatal is what all others would meet too. c.mu is held.
func (c *Cache) lose(err error, fatal bool) {
	c.exec.lost++
	c.stats.Lost++
	if !c.exec.on || !fatal && c.exec.lost < mostLost {
		return
	}
	c.exec.on = false
	go c.warnOnce(fmt.Sprintf("running commands by %s: %v; from now on all of them run here", c.opts.Address, err))
}

// Used counts a command whose outputs were used.
func (c *Cache) Used() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Executed++
}
