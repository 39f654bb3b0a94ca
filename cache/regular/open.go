package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open is os.OpenFile for regular files. For anything else it returns ErrKind, or EISDIR for a
// folder, without blocking. os.OpenFile also tries to register every file with the poller, which is
// useless for a regular file. It takes five system calls, more than reading a small file.
func Open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	fd, err := open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if !fresh(flag) {
		// O_NONBLOCK would make package os register it with the poller.
		unix.FcntlInt(uintptr(fd), unix.F_SETFL, flag&unix.O_APPEND)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// fresh reports whether opening with these flags creates the file.
func fresh(flag int) bool { return flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0 }

// open opens a file without waiting for the other end of a pipe, and checks its type.
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
			if info, e := os.Stat(name); e == nil && errors.Is(err, syscall.ENXIO) {
				// A socket; a pipe without a reader.
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

// check rejects anything but a regular file. /dev/null counts as an empty file: users pass it where
// a file is required.
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

// isNull reports whether st is of /dev/null, which a link may lead to.
func isNull(st *unix.Stat_t) bool {
	var null unix.Stat_t
	return unix.Stat(os.DevNull, &null) == nil && null.Rdev == st.Rdev
}

// Append appends the content of a regular file to b and grows b if necessary.
func Append(b []byte, name string) ([]byte, error) {
	fd, err := open(name, os.O_RDONLY, 0)
	if err != nil {
		return b, err
	}
	defer syscall.Close(fd)
	for {
		if len(b) == cap(b) {
			var st unix.Stat_t
			unix.Fstat(fd, &st) // only a first guess: the file may be larger than reported
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

// Copy copies a file, with the permission to execute it, to a name that does not exist.
func Copy(from, to string) error {
	in, err := Open(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := Open(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666|info.Mode()&0o111)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
