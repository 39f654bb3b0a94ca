// Package broker shares the processors and the memory of a machine between all kbuild processes of
// a user: builds and compiler launchers. Each takes a lease before it runs a command. The broker
// knows nothing of the commands.
//
// # Leases
//
// There is no daemon. A private file of the user has a row for each request: its expected memory,
// the limits of its client, and whether it waits or runs. A request has a number, the nanosecond of
// its arrival, and counts while its process has the byte at that offset locked (F_OFD_SETLK), far
// behind all rows. The kernel drops the lock when the process ends, however it ends. So nothing is
// cleaned up, and the row of a request without a lock means nothing.
//
// Decisions are made one at a time, under a flock of the file, the guard. A process keeps it for
// some microseconds, to read all rows and to write its own. Which requests may start is computed
// from the rows alone: see admit.
//
// # Wakeups
//
// A waiting request follows others: a thread blocks in the kernel until their lock is dropped. It
// follows the request before it in the line by a second lock, which that one has until it gets its
// lease. So a line of a hundred requests moves one by one, and costs little while it does not move.
// The first two also follow all leases. Of these the second may be small enough to pass the first.
//
// Nothing else reports both the release of a lease and the death of a process, after the fact and
// at no cost. Closing an inotify instance takes 8 to 22 ms (Linux 6.18), and inotify reports that a
// file was closed before its locks are dropped.
//
// Each waiting request also reads the rows once a second. So it finds that the first of the line
// was stopped (Ctrl-Z), and goes on as if that one did not wait; or, from further behind, that it
// may pass.
//
// # Progress
//
// A lease is the last resource that a process takes before it runs a command. Make's token is taken
// earlier, and no locks of stores are held. So the holder of a lease waits only for its command.
// The command may run kbuild too. It is started with KBUILD_BROKER=0 in its environment,
// so that no kbuild in it waits for a lease. So each lease ends by itself.
//
// # Failures
//
// On a network file system, or if the file cannot be written or locked, a client warns once and
// grants everything. The same happens if another process keeps the guard for longer than patience:
// that process was stopped while it had the guard.
package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/machine"
)

// Limits bound the leases that are held concurrently. A zero value means what the machine has.
type Limits struct {
	Processors int
	Memory     int64 // bytes
}

// Request describes what a lease is for.
type Request struct {
	Memory  int64  // expected peak memory of the command in bytes; 0 is negligible
	Label   string // what runs, for users: "compile a.cu"
	Arch    string // the architecture; may be empty
	Project string // the folder of the project
}

// AllMemory is the memory of a request that must run alone.
const AllMemory = int64(1) << 50

// UI receives the reports of a client.
type UI interface {
	// Unshared is called once if the broker cannot be used.
	Unshared(err error)
	// Idle is called once when a request has to wait while the client has no lease. Nothing runs
	// then, and a user may wonder why.
	Idle()
}

// Client takes leases. Its methods may be called from any goroutine. A nil Client grants every
// request immediately.
type Client struct {
	path   string
	limits Limits
	ui     UI // may be nil

	mu       sync.Mutex
	host     *host          // nil before the first request
	leases   int            // that are held
	idle     bool           // Idle was called
	without  bool           // the broker cannot be used
	followed map[int64]bool // the locks that threads wait for, by offset
	dropped  chan struct{}  // closed when one of them was dropped, and replaced
}

// host holds the resources of the machine.
type host struct {
	processors  int
	memory      int64 // bytes that are available; see row.Measured
	memoryLimit int64 // of the control groups; 0 means no limit
}

// New returns a client of a file. It opens nothing before its first lease. ui may be nil.
func New(path string, l Limits, ui UI) *Client {
	return &Client{path: path, limits: l, ui: ui,
		followed: map[int64]bool{}, dropped: make(chan struct{})}
}

// FromEnviron returns a client of the file at Path, or nil if KBUILD_BROKER is 0.
func FromEnviron(l Limits, ui UI) *Client {
	if os.Getenv("KBUILD_BROKER") == "0" {
		return nil
	}
	return New(Path(), l, ui)
}

// Lease is the right to run a command, or a request that waits for it. It ends with Release, or
// with the process.
type Lease struct {
	client *Client // nil if nothing is shared, or after Release
	file   *file
	slot   int // of the row in the file
	row    row
}

// Acquire waits for a lease. The only error is that of ctx: without a working broker every request
// is granted. The caller must hold nothing that the holder of a lease may wait for, least of all
// another lease of the same command.
func (c *Client) Acquire(ctx context.Context, r Request) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := c.open(r)
	if l == nil {
		return &Lease{}, nil
	}
	if err == nil {
		err = l.wait(ctx)
	}
	if err == nil {
		return l, nil
	}
	l.Release()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.fail(err)
	return &Lease{}, nil
}

// open returns a request that is not in the file yet, or nil if nothing is shared. The first
// request measures what the machine has.
func (c *Client) open(r Request) (*Lease, error) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.without {
		return nil, nil
	}
	if c.host == nil {
		c.host = &host{runtime.GOMAXPROCS(0), machine.Memory("/"), machine.MemoryLimit("/")}
	}
	l := &Lease{client: c, row: row{PID: uint32(os.Getpid())}}
	l.row.Needs = [2]int64{1, min(max(0, r.Memory), AllMemory)}
	l.row.setText(r)
	var err error
	l.file, err = openFile(c.path, unix.O_RDWR|unix.O_CREAT)
	return l, err
}

// A waiting request reads the rows once a tick although it follows others. It waits for the guard
// for at most patience: with hundreds of processes that may take seconds.
const (
	tick     = time.Second
	patience = time.Minute
)

// wait returns when the request has its lease.
func (l *Lease) wait(ctx context.Context) error {
	for {
		dropped := l.client.anyDropped()
		follow, err := l.try(ctx)
		if err != nil || l.row.State == running {
			return err
		}
		for _, at := range follow {
			if err := l.client.follow(l.file, at); err != nil {
				return err
			}
		}
		l.client.waits()
		select {
		case <-dropped:
		case <-time.After(tick):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try takes the lease if the request may start now. Otherwise it returns the locks to follow.
func (l *Lease) try(ctx context.Context) (follow []int64, err error) {
	if err := l.file.lock(ctx); err != nil {
		return nil, err
	}
	defer l.file.unlock()
	rows, err := l.file.read(l.row.Number)
	if err != nil {
		return nil, err
	}
	if l.row.Number == 0 {
		if err := l.arrive(rows); err != nil {
			return nil, err
		}
	}
	for len(rows) <= l.slot { // its row is new, or the file was truncated
		rows = append(rows, row{})
	}
	rows[l.slot] = l.row
	rows[l.slot].State = waiting
	var line []waiter
	var at int
	for {
		line = admit(rows)
		at = slices.IndexFunc(line, func(w waiter) bool { return w.Number == l.row.Number })
		if line[at].lacks == None || at == 0 || !isStopped(line[0].PID) {
			break
		}
		line[0].State = free // others do not wait for it
	}
	if line[at].lacks == None {
		l.row.State, l.row.Started = running, time.Now().UnixNano()
		l.client.count(1)
		err := l.file.write(l.slot, &l.row)
		return nil, errors.Join(err, l.file.unlockByte(inLine+l.row.Number))
	}
	if l.row.State != waiting {
		l.row.State = waiting
		err := errors.Join(l.file.lockByte(inLine+l.row.Number), l.file.write(l.slot, &l.row))
		if err != nil {
			return nil, err
		}
	}
	if at > 0 {
		follow = append(follow, inLine+line[at-1].Number)
	}
	for i := range rows {
		if at < 2 && rows[i].State == running {
			follow = append(follow, rows[i].Number)
		}
	}
	return follow, nil
}

// anyDropped returns a channel that is closed when a lock that the client follows is dropped.
func (c *Client) anyDropped() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

// follow waits in a thread until a lock is dropped, which cannot be interrupted. Other requests of
// the client find the thread there.
func (c *Client) follow(f *file, at int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.followed[at] {
		return nil
	}
	f, err := f.reopen()
	if err != nil {
		return err
	}
	c.followed[at] = true
	go func() {
		f.waitByte(at)
		f.close()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.followed, at)
		close(c.dropped)
		c.dropped = make(chan struct{})
	}()
	return nil
}

// arrive takes a free row, a number behind all others, and the limits.
func (l *Lease) arrive(rows []row) error {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	l.slot, l.row.Number = len(rows), time.Now().UnixNano()
	for i := range rows {
		l.row.Number = max(l.row.Number, rows[i].Number+1)
		switch rows[i].State {
		case free:
			l.slot = min(l.slot, i)
		case running:
			c.host.memory = max(c.host.memory, rows[i].Measured)
		}
	}
	l.row.Measured = c.host.memory
	l.row.Limits = [2]int64{int64(c.limits.Processors), c.limits.Memory}
	if c.limits.Processors <= 0 {
		l.row.Limits[processors] = int64(max(1, c.host.processors))
	}
	if c.limits.Memory <= 0 {
		l.row.Limits[memory] = min(limitOf(c.host.memory), limitOf(c.host.memoryLimit))
	}
	return l.file.lockByte(l.row.Number)
}

// limitOf returns the limit of memory that n means, in bytes; 0 means no limit.
func limitOf(n int64) int64 {
	if n <= 0 {
		return AllMemory
	}
	return min(n, AllMemory)
}

// isStopped reports whether a process was stopped, as by Ctrl-Z. Its state follows its name, which
// may contain any bytes: "12 (name) T 11 ...".
func isStopped(pid uint32) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T "))
}

// Inherit passes a lease on to the program that this process execs, and to all processes that it
// starts. The lease ends with the last of them.
func (l *Lease) Inherit() error {
	if l.client == nil {
		return nil
	}
	os.Setenv("KBUILD_BROKER", "0")
	_, err := unix.FcntlInt(uintptr(l.file.fd), unix.F_SETFD, 0)
	return err
}

// Release ends a lease. A second call does nothing.
func (l *Lease) Release() {
	if l.client == nil || l.file == nil {
		return
	}
	if l.row.State == running {
		l.client.count(-1)
	}
	if l.row.Number > 0 {
		l.file.write(l.slot, &row{})
		l.file.unlockAll() // a child has the file too until it runs its program
	}
	l.file.close()
	l.client = nil
}

func (c *Client) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases += n
}

// waits notifies the UI that a request waits.
func (c *Client) waits() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases == 0 && !c.idle && c.ui != nil {
		c.idle = true
		c.ui.Idle()
	}
}

// fail makes the client grant everything. Its leases stay.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.without && c.ui != nil {
		c.ui.Unshared(err)
	}
	c.without = true
}
