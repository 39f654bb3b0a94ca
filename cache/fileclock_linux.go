package cache

import (
	"time"

	"golang.org/x/sys/unix"
)

// fileClock returns the time that the kernel currently stamps files with. It advances in timer
// ticks of 1 to 10 ms and lags behind time.Now by up to one tick. A file changed before fileClock
// passes t never has a time later than t. A file changed after fileClock returned c has the time c
// or later. Kernels since 6.13 stamp files whose times were recently read with finer times, never
// with earlier ones. (fs/inode.c, inode_set_ctime_current.)
func fileClock() time.Time {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts) != nil {
		return time.Now().Add(-FileTick)
	}
	return time.Unix(ts.Unix())
}

// keepsFileClock reports whether the file system of path stamps files with fileClock to the
// nanosecond. A network file system uses the clock of its server, and others round. ext2 to ext4
// share one magic number; one that keeps whole seconds is recognized by its times, see Stat.tick.
func keepsFileClock(path string) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return false
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true
	}
	return false
}
