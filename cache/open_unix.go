//go:build unix

package cache

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// OpenFile is os.OpenFile for regular files. os.OpenFile asks the kernel of every file whether it can be waited for, which takes
// five system calls, and of a regular file the answer is no: more calls than reading a small file takes.
func OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	fd, err := openFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func openFile(name string, flag int, perm fs.FileMode) (int, error) {
	for {
		fd, err := syscall.Open(name, flag|syscall.O_CLOEXEC, uint32(perm.Perm()))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}

// AppendFile appends the content of a regular file to b, growing it as need be.
func AppendFile(b []byte, name string) ([]byte, error) {
	fd, err := openFile(name, os.O_RDONLY, 0)
	if err != nil {
		return b, err
	}
	defer syscall.Close(fd)
	for {
		if len(b) == cap(b) {
			b = append(b, make([]byte, max(4<<10, len(b)))...)[:len(b)]
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

// Rename is os.Rename without its look at what is there: a file takes the place of a file, never of a folder.
func Rename(from, to string) error {
	for {
		err := syscall.Rename(from, to)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
		return nil
	}
}
