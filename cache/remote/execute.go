package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// mostLost is the number of consecutive lost commands after which all others run locally.
//
// A remote command with a nonzero exit status is lost only if it succeeds locally: the compiler may
// be right about the sources. Until then it is doubtful. While mostLost commands are doubtful and
// none has succeeded after them, no more are sent: the remote machine may fail every command.
const mostLost = 3

// firstRate is the assumed transfer rate in bytes per second before any transfer. latency is the
// additional time of each command.
const (
	firstRate = 20 << 20
	latency   = 100 * time.Millisecond
)

// execution is the state of remote execution. Cache.mu guards it.
type execution struct {
	on       bool
	lost     int                   // consecutive
	doubtful map[*Outcome]struct{} // since the last success
	bytes    int64
	took     time.Duration
}

// ErrBeaten is the cause of a context that cancels a command because the local run has ended.
var ErrBeaten = errors.New("it has ended here")

// Executes reports whether commands may run remotely now.
func (c *Cache) Executes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exec.on && len(c.exec.doubtful) < mostLost && !c.isOff()
}

// Ready is closed when the server has reported its abilities, or was given up.
func (c *Cache) Ready() <-chan struct{} { return c.ready }

// Overhead returns how much longer a command takes remotely than locally if bytes are transferred.
func (c *Cache) Overhead(bytes int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	rate := float64(c.exec.bytes+firstRate) / (c.exec.took + time.Second).Seconds()
	return latency + time.Duration(float64(bytes)/rate*float64(time.Second))
}

// Execute runs a command on a remote machine. It has no time limit: kbuild-remote checks
// periodically that the server is alive. The caller must pass an outcome with a nonzero exit status
// to Judge.
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

// Judge records how a command with a nonzero remote exit status ended locally. If it also failed
// locally, the remote machine is not at fault.
func (c *Cache) Judge(out *Outcome, well bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exec.doubtful, out)
	if well {
		printed, _, _ := strings.Cut(strings.TrimSpace(string(slices.Concat(out.Stdout, out.Stderr))), "\n")
		c.lose(fmt.Errorf("%d commands, one after the other, were lost; the last ended there with status %d (%q), and well here", c.exec.lost+1, out.ExitCode, printed), false)
	}
}

// lose counts a command that must run locally. fatal means that all others would fail too. The
// caller holds c.mu.
func (c *Cache) lose(err error, fatal bool) {
	c.exec.lost++
	c.stats.Lost++
	if !c.exec.on || !fatal && c.exec.lost < mostLost {
		return
	}
	c.exec.on = false
	go c.warnOnce(fmt.Sprintf("running commands by %s: %v; from now on all of them run here", c.opts.Address, err))
}

func (c *Cache) Used() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Executed++
}
