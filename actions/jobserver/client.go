// Package jobserver is a client of GNU make's jobserver: a pipe or a fifo with one byte for each
// further job that may run. It implements no server, and knows nothing of the jobs.
package jobserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Client holds tokens of a jobserver. The first job of a client needs no token. Its methods may be
// called from any goroutine.
type Client struct {
	r, w    *os.File
	reading chan struct{} // full during a read: the deadline of r belongs to the reader

	inherited []int // descriptors from make, which are close-on-exec until Close

	mu     sync.Mutex
	held   []byte
	closed bool
}

// Acquire waits for a token. The caller must return it by Release. If a token arrives when ctx has
// just been cancelled, Acquire returns it without an error.
func (c *Client) Acquire(ctx context.Context) (byte, error) {
	select {
	case c.reading <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-c.reading }()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.r.SetReadDeadline(time.Unix(1, 0))
		close(woken)
	})
	var b [1]byte
	n, err := c.r.Read(b[:])
	if !stop() {
		<-woken // or it would set the deadline of the next reader
		c.r.SetReadDeadline(time.Time{})
	}
	switch {
	case n == 1:
		c.mu.Lock()
		c.held = append(c.held, b[0])
		c.mu.Unlock()
		return b[0], nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, ctx.Err()
	}
	return 0, fmt.Errorf("reading from make's jobserver: %w", err)
}

// Release returns a token to make: the same byte, since make may distinguish them. After Close,
// which has returned all tokens, it does nothing.
func (c *Client) Release(token byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	i := bytes.IndexByte(c.held, token)
	if i < 0 {
		panic(fmt.Sprintf("BUG: the jobserver token %q is released and was not held", token))
	}
	c.held = append(c.held[:i], c.held[i+1:]...)
	c.w.Write([]byte{token})
}

// anyToken is the byte that make 4.3 and 4.4 write for every job.
const anyToken = '+'

// Lend offers the slot that make assigned to this process to other jobs, while the process waits.
// The caller must call TakeBack afterwards.
func (c *Client) Lend() error {
	_, err := c.w.Write([]byte{anyToken})
	return err
}

// TakeBack waits for a slot to replace the one that was lent. When ctx is done it takes a free slot
// if there is one, and continues without a slot otherwise. make may then run one job too many until
// this process ends, which is better than a process that ignores its cancellation.
func (c *Client) TakeBack(ctx context.Context) error {
	b, err := c.Acquire(ctx)
	if err == nil {
		c.mu.Lock()
		c.held = slices.Delete(c.held, slices.Index(c.held, b), slices.Index(c.held, b)+1)
		c.mu.Unlock()
		return nil
	}
	if ctx.Err() != nil {
		c.takeFree()
	}
	return err
}

// takeFree takes a token if one is available, and does not wait.
func (c *Client) takeFree() {
	conn, err := c.r.SyscallConn()
	if err != nil {
		return
	}
	var b [1]byte
	conn.Read(func(fd uintptr) bool {
		syscall.Read(int(fd), b[:]) // does not block: the description is our own
		return true
	})
}

// Close ends a waiting Acquire and returns every token that is still held. A deferred Close thus
// preserves make's tokens however the program ends, unless it is killed. No write blocks: the pipe
// has room for the bytes that were read from it.
func (c *Client) Close() error {
	errR := c.r.Close()
	c.reading <- struct{}{} // a concurrent Acquire has recorded its token
	defer func() { <-c.reading }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if len(c.held) > 0 {
		c.w.Write(c.held)
	}
	c.held = nil
	// This process may exec a program that is a client of make itself.
	for _, fd := range c.inherited {
		unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
	return errors.Join(errR, c.w.Close())
}
