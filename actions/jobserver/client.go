// Package jobserver takes part in GNU make's jobserver: a pipe or a fifo that holds one byte for each
// further job that may run. It is a client only.
package jobserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Client holds tokens of a jobserver. The first job of a client needs no token.
type Client struct {
	r, w *os.File
	mu   sync.Mutex
	held []byte
	done bool
}

// FromEnviron connects to the jobserver that MAKEFLAGS names. It gives nil, nil if it names none, and
// an error if it names one that this process cannot use: make closes the pipe for recipes without '+'.
func FromEnviron(makeflags string) (*Client, error) {
	auth := ""
	for _, w := range strings.Fields(makeflags) {
		for _, option := range []string{"--jobserver-auth=", "--jobserver-fds="} {
			if v, ok := strings.CutPrefix(w, option); ok {
				auth = v // the last one counts
			}
		}
	}
	if auth == "" {
		return nil, nil
	}
	if path, ok := strings.CutPrefix(auth, "fifo:"); ok {
		return open(path, path)
	}
	read, write, ok := strings.Cut(auth, ",")
	r, errR := strconv.Atoi(read)
	w, errW := strconv.Atoi(write)
	if !ok || errR != nil || errW != nil {
		return nil, fmt.Errorf("make's jobserver is described by %q, which kbuild does not know", auth)
	}
	if r < 0 || w < 0 {
		return nil, nil // make disabled it for this recipe
	}
	for _, fd := range []int{r, w} {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			return nil, errors.New("make's jobserver is not open here: prefix the recipe with '+'")
		}
	}
	return open(fmt.Sprintf("/proc/self/fd/%d", r), fmt.Sprintf("/proc/self/fd/%d", w))
}

// open opens the two ends anew. The descriptors that make gave us are shared with make and all its
// other jobs: setting them non-blocking would break those, and a blocking read could not be cancelled.
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
	return &Client{r: r, w: w}, nil
}

// Acquire waits for a token. It must be given back by Release.
func (c *Client) Acquire(ctx context.Context) (byte, error) {
	stop := context.AfterFunc(ctx, func() { c.r.SetReadDeadline(longAgo) })
	defer func() {
		if !stop() {
			c.r.SetReadDeadline(never)
		}
	}()
	var b [1]byte
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := c.r.Read(b[:])
		if n == 1 {
			c.mu.Lock()
			c.held = append(c.held, b[0])
			c.mu.Unlock()
			return b[0], nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, os.ErrDeadlineExceeded) {
			if errors.Is(err, io.EOF) {
				err = errors.New("make's jobserver went away")
			}
			return 0, err
		}
	}
}

// Release gives a token back: the same byte, since make may tell them apart.
func (c *Client) Release(token byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range c.held {
		if t == token {
			c.held = append(c.held[:i], c.held[i+1:]...)
			c.write(token)
			return
		}
	}
	panic("BUG: a jobserver token is released that was not held")
}

// write cannot block for long: the pipe has room for every token that came out of it.
func (c *Client) write(token byte) {
	for {
		_, err := c.w.Write([]byte{token})
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// Close gives back whatever is still held.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return nil
	}
	c.done = true
	for _, t := range c.held {
		c.write(t)
	}
	c.held = nil
	return errors.Join(c.r.Close(), c.w.Close())
}
