package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// turn is a slot of this process: a waiting request or a lease.
type turn struct {
	c       *Client
	t       *table
	slot    int32
	fifo    int // open for reading and writing, and locked
	row     row
	held    bool
	left    bool          // the FIFO is closed
	watched map[int32]int // FIFOs of others, by slot, open for reading
}

// enqueue takes a slot for a request, and the lease if it may have one now. Otherwise the request
// waits from then on, unless enqueue returns an error.
func (c *Client) enqueue(ctx context.Context, t *table, r Request) (*turn, error) {
	if err := t.lock(ctx); err != nil {
		return nil, err
	}
	defer t.unlock()
	p := &turn{c: c, t: t, watched: map[int32]int{}}
	if err := c.measure(t); err != nil {
		return nil, err
	}
	p.row = c.row(r, t.measured)
	for i := range t.rows {
		if o := &t.rows[i]; o.state != free && o.ticket >= p.row.ticket {
			p.row.ticket = o.ticket + 1
		}
	}
	p.row.outer, p.row.command = c.outer(t)
	if err := p.take(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.turns[p.slot], c.waits[p] = p, true
	c.mu.Unlock()
	if err := t.setWords(p.slot, &r); err != nil {
		return p, err
	}
	return p, p.settle()
}

// measure stores the available memory for all clients while no lease is held. Later a part of it is
// in use by the holders of leases.
func (c *Client) measure(t *table) error {
	if c.limits.Memory > 0 {
		return nil
	}
	for i := range t.rows {
		if t.rows[i].state != held {
			continue
		}
		alive, err := c.alive(t, int32(i))
		switch {
		case err != nil:
			return err
		case alive && t.measured > 0:
			return nil
		case !alive:
			if err := t.set(int32(i), row{}); err != nil {
				return err
			}
		}
	}
	n := c.memory()
	if n == t.measured {
		return nil
	}
	t.measured = n
	return t.writeHeader()
}

// outer returns the nearest process with a lease that this one runs inside, and the command that it
// has started; 0 if there is none.
func (c *Client) outer(t *table) (outer, command uint32) {
	if !slices.ContainsFunc(t.rows, func(r row) bool { return r.state == held && r.client != c.id }) {
		return 0, 0
	}
	command = uint32(os.Getpid())
	if slices.ContainsFunc(t.rows, func(r row) bool { return r.state == held && r.pid == command && !ofProcess(r.client) }) {
		// The program before an exec of this process has left a lease: see Inherit.
		return command, command
	}
	for _, pid := range c.ancestors() {
		if slices.ContainsFunc(t.rows, func(r row) bool { return r.state == held && r.pid == pid }) {
			return pid, command
		}
		command = pid
	}
	return 0, 0
}

// take opens and locks the FIFO of a free slot.
func (p *turn) take() error {
	t := p.t
	for i := range t.rows {
		if t.rows[i].state == free || p.c.released(t, int32(i)) {
			if ok, err := p.lockFIFO(int32(i)); ok || err != nil {
				return err
			}
		}
	}
	for len(t.rows) < mostSlots {
		slot, err := t.extend()
		if err != nil {
			return err
		}
		if ok, err := p.lockFIFO(slot); ok || err != nil {
			return err
		}
	}
	for i := range t.rows {
		if alive, err := p.c.alive(t, int32(i)); err != nil {
			return err
		} else if alive {
			continue
		}
		if ok, err := p.lockFIFO(int32(i)); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %d leases are in use", t.dir, mostSlots)
}

// lockFIFO makes the FIFO of a slot p's. ok is false if another process has its lock. That may be a
// child of its last owner, while it starts a program.
func (p *turn) lockFIFO(slot int32) (ok bool, err error) {
	name := p.t.fifo(slot)
	fd, err := openFIFO(name, unix.O_RDWR)
	if errors.Is(err, unix.ENOENT) {
		if err = unix.Mkfifo(name, 0o600); err == nil || errors.Is(err, unix.EEXIST) {
			fd, err = openFIFO(name, unix.O_RDWR)
		}
	}
	if err != nil {
		return false, fmt.Errorf("opening %s: %w", name, err)
	}
	err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return false, nil
		}
		return false, fmt.Errorf("locking %s: %w", name, err)
	}
	p.slot, p.fifo = slot, fd
	p.drain() // a watcher may have kept the FIFO with bytes for its last owner
	return true, nil
}

func openFIFO(name string, mode int) (int, error) {
	for {
		fd, err := unix.Open(name, mode|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// settle decides, under the guard, whether p may start. If so, p gets its lease. Otherwise p is in
// the table and watches the processes that it must.
func (p *turn) settle() error {
	var stopped []int32
	for {
		p.t.rows[p.slot] = p.row
		q := admit(p.t.rows)
		at := q.at(p.slot)
		if !q.may(at) {
			if head := q.waiting[0]; at > 0 && isStopped(q.rows[head].pid) {
				stopped = append(stopped, head)
				p.t.rows[head] = row{} // not in the file
				continue
			}
			if freed, err := p.watch(&q, at); freed || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		p.wakeOthers(&q, at, stopped)
		if q.may(at) {
			p.row.state, p.row.since = held, p.c.now().UnixNano()
		}
		if err := p.t.set(p.slot, p.row); err != nil {
			return err
		}
		if q.may(at) {
			p.begin()
		}
		return nil
	}
}

// begin ends the wait: p has its lease.
func (p *turn) begin() {
	p.held = true
	p.unwatch(nil)
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	delete(p.c.waits, p)
}

// isStopped reports whether a process was stopped (Ctrl-Z). If it is the head, others do not wait
// until it continues.
func isStopped(pid uint32) bool {
	return slices.Equal(statFields("/proc", int(pid), 1), []string{"T"})
}

// wakeOthers wakes the requests that may start. If p starts, it also wakes those that must watch
// another process.
func (p *turn) wakeOthers(q *queue, at int, stopped []int32) {
	told := q.may(at)
	for _, slot := range stopped {
		if told {
			p.t.wake(slot) // it checks when it continues
		}
	}
	first := true // of those that still wait
	for k, slot := range q.waiting {
		if k == at {
			continue
		}
		if q.may(k) || told && (first || k == at+1) {
			p.t.wake(slot)
		}
		if !q.may(k) {
			first = false
		}
	}
}

// wake makes the owner of a slot check the table.
func (t *table) wake(slot int32) {
	fd, err := openFIFO(t.fifo(slot), unix.O_WRONLY)
	if err == nil { // else the owner died
		unix.Write(fd, []byte{0})
		unix.Close(fd)
	}
}

// watch makes sure that p notices the end of the processes it depends on. freed reports that some
// had ended, so that p must check again.
func (p *turn) watch(q *queue, at int) (freed bool, err error) {
	needed := map[int32]bool{}
	if at > 0 {
		needed[q.waiting[at-1]] = true
	} else {
		for i := range q.rows {
			if q.rows[i].state == held {
				needed[int32(i)] = true
			}
		}
	}
	p.unwatch(needed)
	for slot := range needed {
		alive, err := p.alive(slot)
		if err != nil {
			return false, err
		}
		if !alive {
			freed = true
			if err := p.t.set(slot, row{}); err != nil {
				return false, err
			}
		}
	}
	if freed {
		err = p.t.shrink()
	}
	return freed, err
}

// alive reports whether a slot has an owner, and watches that owner. Turns of this client are not
// watched: they notify each other.
func (p *turn) alive(slot int32) (bool, error) {
	if p.t.rows[slot].client == p.c.id {
		return !p.c.released(p.t, slot), nil
	}
	fd, ok := p.watched[slot]
	if !ok {
		var err error
		if fd, err = openFIFO(p.t.fifo(slot), unix.O_RDONLY); errors.Is(err, unix.ENOENT) {
			// The files are being removed: the slot can neither be tested nor watched.
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("opening %s: %w", p.t.fifo(slot), err)
		}
		p.watched[slot] = fd
	}
	return locked(fd)
}

// alive is the same without watching.
func (c *Client) alive(t *table, slot int32) (bool, error) {
	p := turn{c: c, t: t, watched: map[int32]int{}}
	defer p.unwatch(nil)
	return p.alive(slot)
}

// locked reports whether any process has the lock of a FIFO.
func locked(fd int) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l); err != nil {
		return false, fmt.Errorf("asking for a lock of the broker: %w", err)
	}
	return l.Type != unix.F_UNLCK, nil
}

// released reports whether a row of this client is no longer in use.
func (c *Client) released(t *table, slot int32) bool {
	r := &t.rows[slot]
	if r.state == free || r.client != c.id {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.turns[slot]
	return p == nil || p.row.ticket != r.ticket
}

// unwatch closes the watched FIFOs, except for some.
func (p *turn) unwatch(but map[int32]bool) {
	for slot, fd := range p.watched {
		if !but[slot] {
			unix.Close(fd)
			delete(p.watched, slot)
		}
	}
}

// wait waits until p has its lease.
func (p *turn) wait(ctx context.Context) error {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		unix.Write(p.fifo, []byte{0})
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken // or it would write to a new file with the same number
		}
	}()
	for !p.held {
		select {
		case <-p.t.closed:
			return errClosed
		default:
		}
		p.c.tellIdle()
		p.c.blocks()
		if err := p.poll(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.t.lock(ctx); err != nil {
			return err
		}
		p.drain()
		err := errRemoved
		if p.listed() {
			err = p.settle()
		}
		p.t.unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

var errRemoved = errors.New("somebody has removed the files of the broker")

// listed reports whether the table still has the row of p.
func (p *turn) listed() bool {
	return int(p.slot) < len(p.t.rows) && p.t.rows[p.slot].client == p.c.id && p.t.rows[p.slot].ticket == p.row.ticket
}

// poll blocks until p's FIFO has a byte, or a watched process has ended.
func (p *turn) poll() error {
	fds := []unix.PollFd{{Fd: int32(p.fifo), Events: unix.POLLIN}}
	for _, fd := range p.watched {
		fds = append(fds, unix.PollFd{Fd: int32(fd)})
	}
	for {
		_, err := unix.Poll(fds, -1)
		if err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
	}
}

func (p *turn) drain() {
	var b [64]byte
	for {
		if n, err := unix.Read(p.fifo, b[:]); err != unix.EINTR && n < len(b) {
			return
		}
	}
}

// leave ends a lease or a waiting request: the kernel drops the lock and wakes the watchers. It
// wakes the waiting turns of this client itself, since they do not watch it.
func (p *turn) leave() {
	c := p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	delete(c.waits, p)
	if c.turns[p.slot] == p {
		delete(c.turns, p.slot)
	}
	p.unwatch(nil)
	unix.Close(p.fifo)
	for o := range c.waits {
		unix.Write(o.fifo, []byte{0})
	}
}
