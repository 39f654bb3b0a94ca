package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Path returns the file that all kbuild processes of a user share. It is in XDG_RUNTIME_DIR if that
// belongs to the user, else in TMPDIR. After su or sudo XDG_RUNTIME_DIR may be another user's.
// Another layout has another name.
func Path() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		var s unix.Stat_t
		if err := unix.Stat(dir, &s); err == nil && s.Uid == uint32(os.Geteuid()) {
			return filepath.Join(dir, "kbuild-leases.1")
		}
	}
	return filepath.Join(os.TempDir(), "kbuild-leases.1-"+strconv.Itoa(os.Geteuid()))
}

// row is a row of the file, as it is in the file: all processes are of one machine. It is written
// by one call and lies in one page, so a killed process has written it entirely or not at all.
type row struct {
	State    state
	PID      uint32
	Number   int64    // Unix time of the arrival in nanoseconds; greater than all before
	Started  int64    // Unix time in nanoseconds
	Needs    [2]int64 // processors and memory
	Limits   [2]int64 // of its client
	Measured int64    // bytes that were available before the leases; 0 means unknown
	Text     [960]byte
}

const rowSize = 1024

const _ = -(unsafe.Sizeof(row{}) ^ rowSize) // it does not compile with another size

type state uint32

const (
	free state = iota
	waiting
	running
)

// The indices of Needs and Limits.
const (
	processors = iota
	memory
)

// setText sets the texts for users. Texts that are too long lose their start.
func (r *row) setText(q Request) {
	b := r.Text[:0]
	for i, s := range []string{q.Label, q.Arch, q.Project} {
		s = strings.ReplaceAll(s, "\x00", "")
		if most := []int{380, 80, 490}[i]; len(s) > most {
			s = "..." + s[len(s)-most+3:]
		}
		b = append(append(b, s...), 0)
	}
}

// file is an open file of rows. It is read and written, not mapped: a full disk is then an error,
// and no SIGBUS.
type file struct {
	path string
	fd   int
}

// openFile opens the file, or creates it if flags has O_CREAT. It rejects a file of another user,
// and one that several machines may share.
func openFile(path string, flags int) (*file, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "opening", Path: path, Err: err}
	}
	f := &file{path, fd}
	var s unix.Stat_t
	var fs unix.Statfs_t
	if err = errors.Join(unix.Fstat(fd, &s), unix.Fstatfs(fd, &fs)); err != nil {
		err = f.failed("reading", err)
	} else if s.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fmt.Errorf("%s is not a regular file; remove it", path)
	} else if s.Uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("%s belongs to another user; "+
			"set XDG_RUNTIME_DIR or TMPDIR to a folder of your own", path)
	} else if network[uint32(fs.Type)] {
		err = fmt.Errorf("%s is on a network file system, which several machines may share; "+
			"set TMPDIR to a local folder", path)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// network lists the file systems whose locks, if they work, are shared by all machines that mount
// them.
var network = map[uint32]bool{
	unix.NFS_SUPER_MAGIC:  true,
	unix.SMB_SUPER_MAGIC:  true,
	unix.SMB2_SUPER_MAGIC: true,
	unix.CIFS_SUPER_MAGIC: true,
	unix.AFS_SUPER_MAGIC:  true,
	unix.AFS_FS_MAGIC:     true,
	unix.CEPH_SUPER_MAGIC: true,
	unix.CODA_SUPER_MAGIC: true,
	unix.V9FS_MAGIC:       true,
	0x0bd00bd0:            true, // Lustre
	0x47504653:            true, // GPFS
	0x19830326:            true, // BeeGFS
}

func (f *file) close() { unix.Close(f.fd) }

func (f *file) failed(op string, err error) error {
	if err != nil {
		err = &os.PathError{Op: op, Path: f.path, Err: err}
	}
	return err
}

// lock takes the guard.
func (f *file) lock(ctx context.Context) error {
	err := flock(f.fd, unix.LOCK_EX|unix.LOCK_NB)
	if err != unix.EWOULDBLOCK {
		return f.failed("locking", err)
	}
	// A flock that waits cannot be interrupted, so it has a descriptor of its own.
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return f.failed("locking", err)
	}
	done := make(chan error, 1)
	go func() {
		done <- flock(fd, unix.LOCK_EX)
		unix.Close(fd)
	}()
	select {
	case err := <-done:
		return f.failed("locking", err)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return errors.New("another kbuild keeps " + f.path + " locked; it may have been stopped (Ctrl-Z)")
	}
}

func (f *file) unlock() { flock(f.fd, unix.LOCK_UN) }

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

// read returns all rows. A row whose request has ended is free. The file has the locks of the own
// request, which it cannot test.
func (f *file) read(own int64) ([]row, error) {
	var s unix.Stat_t
	if err := unix.Fstat(f.fd, &s); err != nil {
		return nil, f.failed("reading", err)
	}
	rows := make([]row, s.Size/rowSize)
	if len(rows) == 0 {
		return nil, nil
	}
	if _, err := unix.Pread(f.fd, bytesOf(rows), 0); err != nil {
		return nil, f.failed("reading", err)
	}
	for i := range rows {
		r := &rows[i]
		if r.State > running || r.Number <= 0 || r.Number >= inLine {
			*r = row{} // the file was damaged
		}
		if r.State == free || r.Number == own {
			continue
		}
		lock := unix.Flock_t{Type: unix.F_RDLCK, Start: r.Number, Len: 1}
		if err := unix.FcntlFlock(uintptr(f.fd), unix.F_OFD_GETLK, &lock); err != nil {
			return nil, f.failed("locking", err)
		}
		if lock.Type == unix.F_UNLCK {
			r.State = free
		}
	}
	return rows, nil
}

func (f *file) write(slot int, r *row) error {
	b := bytesOf(unsafe.Slice(r, 1))
	n, err := unix.Pwrite(f.fd, b, int64(slot)*rowSize)
	if err == nil && n < len(b) {
		err = unix.ENOSPC
	}
	return f.failed("writing", err)
}

func bytesOf(rows []row) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), len(rows)*rowSize)
}

// A request has the byte locked at the offset of its number, and while it waits that at inLine plus
// its number.
const inLine = 1 << 62

func (f *file) lockByte(at int64) error   { return f.fcntl(unix.F_OFD_SETLK, unix.F_WRLCK, at, 1) }
func (f *file) unlockByte(at int64) error { return f.fcntl(unix.F_OFD_SETLK, unix.F_UNLCK, at, 1) }
func (f *file) unlockAll() error          { return f.fcntl(unix.F_OFD_SETLK, unix.F_UNLCK, 0, 0) }

// waitByte returns when nobody has the lock of a byte.
func (f *file) waitByte(at int64) error { return f.fcntl(unix.F_OFD_SETLKW, unix.F_RDLCK, at, 1) }

func (f *file) fcntl(cmd int, how int16, at, n int64) error {
	for {
		lock := unix.Flock_t{Type: how, Start: at, Len: n}
		if err := unix.FcntlFlock(uintptr(f.fd), cmd, &lock); err != unix.EINTR {
			return f.failed("locking", err)
		}
	}
}

// reopen opens the same file, even after its name was removed, to wait for locks of others.
func (f *file) reopen() (*file, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(f.fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return &file{f.path, fd}, f.failed("opening", err)
}

// Entry is a lease or a waiting request.
type Entry struct {
	PID int // process id in its own pid namespace, which may be a container's
	Request
	Held   bool
	Since  time.Time // start of the lease, or of the wait
	Waits  Reason    // reason for the wait
	Behind int       // if Waits is Turn: the process of the head of the line
	Limits Limits    // of the requesting client
}

// List returns the current leases of a file, the longest held first, followed by the waiting
// requests in their order. It takes no locks.
func List(path string) (list []Entry, err error) {
	f, err := openFile(path, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no lease was ever taken here
	}
	if err != nil {
		return nil, err
	}
	defer f.close()
	rows, err := f.read(0)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].State == running {
			list = append(list, rows[i].entry(rows[i].Started))
		}
	}
	slices.SortStableFunc(list, func(a, b Entry) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID))
	})
	head := 0
	for _, w := range admit(rows) {
		e := w.entry(w.Number)
		e.Waits = w.lacks
		if e.Waits == Turn {
			e.Behind = head
		} else if head == 0 && e.Waits != None {
			head = e.PID
		}
		list = append(list, e)
	}
	return list, nil
}

func (r *row) entry(since int64) Entry {
	text := append(strings.SplitN(string(r.Text[:]), "\x00", 4), "", "")
	e := Entry{PID: int(r.PID), Held: r.State == running, Since: time.Unix(0, since),
		Request: Request{Memory: r.Needs[memory], Label: text[0], Arch: text[1], Project: text[2]},
		Limits:  Limits{int(r.Limits[processors]), r.Limits[memory]}}
	if e.Limits.Memory >= AllMemory {
		e.Limits.Memory = 0
	}
	return e
}
