// Package broker shares the processors and the memory of a machine between all kbuild processes of
// a user: builds and compiler launchers. Each takes a lease before it runs a command. The broker
// knows nothing of the commands.
//
// There is no daemon. A private folder of the user has a file of slots and a FIFO for each slot. A
// lease is a slot with a row in the file. The row has the planned memory, the limits of its client,
// and a ticket that orders requests by arrival. A process that reads or changes rows holds the
// flock of the file, the guard, for some microseconds.
//
// # Liveness
//
// A lease lives while a description of its FIFO is open that has the FIFO's lock (F_OFD_SETLK).
// Only a close ends it: by Release, or by the kernel after any death of the process. So a kill at
// any instruction loses nothing. The row of a dead lease is left unchanged and is stale. A process
// that lacks room, or looks for a slot, tests the lock and frees the row. Process ids are shown to
// users, and identify which command runs inside which; they never decide whether a lease lives.
//
// # Admission
//
// A request may start if its own limit, and each larger limit of another client, still cover the
// leases under that limit. A lease is under a limit if its own limit is the same or smaller
// (budget). With equal limits that is all leases. A build with -j2 beside others then has two
// processes, and the others have the rest. If no memory is leased, a request is granted however
// small its limit: something always runs.
//
// Requests are served first come, first served, by ticket. The head is the first waiting request
// that does not fit. A request behind it may pass if the head would still fit beside it and the
// leases that have passed, which have a later ticket. So the head starts at the latest when the
// leases have ended that were held when it became the head. Each waiting request becomes the head
// in turn. No time is estimated. See admit.
//
// # Wakeups
//
// A waiting process polls its own FIFO for a byte, and the FIFOs of others for their end. The end
// is POLLHUP, which the kernel sends after it has dropped the lock. The head watches all holders of
// leases; another waiting request watches the one before it. Each change is noticed:
//
//   - A lease ends, or its holder dies: the head is woken.
//   - A waiting request leaves or its process dies: the next request is woken.
//   - A waiting request gets its lease: it wakes the head, and the next request, which must now
//     watch another one.
//
// A woken process reads all rows under the guard and frees the dead ones. It writes to the FIFO of
// every other request that may start now. Only then does it change its own row, which no other
// process does. If it dies before that change, the woken processes find the old state and decide
// the same. If it dies after the change, they or the next request watch its new state.
//
// # Progress
//
// A lease is the last resource that a process takes before it runs a command. Make's token is taken
// earlier, and no locks of stores are held. So the holder of a lease waits only for its command.
// The command itself may request leases: a script that calls kbuild, a compiler that is a launcher.
// A request names the process of the nearest lease that it runs inside (outer). While the request
// waits or runs, that outer lease does not count, for any client. So each lease that counts runs
// something that ends by itself. A request that does not fit although no lease counts is granted.
//
// # Failures
//
// Without a private folder, on a network file system, or if files cannot be written or locked, a
// client warns once and grants everything. The same happens if another process keeps the guard for
// longer than patience: that process was stopped while it held the guard.
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

// Client takes leases. Its methods may be called from any goroutine. A nil Client grants every
// request immediately.
type Client struct {
	dir    string
	limits Limits
	warn   func(text string)
	id     uint64 // distinguishes the rows of this client

	processors func() int
	memory     func() int64 // available memory
	most       func() int64 // limit of the control groups of this process
	ancestors  func() []uint32

	once  sync.Once
	mu    sync.Mutex
	table *table           // nil before the first lease, and if it cannot be used
	turns map[int32]*turn  // of this client, by slot
	waits map[*turn]bool   // the waiting ones of turns
	ended bool             // Close was called
	now   func() time.Time // for display

	idle   func() // see OnIdle; nil after it was called
	blocks func() // for tests: called before a request waits in the kernel
}

// New returns a client. It opens nothing before its first lease. warn is called once if the broker
// cannot be used; it may be nil.
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

// FromEnviron returns a client in Dir, with l as its limits. It returns nil if KBUILD_BROKER is 0.
func FromEnviron(env func(string) string, l Limits, warn func(text string)) *Client {
	if env("KBUILD_BROKER") == "0" {
		return nil
	}
	return New(Dir(env), l, warn)
}

// OnIdle registers f, which is called once when a request has to wait while the client has no
// lease. Nothing runs then, and a user may wonder why. OnIdle must be called before the first
// Acquire.
func (c *Client) OnIdle(f func()) { c.idle = f }

// tellIdle calls the function that OnIdle registered, unless the client has a lease.
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

// Acquire waits for a lease. The only error is that of ctx: without a working broker every request
// is granted. The caller must hold nothing that the holder of a lease may wait for, least of all
// another lease of the same command.
func (c *Client) Acquire(ctx context.Context, r Request) (*Lease, error) {
	return c.acquire(ctx, r, true)
}

// TryAcquire takes a lease for r if one is available now and no earlier request needs it. It
// returns nil otherwise.
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

// Release ends a lease. A second call does nothing.
func (l *Lease) Release() {
	if l.turn != nil {
		l.turn.leave()
		l.turn = nil
	}
}

// clients are the clients of this program. If none of them has a lease of this process, the program
// before an exec took it.
var clients sync.Map

func ofProcess(client uint64) bool {
	_, ok := clients.Load(client)
	return ok
}

// Inherit passes a lease on to the program that this process execs, and to all processes that it
// starts. The lease ends with the last of them.
func (l *Lease) Inherit() error {
	if l.turn == nil {
		return nil
	}
	_, err := unix.FcntlInt(uintptr(l.turn.fifo), unix.F_SETFD, 0)
	return err
}

// Close ends all leases of the client. Waiting requests are granted without the broker.
func (c *Client) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.ended = true
	t := c.table
	c.table = nil
	if t != nil {
		close(t.closed) // before waiting requests are woken: they check it after they are
	}
	var leases []*turn
	for _, p := range c.turns {
		if c.waits[p] {
			unix.Write(p.fifo, []byte{0}) // it leaves by itself
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

// open returns the table, or nil if it cannot be used.
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

// fail makes the client grant everything without the broker. Its leases stay.
func (c *Client) fail(err error) {
	c.mu.Lock()
	first := !c.ended
	c.table, c.ended = nil, true
	c.mu.Unlock()
	if first && c.warn != nil {
		c.warn(fmt.Sprintf("processors and memory are not shared with other builds: %v; KBUILD_BROKER=0 is without this warning", err))
	}
}

// row returns the row of a request, without its ticket. measured is the available memory in the
// table.
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

// AllMemory is the memory of a request that must run alone.
const AllMemory = unlimited

// unlimited is a limit that no sum of leases reaches.
const unlimited = int64(1) << 50

// smallest returns the smaller of two memory limits; 0 means no limit.
func smallest(a, b int64) int64 {
	if a <= 0 {
		a = unlimited
	}
	if b <= 0 {
		b = unlimited
	}
	return min(a, b, unlimited)
}
