//go:build !unix

package cache

import (
	"bytes"
	"io/fs"
	"os"
)

// OpenFile is os.OpenFile.
func OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

// AppendFile appends the content of a regular file to b, growing it as need be.
func AppendFile(b []byte, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return b, err
	}
	defer f.Close()
	buf := bytes.NewBuffer(b)
	_, err = buf.ReadFrom(f)
	return buf.Bytes(), err
}

// Rename is os.Rename.
func Rename(from, to string) error { return os.Rename(from, to) }
