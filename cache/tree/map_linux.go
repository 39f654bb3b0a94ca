//go:build amd64 || arm64

package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// mapFile maps a file into memory until unmap is called. info is of the file at that time.
func mapFile(name string) (data []byte, info fs.FileInfo, unmap func() error, err error) {
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, nil, err
	}
	data, unmap, err = mapOpen(f, info.Size())
	return data, info, unmap, err
}

// mapOpen maps the beginning of an open file. It reads the file if mapping is impossible.
func mapOpen(f *os.File, size int64) (data []byte, unmap func() error, err error) {
	if size == 0 {
		return nil, func() error { return nil }, nil
	}
	data, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENODEV) {
		data = make([]byte, size)
		_, err = f.ReadAt(data, 0)
		return data, func() error { return nil }, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}
