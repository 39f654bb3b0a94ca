// Package broker shares the processors and the memory of a machine between all kbuild processes of
// a user: builds, and compiler launchers. Each takes a lease before it runs a command. It knows
// nothing of what runs.
//
// There is no daemon. A folder that belongs to the user alone has a file of slots and a FIFO for
// each slot. A lease is a slot, with a row in the file: how much memory is planned, the limits of
// who asked, a ticket that says when he came. Whoever wants to read or change rows holds the flock
// of the file, for some microseconds, the guard.
//
// # What lives
//
// A lease lives as long as a description of its FIFO is open that has the FIFO's lock
// (F_OFD_SETLK). It ends by a close, and in no other way: by that of Release, or by that of the
// kernel after any death. So a kill at whatever instruction loses nothing. The row is left as it
// was; it is stale, and who lacks room, or looks for a slot, tests the lock and frees it. Numbers
// of processes are shown to people, and tell which command runs inside which; none decides whether
// something lives.
//
// # Who may start
//
// A process may start if its limit, and each larger limit that somebody else has, keeps what is
// leased by those with that limit or a smaller one (budget). With equal limits that is the sum of
// all. A build with -j2 beside others then has two processes, and they have the rest. Memory that
// nobody else takes is granted however small the limit: something always runs.
//
// First come, first served, by ticket. Where the first that waits, the head, does not fit, one
// behind it may pass if the head would still fit beside it and all others that have passed (the
// holders with a later ticket). So the head starts at the latest when what was held at the moment
// it became the head has ended, and each that waits becomes the head. No time is estimated. See
// admit.
//
// # Who wakes whom
//
// Who waits polls its own FIFO for a byte, and those of others for their end (POLLHUP, which the
// kernel gives after it has dropped the lock). The head watches all that hold a lease, another that
// waits the one before it. Each change is found out by somebody so:
//
//   - A lease ends, or its holder dies: the head is woken.
//   - One that waits goes away or dies: the one behind it is woken.
//   - One that waits has got its lease: it wakes the head, and the one behind it, which must watch another now.
//
// Who is woken looks at all rows under the guard, frees what is dead, writes to the FIFO of
// everyone else who may start now, and only then changes its own row, which nobody else does. So if
// it dies before the change those it has woken find the old state, of which they make the same; if
// it dies after it, they or the one behind it watch what it has become.
//
// # Why nothing waits for ever
//
// A lease is the last that a process takes before it runs a command: make's token comes before, and
// locks of stores are not held. So who holds one waits for nothing but its command. The command
// itself may ask for leases: a script that calls kbuild, a compiler that is a launcher. A request
// names the process of the nearest lease that it runs inside (outer), and while it waits or runs,
// that lease counts for nothing, for all. So among those that count, each runs something that ends
// by itself. A request that does not fit although nothing counts is granted.
//
// # What goes wrong
//
// Without a folder of its own, on a network file system, or if files cannot be written or locked, a
// client warns once and grants everything. The same goes for a guard that is not given back for
// patience: who held it was stopped in that moment.
package broker

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/machine"
)

// Limits bound what runs at once. The zero values stand for what the machine has.
type Limits struct {
	Processors int
	Memory     int64 // bytes
}

// Request is what a lease is for.
type Request struct {
	Memory  int64  // bytes that the command is expected to take at its peak; 0 is next to none
	Label   string // what runs, for people: "compile a.cu"
	Arch    string // for which architecture; may be empty
	Project string // the folder of the project
}

// Client takes leases. Its methods may be called from any goroutine. A nil Client grants everything
// at once.
type Client struct {
	dir    string
	limits Limits
	warn   func(text string)
	id     uint64 // tells the rows of this client from others

	processors func() int
	memory     func() int64 // what is available
	most       func() int64 // what the control groups of this process allow
	ancestors  func() []uint32

	once  sync.Once
	mu    sync.Mutex
	table *table           // nil before the first lease, and if it cannot be used
	turns map[int32]*turn  // of this client, by slot
	waits map[*turn]bool   // those of them that wait
	ended bool             // Close was called
	now   func() time.Time // for people

	idle   func() // see OnIdle; nil if it was called
	blocks func() // for tests: a request is about to wait in the kernel
}

// New makes a client. Nothing is opened before its first lease. warn is told, once, of what keeps
// it from working; it may be nil.
func New(dir string, l Limits, warn func(text string)) *Client {
	id := rand.Uint64()
	clients.Store(id, true)
	return &Client{dir: dir, limits: l, warn: warn, id: id,
		processors: sync.OnceValue(func() int { return machine.Processors("/") }),
		memory:     sync.OnceValue(func() int64 { return machine.Memory("/") }),
		most:       sync.OnceValue(func() int64 { return machine.MemoryLimit("/") }),
		ancestors:  sync.OnceValue(func() []uint32 { return ancestors("/proc", os.Getppid()) }),
		turns:      map[int32]*turn{}, waits: map[*turn]bool{}, now: time.Now, blocks: func() {}}
}

// FromEnviron is the client of this user: in Dir, with limits where the caller has some, else those
// of KBUILD_JOBS and KBUILD_MEM. It is nil if KBUILD_BROKER is 0.
func FromEnviron(env func(string) string, l Limits, warn func(text string)) *Client {
	if env("KBUILD_BROKER") == "0" {
		return nil
	}
	return New(Dir(env), l, warn)
}

// OnIdle has f called once, when a request has to wait and the client has no lease: nothing runs
// then, and a user may wonder why. It comes before the first Acquire.
func (c *Client) OnIdle(f func()) { c.idle = f }

// tellIdle calls what OnIdle was given, if it is time.
func (c *Client) tellIdle() {
	c.mu.Lock()
	f := c.idle
	if len(c.turns) > len(c.waits) {
		f = nil
	} else {
		c.idle = nil
	}
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

// Lease is the right to run a command. It ends with Release, or with the process.
type Lease struct {
	turn *turn // nil if there is no broker
}

// Acquire waits for a lease. The error is that of ctx, and there is no other: who cannot use the
// broker goes without. Nothing may be held meanwhile that somebody with a lease may wait for,
// another lease of the same command least of all.
func (c *Client) Acquire(ctx context.Context, r Request) (*Lease, error) {
	return c.acquire(ctx, r, true)
}

// TryAcquire takes a lease if there is one for r now that nobody waits for with more right. It is
// nil otherwise.
func (c *Client) TryAcquire(ctx context.Context, r Request) *Lease {
	l, _ := c.acquire(ctx, r, false)
	return l
}

func (c *Client) acquire(ctx context.Context, r Request, wait bool) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := c.open()
	if t == nil {
		return &Lease{}, nil
	}
	p, err := c.enqueue(ctx, t, r)
	if err == nil && !p.held && wait {
		err = p.wait(ctx)
	}
	switch {
	case err == nil && p.held:
		return &Lease{p}, nil
	case p != nil:
		p.leave()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		c.fail(err)
		return &Lease{}, nil
	}
	return nil, nil
}

// Release ends a lease. A second one does nothing.
func (l *Lease) Release() {
	if l.turn != nil {
		l.turn.leave()
		l.turn = nil
	}
}

// clients are those of this program: a lease of its process that none of them has is of the program
// that it was before an exec.
var clients sync.Map

func ofProcess(client uint64) bool {
	_, ok := clients.Load(client)
	return ok
}

// Inherit has a lease go over to the program that this process becomes, and to all that it starts:
// it ends with the last of them.
func (l *Lease) Inherit() error {
	if l.turn == nil {
		return nil
	}
	_, err := unix.FcntlInt(uintptr(l.turn.fifo), unix.F_SETFD, 0)
	return err
}

// Close ends all leases of the client. Requests that wait are granted: there is no broker any more.
func (c *Client) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.ended = true
	t := c.table
	c.table = nil
	if t != nil {
		close(t.closed) // before those who wait are woken, who look at it after they have taken what woke them
	}
	var leases []*turn
	for _, p := range c.turns {
		if c.waits[p] {
			unix.Write(p.fifo, []byte{0}) // it goes by itself
		} else {
			leases = append(leases, p)
		}
	}
	c.mu.Unlock()
	for _, p := range leases {
		p.leave()
	}
	if t != nil {
		t.close()
	}
}

// open gives the table; nil if there is none to use.
func (c *Client) open() *table {
	if c == nil {
		return nil
	}
	c.once.Do(func() {
		t, err := openTable(c.dir)
		if err != nil {
			c.fail(err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.table = t
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table
}

// fail has the client go without a broker from now on. Leases that it has stay.
func (c *Client) fail(err error) {
	c.mu.Lock()
	first := !c.ended
	c.table, c.ended = nil, true
	c.mu.Unlock()
	if first && c.warn != nil {
		c.warn(fmt.Sprintf("processors and memory are not shared with other builds: %v; KBUILD_BROKER=0 is without this warning", err))
	}
}

// row is what a request looks like in the table, but for its ticket. measured is the memory that
// was measured for all.
func (c *Client) row(r Request, measured int64) row {
	w := row{state: waiting, pid: uint32(os.Getpid()), client: c.id, since: c.now().UnixNano(),
		memory: min(max(0, r.Memory), unlimited), memoryLimit: c.limits.Memory, processors: int32(min(c.limits.Processors, math.MaxInt32))}
	if w.processors <= 0 {
		w.processors = int32(max(1, c.processors()))
	}
	if w.memoryLimit <= 0 {
		w.memoryLimit = smallest(measured, c.most())
	}
	return w
}

// AllMemory is what a request asks for that wants to be alone.
const AllMemory = unlimited

// unlimited is a limit that no sum of leases reaches.
const unlimited = int64(1) << 50

// smallest is the smaller of two limits of memory, of which 0 is none.
func smallest(a, b int64) int64 {
	if a <= 0 {
		a = unlimited
	}
	if b <= 0 {
		b = unlimited
	}
	return min(a, b, unlimited)
}
