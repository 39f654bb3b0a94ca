package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// clone makes dst share the content of src (btrfs, XFS, bcachefs) and reports whether it did. The
// offset of dst stays at the start.
func clone(dst, src *os.File) bool {
	return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil
}

// lock waits for the exclusive lock of f, which closing f releases. On file systems without locks
// it returns at once: only the counters depend on it.
func lock(f *os.File) {
	for unix.Flock(int(f.Fd()), unix.LOCK_EX) == unix.EINTR {
	}
}
