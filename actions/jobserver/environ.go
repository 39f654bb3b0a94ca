package jobserver

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errClosed is how a recipe without '+' looks: make 4.3 closes the descriptors but names them
// still, make 4.4 names negative ones.
var errClosed = errors.New("make's jobserver is not open here: prefix the recipe with '+'")

// FromEnviron connects to the jobserver that MAKEFLAGS names: a fifo (make 4.4) or a pipe inherited
// from make (4.3 and before, under one of two option names). It gives nil, nil if none is named,
// and an error if this process cannot use it; the caller then runs one process at a time, as a
// sub-make does.
func FromEnviron(makeflags string) (*Client, error) {
	auth := authentication(makeflags)
	if auth == "" {
		return nil, nil
	}
	if path, ok := strings.CutPrefix(auth, "fifo:"); ok {
		return openFifo(path)
	}
	read, write, ok := strings.Cut(auth, ",")
	r, errR := strconv.Atoi(read)
	w, errW := strconv.Atoi(write)
	if !ok || errR != nil || errW != nil {
		return nil, fmt.Errorf("make's jobserver is described by %q, which kbuild does not know", auth)
	}
	return openPipe(r, w)
}

// authentication is the value of the last jobserver option in MAKEFLAGS; make appends one that
// overrules what it inherited. After "--" come the variables of the command line, which are the
// user's.
func authentication(makeflags string) string {
	auth := ""
	for _, w := range fields(makeflags) {
		if w == "--" {
			break
		}
		for _, option := range []string{"--jobserver-auth=", "--jobserver-fds="} {
			if v, ok := strings.CutPrefix(w, option); ok {
				auth = v
			}
		}
	}
	return auth
}

// Letters are the options of one letter in MAKEFLAGS. GNU make writes them as its first word,
// without a dash, and a blank first if there are none: "ks -j4 -- conf=prod". A variable, an option
// and the empty word are no letters.
func Letters(makeflags string) string {
	first, _, _ := strings.Cut(makeflags, " ")
	if strings.HasPrefix(first, "-") || strings.Contains(first, "=") {
		return ""
	}
	return first
}

// Jobs is the number of make's -j; 0 is unknown or none. The last one counts, as for make.
func Jobs(makeflags string) (n int) {
	for _, w := range fields(makeflags) {
		if w == "--" {
			break
		}
		if v, ok := strings.CutPrefix(w, "-j"); ok {
			n, _ = strconv.Atoi(v)
		}
	}
	return max(0, n)
}

// fields splits at blanks that no backslash escapes, as make writes MAKEFLAGS.
func fields(s string) []string {
	var out []string
	var w strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			w.WriteByte(s[i])
		case s[i] == ' ' || s[i] == '\t':
			if w.Len() > 0 {
				out = append(out, w.String())
				w.Reset()
			}
		default:
			w.WriteByte(s[i])
		}
	}
	if w.Len() > 0 {
		out = append(out, w.String())
	}
	return out
}

func openFifo(path string) (*Client, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening make's jobserver: %w", err)
	}
	if info.Mode().Type() != os.ModeNamedPipe {
		return nil, fmt.Errorf("make's jobserver %s is no fifo", path)
	}
	return open(path, path)
}

// openPipe uses descriptors that this process inherited, if they are what MAKEFLAGS says they are:
// by the time it looks, closed ones may have been opened again for something else.
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

// allows reports that fd was opened for mode, or for reading and writing.
func allows(fd, mode int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	got := flags & unix.O_ACCMODE
	return err == nil && (got == mode || got == unix.O_RDWR)
}

// open opens the two ends anew. The descriptors that make gave us share their flags with make and
// all its other jobs: setting them non-blocking would break those, and a blocking read cannot be
// cancelled. Opening a pipe through /proc gives a description of our own. The reading end comes
// first: nobody can open a fifo for writing without blocking before somebody reads.
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
