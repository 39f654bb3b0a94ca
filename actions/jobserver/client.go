// Package jobserver is a client of GNU make's jobserver: a pipe or a fifo with one byte for each
// further job that may run. It implements no server, and knows nothing of the jobs.
package jobserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// errClosed is the error for a recipe without '+': make 4.3 closes the descriptors but still names
// them, make 4.4 names negative ones.
var errClosed = errors.New("make's jobserver is not open here: prefix the recipe with '+'")

// FromEnviron connects to the jobserver that MAKEFLAGS names. It may be a fifo (make 4.4) or a pipe
// inherited from make (4.3 and before, under one of two option names). FromEnviron returns nil, nil
// if MAKEFLAGS names none. It returns an error if this process cannot use the jobserver; the caller
// then runs one process at a time, as a sub-make does.
func FromEnviron(makeflags string) (*Client, error) {
	auth := authentication(makeflags)
	if auth == "" {
		return nil, nil
	}
	if path, ok := strings.CutPrefix(auth, "fifo:"); ok {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, fmt.Errorf("opening make's jobserver: %w", err)
		case info.Mode().Type() != os.ModeNamedPipe:
			return nil, fmt.Errorf("make's jobserver %s is no fifo", path)
		}
		return open(path, path)
	}
	read, write, ok := strings.Cut(auth, ",")
	r, errR := strconv.Atoi(read)
	w, errW := strconv.Atoi(write)
	if !ok || errR != nil || errW != nil {
		return nil, fmt.Errorf("make's jobserver is described by %q, which kbuild does not know", auth)
	}
	return openPipe(r, w)
}

// authentication returns the value of the last jobserver option in MAKEFLAGS: make appends one that
// overrides what it inherited.
func authentication(makeflags string) string {
	auth := ""
	for _, w := range options(makeflags) {
		for _, option := range []string{"--jobserver-auth=", "--jobserver-fds="} {
			if v, ok := strings.CutPrefix(w, option); ok {
				auth = v
			}
		}
	}
	return auth
}

// Letters returns the one-letter options in MAKEFLAGS. GNU make writes them as its first word,
// without a dash, and a blank first if there are none: "ks -j4 -- conf=prod". If the first word is
// a variable, a long option or empty, Letters returns "".
func Letters(makeflags string) string {
	first, _, _ := strings.Cut(makeflags, " ")
	if strings.HasPrefix(first, "-") || strings.Contains(first, "=") {
		return ""
	}
	return first
}

// Jobs returns the number of make's -j; 0 if it is unknown or missing. The last one counts, as for
// make.
func Jobs(makeflags string) (n int) {
	for _, w := range options(makeflags) {
		if v, ok := strings.CutPrefix(w, "-j"); ok {
			n, _ = strconv.Atoi(v)
		}
	}
	return max(0, n)
}

// options splits MAKEFLAGS at unescaped blanks, up to "--": variables of the user's command line
// follow.
func options(s string) (out []string) {
	var w []byte
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == ' ' || s[i] == '\t':
			if string(w) == "--" {
				return out
			}
			if len(w) > 0 {
				out, w = append(out, string(w)), nil
			}
		case s[i] == '\\' && i+1 < len(s):
			i++
			w = append(w, s[i])
		default:
			w = append(w, s[i])
		}
	}
	return out
}

// openPipe uses the inherited descriptors if they are as MAKEFLAGS describes them: closed ones may
// have been reused for another file.
func openPipe(r, w int) (*Client, error) {
	var a, b syscall.Stat_t
	if r < 0 || w < 0 || syscall.Fstat(r, &a) != nil || syscall.Fstat(w, &b) != nil {
		return nil, errClosed
	}
	pipe := a.Mode&syscall.S_IFMT == syscall.S_IFIFO && a.Dev == b.Dev && a.Ino == b.Ino
	if !pipe || !allows(r, unix.O_RDONLY) || !allows(w, unix.O_WRONLY) {
		return nil, errClosed
	}
	c, err := open(fmt.Sprintf("/proc/self/fd/%d", r), fmt.Sprintf("/proc/self/fd/%d", w))
	if err != nil {
		return nil, err
	}
	// Commands have no business with the jobserver. The flag belongs to this process's descriptor,
	// not to the pipe.
	syscall.CloseOnExec(r)
	syscall.CloseOnExec(w)
	c.inherited = []int{r, w}
	return c, nil
}

// allows reports whether fd was opened for mode, or for reading and writing.
func allows(fd, mode int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	got := flags & unix.O_ACCMODE
	return err == nil && (got == mode || got == unix.O_RDWR)
}

// open opens the two ends again. The descriptors from make share their flags with make and all its
// other jobs. Setting them non-blocking would break those, and a blocking read cannot be cancelled.
// An open through /proc creates a description of our own. The reading end is opened first: without
// a reader, opening a fifo for writing blocks or fails.
func open(read, write string) (*Client, error) {
	r, err := os.OpenFile(read, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening make's jobserver: %w", err)
	}
	w, err := os.OpenFile(write, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("opening make's jobserver: %w", err)
	}
	return &Client{r: r, w: w, reading: make(chan struct{}, 1)}, nil
}
