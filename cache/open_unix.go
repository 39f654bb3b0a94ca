//go:build unix

package cache

import (
	"errors"
	"os"
	"syscall"
)

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
