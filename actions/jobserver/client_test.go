package jobserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// server plays make: a pipe with tokens in it.
type server struct{ r, w *os.File }

func newServer(t *testing.T, tokens string) *server {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	r.Fd() // makes it blocking, as make's is
	w.Fd()
	if _, err := w.WriteString(tokens); err != nil {
		t.Fatal(err)
	}
	return &server{r, w}
}

func (s *server) flags() string {
	return fmt.Sprintf(" -j3 --jobserver-auth=%d,%d -- A=b", s.r.Fd(), s.w.Fd())
}

func (s *server) client(t *testing.T) *Client {
	t.Helper()
	c, err := FromEnviron(s.flags())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// available counts the tokens in the pipe.
func (s *server) available(t *testing.T) int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(s.r.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func acquire(t *testing.T, c *Client) byte {
	t.Helper()
	b, err := c.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTokensComeBackAsTheyWere(t *testing.T) {
	s := newServer(t, "abc")
	c := s.client(t)
	first, second := acquire(t, c), acquire(t, c)
	if s.available(t) != 1 || first != 'a' || second != 'b' {
		t.Errorf("took %q and %q, %d are left", first, second, s.available(t))
	}
	c.Release(first)
	c.Release(second)
	var b [4]byte
	if n, err := s.r.Read(b[:]); string(b[:n]) != "cab" {
		t.Errorf("the pipe holds %q, %v", b[:n], err)
	}
}

func TestPipeOfMakeStaysBlocking(t *testing.T) {
	s := newServer(t, "+")
	c := s.client(t)
	c.Release(acquire(t, c))
	for _, f := range []*os.File{s.r, s.w} {
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		if err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("flags %#x, %v", flags, err)
		}
	}
}

func TestCancelledAcquire(t *testing.T) {
	s := newServer(t, "")
	c := s.client(t)
	for range 3 { // the next one must not find the deadline of the one before
		ctx, stop := context.WithCancel(t.Context())
		got := make(chan error)
		go func() {
			_, err := c.Acquire(ctx)
			got <- err
		}()
		stop()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	s.w.WriteString("x")
	if b := acquire(t, c); b != 'x' {
		t.Errorf("token %q", b)
	}
}

// No token is lost between cancellations and arrivals.
func TestCancellationRaces(t *testing.T) {
	s := newServer(t, "ab")
	c := s.client(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 300 {
				ctx, stop := context.WithCancel(t.Context())
				go stop()
				if b, err := c.Acquire(ctx); err == nil {
					c.Release(b)
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				stop()
			}
		})
	}
	wg.Wait()
	if n := s.available(t); n != 2 {
		t.Errorf("%d tokens are left of 2", n)
	}
}

func TestManyClients(t *testing.T) {
	s := newServer(t, "abc")
	var running, peak atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		c := s.client(t)
		for range 4 {
			wg.Go(func() {
				for range 50 {
					b, err := c.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					n := running.Add(1)
					for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() {
					}
					running.Add(-1)
					c.Release(b)
				}
			})
		}
	}
	wg.Wait()
	if peak.Load() > 3 || s.available(t) != 3 {
		t.Errorf("%d at once with 3 tokens, %d are left", peak.Load(), s.available(t))
	}
}

func TestCloseGivesEverythingBack(t *testing.T) {
	s := newServer(t, "ab")
	c := s.client(t)
	held := acquire(t, c)
	acquire(t, c)
	got := make(chan error)
	go func() {
		_, err := c.Acquire(t.Context())
		got <- err
	}()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, os.ErrClosed) {
		t.Errorf("the waiting one gets %v", err)
	}
	if n := s.available(t); n != 2 {
		t.Errorf("%d tokens are back of 2", n)
	}
	c.Release(held) // late, and already back
	if err := c.Close(); err != nil || s.available(t) != 2 {
		t.Errorf("closed again: %v, %d tokens", err, s.available(t))
	}
}

func TestReleaseOfWhatWasNotHeld(t *testing.T) {
	c := newServer(t, "a").client(t)
	defer func() {
		if v := fmt.Sprint(recover()); !strings.HasPrefix(v, "BUG: ") {
			t.Errorf("panic %q", v)
		}
	}()
	c.Release('z')
}

func TestFifo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "GMfifo 1")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("+")
	c, err := FromEnviron("ks -j --jobserver-auth=fifo:" + strings.ReplaceAll(path, " ", `\ `))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := acquire(t, c)
	if s := (&server{f, f}); s.available(t) != 0 {
		t.Error("the token is still there")
	}
	c.Release(b)
	if s := (&server{f, f}); b != '+' || s.available(t) != 1 {
		t.Errorf("token %q, and it is not back", b)
	}
}

func TestNoJobserver(t *testing.T) {
	for _, flags := range []string{"", "ks", " -j8", "n -- X=--jobserver-auth=3,4 --jobserver-auth=3,4", `A=\ --jobserver-auth=3,4`} {
		if c, err := FromEnviron(flags); c != nil || err != nil {
			t.Errorf("%q: %v, %v", flags, c, err)
		}
	}
}

func TestUnusableJobserver(t *testing.T) {
	one, other := newServer(t, ""), newServer(t, "")
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const closed = "make's jobserver is not open here: prefix the recipe with '+'"
	fds := func(r, w *os.File) string { return fmt.Sprintf("%d,%d", r.Fd(), w.Fd()) }
	tests := []struct{ name, auth, err string }{
		{"closed", "998,999", closed},
		{"make 4.4 without plus", "-2,-2", closed},
		{"a file", fds(file, file), closed},
		{"two pipes", fds(one.r, other.w), closed},
		{"wrong ends", fds(one.w, one.r), closed},
		{"words", "semaphore", `make's jobserver is described by "semaphore", which kbuild does not know`},
		{"no fifo", "fifo:" + file.Name(), "make's jobserver " + file.Name() + " is no fifo"},
		{"fifo gone", "fifo:/no/where", "opening make's jobserver: stat /no/where: no such file or directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := FromEnviron(" -j2 " + "--jobserver-fds=" + test.auth)
			if c != nil || err == nil || err.Error() != test.err {
				t.Errorf("%v, error %v, want %s", c, err, test.err)
			}
		})
	}
	// The last option counts.
	if _, err := FromEnviron(one.flags()[:len(one.flags())-len(" -- A=b")] + " --jobserver-auth=-2,-2"); !errors.Is(err, errClosed) {
		t.Errorf("error %v, want that of the last option", err)
	}
}

func TestLetters(t *testing.T) {
	for makeflags, want := range map[string]string{ // as GNU make 4.3 writes them, but for the last four
		"":                                "",
		"n":                               "n",
		"n -- conf=prod":                  "n",
		" -- conf=n":                      "",
		" -j4 --jobserver-auth=3,4":       "",
		"kn -j4 --jobserver-auth=3,4":     "kn",
		" --no-print-directory":           "",
		"s --no-print-directory":          "s",
		" -Iinc":                          "",
		" -j2 -Otarget --jobserver-fds=3": "",
		"conf=prod":                       "",
		"--no-print-directory":            "",
		"-n":                              "",
		"a=b\\ n":                         "",
	} {
		if got := Letters(makeflags); got != want {
			t.Errorf("%q: letters %q, want %q", makeflags, got, want)
		}
	}
}

func TestJobs(t *testing.T) {
	for flags, want := range map[string]int{"": 0, "ks -j8 --jobserver-auth=3,4": 8, " -j4 -j16 --jobserver-auth=fifo:/x": 16, "j": 0, " -j --x": 0,
		"k -- conf=-j5 -j6": 0, " -j-1": 0} {
		if got := Jobs(flags); got != want {
			t.Errorf("%q: %d, want %d", flags, got, want)
		}
	}
}
