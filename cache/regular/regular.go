// Package regular opens regular files and refuses everything else: opening a named pipe blocks, a
// device may do anything, and a folder has no content. It knows nothing of what the files contain.
// It exists because any path that kbuild reads may lead to such a file.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrKind reports that a path leads to something other than a regular file.
var ErrKind = errors.New("not a regular file")

// ErrSize reports that a file exceeds the limit of the reader.
var ErrSize = errors.New("the file is too large")

// Kind returns a description of a mode for error messages, "" for a regular file.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return ""
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "of an unknown kind"
}

// refused returns the error for a path that does not lead to a regular file.
func refused(name string, mode fs.FileMode) error {
	return &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("it is %s, %w", Kind(mode), ErrKind)}
}

// Read is os.ReadFile for regular files.
func Read(name string) ([]byte, error) { return Append(nil, name) }

// ReadAtMost is Read with a size limit. It returns ErrSize for a larger file without reading it.
func ReadAtMost(name string, most int64) ([]byte, error) {
	f, err := Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, &fs.PathError{Op: "read", Path: name, Err: ErrSize}
	}
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	if n, err := b.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return nil, err
	} else if n > most { // it grew concurrently
		return nil, &fs.PathError{Op: "read", Path: name, Err: ErrSize}
	}
	return b.Bytes(), nil
}

// DirFS is os.DirFS, but reads files with ReadAtMost.
type DirFS struct {
	Root string
	Most int64
}

// Open implements fs.FS.
func (d DirFS) Open(name string) (fs.File, error) { return os.DirFS(d.Root).Open(name) }

// Stat implements fs.StatFS.
func (d DirFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(os.DirFS(d.Root), name) }

// ReadDir implements fs.ReadDirFS.
func (d DirFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(os.DirFS(d.Root), name) }

// ReadFile implements fs.ReadFileFS.
func (d DirFS) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return ReadAtMost(filepath.Join(d.Root, filepath.FromSlash(name)), d.Most)
}
