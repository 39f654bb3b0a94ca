package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Replace makes a file of that name with a content, and the folder for it, by a temporary file
// beside it: nobody sees half of it. It does not fsync: after a power loss the file may be empty,
// which matters to nobody who checks a sum or can make it again.
func Replace(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return ReplaceFrom(name, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// ReplaceFrom is Replace of what write writes, in a folder that is there.
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

// Rewrite replaces the content of a file that is there, which may be behind a link, and leaves its
// mode.
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

// RemoveTemporary removes what a process that was killed in Replace has left in a folder in which
// nobody else writes now.
func RemoveTemporary(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), temporaryPrefix) && e.Type().IsRegular() {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// IsTemporary reports the name of a file that Replace writes before it takes the place of another.
func IsTemporary(name string) bool {
	number, ok := strings.CutPrefix(name, temporaryPrefix)
	return ok && len(number) == 8 && strings.Trim(number, "0123456789abcdef") == ""
}

const temporaryPrefix = ".kbuild-"

// temporary makes a file as any program would: os.CreateTemp forbids it to others than its owner.
func temporary(dir string) (*os.File, error) {
	for {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s%08x", temporaryPrefix, rand.Uint32())), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}
