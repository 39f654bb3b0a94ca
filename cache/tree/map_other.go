//go:build !linux || !(amd64 || arm64)

package tree

import (
	"errors"
	"io/fs"
	"os"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// mapFile reads the file.
func mapFile(name string) (data []byte, info fs.FileInfo, unmap func() error, err error) {
	if data, err = regular.Read(name); err == nil {
		info, err = os.Stat(name)
	}
	return data, info, func() error { return nil }, err
}

func mapOpen(*os.File, int64) (data []byte, unmap func() error, err error) {
	return nil, nil, errors.ErrUnsupported
}
