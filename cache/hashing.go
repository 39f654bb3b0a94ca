package cache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// bufferSize is the size above which reads no longer speed up SHA-256 of a cached file.
const bufferSize = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// DigestReader hashes all of r and returns the digest and the number of bytes.
func DigestReader(r io.Reader) (Digest, int64, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	h := sha256.New()
	// Hide all methods but Read and Write from CopyBuffer: an *os.File would use its own buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{r}, *buf)
	return Digest(h.Sum(nil)), n, err
}

// DigestFile hashes a regular file and follows links. The error for a missing file is
// fs.ErrNotExist; the error for a folder or a device is not.
func DigestFile(name string) (Digest, error) {
	d, _, err := digestFile(name)
	return d, err
}

// digestFile also returns the stat of the opened file, taken before the first byte was read.
func digestFile(name string) (Digest, Stat, error) {
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return Digest{}, Stat{}, notExist(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Digest{}, Stat{}, err
	}
	d, n, err := DigestReader(f)
	if err != nil {
		return Digest{}, Stat{}, fmt.Errorf("hashing %s: %w", name, err)
	}
	if n != info.Size() {
		return Digest{}, Stat{}, fmt.Errorf("hashing %s: %w", name, errMoved)
	}
	return d, stampOf(info), nil
}

// errMoved reports that a file was written while it was being hashed.
var errMoved = errors.New("the file changed while it was being read")

// statFile is StatFile restricted to files that can be hashed.
func statFile(name string) (Stat, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return Stat{}, notExist(name, err)
	case info.IsDir():
		return Stat{}, &fs.PathError{Op: "hash", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return Stat{}, &fs.PathError{Op: "hash", Path: name, Err: errors.New("is no regular file")}
	}
	return stampOf(info), nil
}

// notExist treats "a/b where a is a file" as a missing file: for the caller, a/b is absent.
func notExist(name string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return err
}
