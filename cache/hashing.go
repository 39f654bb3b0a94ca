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

// bufferSize is where larger reads stop being faster for SHA-256 of a cached file.
const bufferSize = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// DigestReader hashes all of r and counts its bytes.
func DigestReader(r io.Reader) (Digest, int64, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	h := sha256.New()
	// Only Read and Write are shown to CopyBuffer: an *os.File would bring a buffer of its own.
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{r}, *buf)
	return Digest(h.Sum(nil)), n, err
}

// DigestFile hashes a regular file, following links. A missing file gives an error that is
// fs.ErrNotExist; a folder or a device one that is not.
func DigestFile(name string) (Digest, error) {
	d, _, err := digestFile(name)
	return d, err
}

// digestFile also gives the stat of the opened file, taken before the first byte was read.
func digestFile(name string) (Digest, fs.FileInfo, error) {
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return Digest{}, nil, notExist(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Digest{}, nil, err
	}
	d, n, err := DigestReader(f)
	if err != nil {
		return Digest{}, nil, fmt.Errorf("hashing %s: %w", name, err)
	}
	if n != info.Size() {
		return Digest{}, nil, fmt.Errorf("hashing %s: %w", name, errMoved)
	}
	return d, info, nil
}

// errMoved says that a file was written while it was being hashed.
var errMoved = errors.New("the file changed while it was being read")

// statFile is os.Stat for files that can be hashed.
func statFile(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, notExist(name, err)
	case info.IsDir():
		return nil, &fs.PathError{Op: "hash", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "hash", Path: name, Err: errors.New("is no regular file")}
	}
	return info, nil
}

// notExist makes "a/b where a is a file" a missing file too: to whoever asks, a/b is absent.
func notExist(name string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return err
}
