package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The file of slots has a header, rows, and texts for users, each of a fixed size at a fixed
// offset. A row is written by one call and lies in one page, so that a killed process has written
// it entirely or not at all. Invalid content (after a crash of the machine) is a free row.
//
// The file is read and written, not mapped: a full disk is then an error, and no SIGBUS.
const (
	tableName = "slots.1" // another layout has another name
	rowSize   = 64
	wordsSize = 1024
	mostSlots = 4096
	wordsAt   = rowSize * (1 + mostSlots)
	firstRead = rowSize * (1 + 64) // more is read if there are more rows
)

// state is the state of a slot.
type state uint32

const (
	free state = iota
	waiting
	held
)

type row struct {
	state       state
	pid         uint32
	ticket      uint64 // smaller tickets came first
	client      uint64
	memory      int64  // bytes
	memoryLimit int64  // of the requesting client
	processors  int32  // of the requesting client
	outer       uint32 // process of the lease that this one runs inside; 0 is none
	since       int64  // Unix time in nanoseconds; for display
	command     uint32 // the child of outer that this process is or runs inside
}

func (r *row) encode() []byte {
	b := make([]byte, 0, rowSize)
	b = binary.LittleEndian.AppendUint32(b, uint32(r.state))
	b = binary.LittleEndian.AppendUint32(b, r.pid)
	for _, n := range []uint64{r.ticket, r.client, uint64(r.memory), uint64(r.memoryLimit)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(r.processors))
	b = binary.LittleEndian.AppendUint32(b, r.outer)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.since))
	b = binary.LittleEndian.AppendUint32(b, r.command)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func decode(b []byte) row {
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	r := row{state: state(u32(b)), pid: u32(b[4:]), ticket: u64(b[8:]), client: u64(b[16:]), memory: int64(u64(b[24:])), memoryLimit: int64(u64(b[32:])),
		processors: int32(u32(b[40:])), outer: u32(b[44:]), since: int64(u64(b[48:])), command: u32(b[56:])}
	if crc32.ChecksumIEEE(b[:60]) != u32(b[60:]) || r.state > held {
		return row{}
	}
	return r
}

type table struct {
	dir    string
	fd     int
	guard  chan struct{} // full while this process holds or awaits the guard
	closed chan struct{} // closed when the guard may no longer be taken

	measured int64 // bytes that were available when no lease was held; read with the rows
	rows     []row
}

func openTable(dir string) (*table, error) {
	if err := private(dir); err != nil {
		return nil, err
	}
	t := &table{dir: dir, fd: -1, guard: make(chan struct{}, 1), closed: make(chan struct{})}
	return t, t.reopen()
}

// reopen opens the file that has the name now.
func (t *table) reopen() error {
	fd, err := unix.Open(filepath.Join(t.dir, tableName), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("opening %s: %w", filepath.Join(t.dir, tableName), err)
	}
	if t.fd >= 0 {
		unix.Close(t.fd)
	}
	t.fd = fd
	return nil
}

// close closes the file, unless a goroutine still waits for the guard.
func (t *table) close() {
	select {
	case t.guard <- struct{}{}:
		unix.Close(t.fd)
	default:
	}
}

// patience limits the wait for the guard. A process needs the guard for some microseconds, but with
// hundreds of processes that all wait for a processor a turn may take seconds.
const patience = time.Minute

var errClosed = errors.New("the broker was closed")

var errStopped = errors.New("another kbuild keeps the file of slots locked; it may have been stopped (Ctrl-Z)")

// lock takes the guard and reads the table. The caller must call unlock if it returns no error.
func (t *table) lock(ctx context.Context) error {
	select {
	case t.guard <- struct{}{}:
	default:
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case t.guard <- struct{}{}:
		case <-t.closed:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return errStopped
		}
	}
	err := t.flock(ctx)
	if err == nil {
		if err = t.current(ctx); err == nil {
			err = t.read()
		}
		if err != nil {
			t.unlock()
		}
	}
	return err
}

// flock takes the kernel's lock. If it fails, it releases the guard of the process, now or later.
func (t *table) flock(ctx context.Context) error {
	err := flock(t.fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		<-t.guard
		return fmt.Errorf("locking %s: %w", filepath.Join(t.dir, tableName), err)
	}
	done, timer := make(chan error, 1), time.NewTimer(patience)
	defer timer.Stop()
	go func() { done <- flock(t.fd, unix.LOCK_EX) }()
	select {
	case err = <-done:
		if err != nil {
			<-t.guard
		}
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errStopped
	}
	go func() { // flock cannot be interrupted
		<-done
		t.unlock()
	}()
	return err
}

// current reopens the file if its name was removed.
func (t *table) current(ctx context.Context) error {
	var s unix.Stat_t
	for {
		if err := unix.Fstat(t.fd, &s); err != nil || s.Nlink > 0 {
			return err
		}
		if err := private(t.dir); err != nil {
			return err
		}
		if err := t.reopen(); err != nil { // closing the old file releases the lock
			return err
		}
		if err := flock(t.fd, unix.LOCK_EX); err != nil {
			return err
		}
	}
}

func (t *table) unlock() {
	flock(t.fd, unix.LOCK_UN)
	<-t.guard
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

// The header has the number of rows in the file, and the measured memory.

func (t *table) read() error {
	b := make([]byte, firstRead)
	n, err := unix.Pread(t.fd, b, 0)
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Join(t.dir, tableName), err)
	}
	used := min(int(binary.LittleEndian.Uint32(b)), mostSlots)
	t.measured = int64(binary.LittleEndian.Uint64(b[8:]))
	if end := rowSize * (1 + used); end > len(b) {
		b = append(b, make([]byte, end-len(b))...)
		if n, err = unix.Pread(t.fd, b, 0); err != nil {
			return fmt.Errorf("reading %s: %w", filepath.Join(t.dir, tableName), err)
		}
	}
	t.rows = t.rows[:0]
	for at := rowSize; len(t.rows) < used; at += rowSize {
		if at+rowSize > n { // the file was truncated
			t.rows = append(t.rows, row{})
			continue
		}
		t.rows = append(t.rows, decode(b[at:at+rowSize]))
	}
	return nil
}

func (t *table) writeHeader() error {
	b := make([]byte, rowSize)
	binary.LittleEndian.PutUint32(b, uint32(len(t.rows)))
	binary.LittleEndian.PutUint64(b[8:], uint64(t.measured))
	return t.write(b, 0)
}

// set writes a row.
func (t *table) set(slot int32, r row) error {
	t.rows[slot] = r
	return t.write(r.encode(), rowSize*(1+int64(slot)))
}

// extend adds a free row. The row is written before the header counts it.
func (t *table) extend() (slot int32, err error) {
	t.rows = append(t.rows, row{})
	slot = int32(len(t.rows) - 1)
	if err := t.set(slot, row{}); err != nil {
		return 0, err
	}
	return slot, t.writeHeader()
}

// shrink removes free rows at the end.
func (t *table) shrink() error {
	n := len(t.rows)
	for n > 0 && t.rows[n-1].state == free {
		n--
	}
	if n == len(t.rows) {
		return nil
	}
	t.rows = t.rows[:n]
	return t.writeHeader()
}

// setWords writes the texts of a slot for users: label, architecture, project. Texts that are too
// long lose their start.
func (t *table) setWords(slot int32, r *Request) error {
	var b []byte
	for i, s := range []string{r.Label, r.Arch, r.Project} {
		s = strings.ReplaceAll(s, "\x00", "")
		if most := []int{400, 100, 500}[i]; len(s) > most {
			s = "..." + s[len(s)-most+3:]
		}
		b = append(append(b, s...), 0)
	}
	return t.write(b, wordsAt+wordsSize*int64(slot))
}

func (t *table) words(slot int32) (label, arch, project string) {
	b := make([]byte, wordsSize)
	n, _ := unix.Pread(t.fd, b, wordsAt+wordsSize*int64(slot))
	s := append(strings.Split(string(b[:max(0, n)]), "\x00"), "", "", "")
	return s[0], s[1], s[2]
}

func (t *table) write(b []byte, at int64) error {
	n, err := unix.Pwrite(t.fd, b, at)
	if err == nil && n < len(b) {
		err = unix.ENOSPC
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Join(t.dir, tableName), err)
	}
	return nil
}

// fifo returns the name of the FIFO of a slot.
func (t *table) fifo(slot int32) string { return filepath.Join(t.dir, strconv.Itoa(int(slot))) }
