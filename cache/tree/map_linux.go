//go:build amd64 || arm64

package tree

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file, with room for maxSize bytes: what is written to the file later shows in the
// mapping. It reads the file if mapping is impossible, as on some network file systems.
func mapFile(f *os.File, size int64) (data []byte, mapped bool, err error) {
	if size < maxSize {
		if data, err := unix.Mmap(int(f.Fd()), 0, maxSize, unix.PROT_READ, unix.MAP_SHARED); err == nil {
			return data[:size], true, nil
		}
	}
	data = make([]byte, size)
	_, err = f.ReadAt(data, 0)
	return data, false, err
}

func unmap(data []byte) { unix.Munmap(data[:maxSize]) }
