package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Replace writes a file atomically, through a temporary file in the same folder, and creates the
// folder if necessary. It does not fsync: after a power loss the file may be empty. Use it only for
// files that have a checksum or can be created again.
func Replace(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return ReplaceFrom(name, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// ReplaceFrom is Replace with content from write. The folder must exist.
func ReplaceFrom(name string, write func(*os.File) error) error {
	tmp, err := temporary(filepath.Dir(name))
	if err != nil {
		return err
	}
	err = write(tmp)
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

// Rewrite replaces the content of an existing file and keeps its mode. It follows links.
func Rewrite(name string, content []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return ReplaceFrom(name, func(f *os.File) error {
		_, err := f.Write(content)
		return errors.Join(err, f.Chmod(info.Mode().Perm()))
	})
}

// RemoveTemporary removes the temporary files that a process killed in Replace left in a folder, and
// that are as old as age. Without an age no other process may be writing there.
func RemoveTemporary(dir string, age time.Duration) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !IsTemporary(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) >= age {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// IsTemporary reports whether name is that of a temporary file of Replace.
func IsTemporary(name string) bool {
	number, ok := strings.CutPrefix(name, temporaryPrefix)
	return ok && len(number) == 8 && strings.Trim(number, "0123456789abcdef") == ""
}

const temporaryPrefix = ".kbuild-"

// temporary creates a file with the usual mode: os.CreateTemp permits only its owner to read it.
func temporary(dir string) (*os.File, error) {
	for {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s%08x", temporaryPrefix, rand.Uint32())), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Rename is os.Rename without its check of the target. A file replaces a file, never a folder.
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
