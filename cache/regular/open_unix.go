//go:build unix

package regular

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open is os.OpenFile for regular files; what else is there gives ErrKind (a folder EISDIR), at
// once. os.OpenFile asks the kernel of every file whether it can be waited for, which takes five
// system calls, and of a regular file the answer is no: more calls than reading a small file takes.
func Open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	fd, err := open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if !fresh(flag) {
		unix.FcntlInt(uintptr(fd), unix.F_SETFL, flag&unix.O_APPEND) // else package os takes it for something to be waited for
	}
	return os.NewFile(uintptr(fd), name), nil
}

// fresh reports that what is opened was not there before.
func fresh(flag int) bool { return flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0 }

// open does not wait for the other end of a pipe, and looks at what it has opened.
func open(name string, flag int, perm fs.FileMode) (int, error) {
	nonblock := unix.O_NONBLOCK
	if fresh(flag) {
		nonblock = 0
	}
	for {
		fd, err := syscall.Open(name, flag|syscall.O_CLOEXEC|nonblock, uint32(perm.Perm()))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			if info, e := os.Stat(name); e == nil && errors.Is(err, syscall.ENXIO) { // a socket; a pipe that nobody reads
				return -1, refused(name, info.Mode())
			}
			return -1, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		if fresh(flag) {
			return fd, nil
		}
		if err := check(name, fd); err != nil {
			syscall.Close(fd)
			return -1, err
		}
		return fd, nil
	}
}

// check looks at what was opened. /dev/null is as an empty file: people put it where a file must
// be.
func check(name string, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	switch kind := uint32(st.Mode) & unix.S_IFMT; {
	case kind == unix.S_IFREG, name == os.DevNull:
		return nil
	case kind == unix.S_IFDIR:
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case kind == unix.S_IFCHR && isNull(&st):
		return nil
	default:
		mode, ok := map[uint32]fs.FileMode{unix.S_IFIFO: fs.ModeNamedPipe, unix.S_IFSOCK: fs.ModeSocket,
			unix.S_IFBLK: fs.ModeDevice, unix.S_IFCHR: fs.ModeDevice}[kind]
		if !ok {
			mode = fs.ModeIrregular
		}
		return refused(name, mode)
	}
}

// isNull reports a link to /dev/null.
func isNull(st *unix.Stat_t) bool {
	var null unix.Stat_t
	return unix.Stat(os.DevNull, &null) == nil && null.Rdev == st.Rdev
}

// Append appends the content of a regular file to b, growing it as need be.
func Append(b []byte, name string) ([]byte, error) {
	fd, err := open(name, os.O_RDONLY, 0)
	if err != nil {
		return b, err
	}
	defer syscall.Close(fd)
	for {
		if len(b) == cap(b) {
			var st unix.Stat_t
			unix.Fstat(fd, &st) // what it reports is where to begin, and may be too little
			b = slices.Grow(b, max(4<<10, int(min(st.Size, 1<<30))-len(b)+1))
		}
		n, err := read(fd, b[len(b):cap(b)])
		if err != nil {
			return b, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return b, nil
		}
		b = b[:len(b)+n]
	}
}

func read(fd int, b []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, b)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
