package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Write installs a file of the package below a folder. A file that already has the content and mode
// is not touched, so that its time stays. Any other file is replaced atomically.
func (k *Package) Write(f File, below string) (changed bool, err error) {
	name := filepath.Join(below, filepath.FromSlash(f.Path))
	if info, err := os.Lstat(name); err == nil && info.IsDir() {
		return false, fmt.Errorf("%s is a folder, and a file is to be installed there", name)
	}
	if f.Link != "" {
		return link(name, f.Link)
	}
	content, err := k.open(f)
	if err != nil {
		return false, err
	}
	defer content.Close()
	if is, err := holds(name, content, f.Mode); is || err != nil {
		return false, err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return false, err
	}
	return true, regular.ReplaceFrom(name, func(to *os.File) error {
		_, err := io.Copy(to, content)
		return errors.Join(err, to.Chmod(f.Mode))
	})
}

// open returns the content of a file to install.
func (k *Package) open(f File) (io.ReadSeekCloser, error) {
	switch {
	case f.From == "":
		text, err := f.text()
		return inMemory([]byte(text)), err
	case len(f.runPaths) == 0:
		return regular.Open(cache.Absolute(k.root, f.From), os.O_RDONLY, 0)
	}
	program, err := regular.Read(cache.Absolute(k.root, f.From))
	if err == nil {
		err = changeRunPaths(f.From, program, f.runPaths)
	}
	return inMemory(program), err
}

func inMemory(content []byte) io.ReadSeekCloser {
	return struct {
		io.ReadSeeker
		io.Closer
	}{bytes.NewReader(content), io.NopCloser(nil)}
}

// holds reports whether the named file already has the content and mode.
func holds(name string, content io.ReadSeeker, mode fs.FileMode) (bool, error) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode() != mode { // the mode includes the type
		return false, nil
	}
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil || info.Size() != size {
		return false, err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	old, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return false, nil
	}
	defer old.Close()
	return alike(old, content)
}

// alike reports whether the rests of two readers are equal.
func alike(old, content io.Reader) (bool, error) {
	a, b := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, oldErr := io.ReadFull(old, a)
		m, err := io.ReadFull(content, b)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, err
		}
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if oldErr != nil || err != nil {
			return oldErr == err, nil
		}
	}
}

// link creates a symbolic link, or replaces what has its name.
func link(name, to string) (changed bool, err error) {
	if old, err := os.Readlink(name); err == nil && old == to {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return false, err
	}
	tmp := fmt.Sprintf("%s/.kbuild-%08x", filepath.Dir(name), rand.Uint32())
	if err := os.Symlink(to, tmp); err != nil {
		return false, err
	}
	if err := os.Rename(tmp, name); err != nil {
		os.Remove(tmp)
		return false, err
	}
	return true, nil
}
