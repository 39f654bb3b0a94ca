//go:build !linux || !(amd64 || arm64)

package tree

import "os"

// mapFile reads the file.
func mapFile(f *os.File, size int64) (data []byte, mapped bool, err error) {
	data = make([]byte, size)
	_, err = f.ReadAt(data, 0)
	return data, false, err
}

func unmap([]byte) {}
