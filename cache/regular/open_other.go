//go:build !unix

package regular

import (
	"bytes"
	"io/fs"
	"os"
)

// Open is os.OpenFile for regular files; for anything else it returns ErrKind.
func Open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() && name != os.DevNull {
		return nil, refused(name, info.Mode())
	}
	return os.OpenFile(name, flag, perm)
}

// Append appends the content of a regular file to b and grows b if necessary.
func Append(b []byte, name string) ([]byte, error) {
	f, err := Open(name, os.O_RDONLY, 0)
	if err != nil {
		return b, err
	}
	defer f.Close()
	buf := bytes.NewBuffer(b)
	_, err = buf.ReadFrom(f)
	return buf.Bytes(), err
}
