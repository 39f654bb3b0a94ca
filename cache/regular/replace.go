package regular

import (
	"io"
	"os"
	"path/filepath"
)

// Replace makes a file of that name with a content, and the folder for it, by a temporary file beside it: nobody sees half of it. It does not
// fsync: after a power loss the file may be empty, which matters to nobody who checks a sum or can make it again.
func Replace(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return ReplaceFrom(name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// ReplaceFrom is Replace of what write writes, in a folder that is there.
func ReplaceFrom(name string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	err = write(tmp)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
