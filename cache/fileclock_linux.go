package cache

import (
	"time"

	"golang.org/x/sys/unix"
)

// fileClock is the time that the kernel stamps files with at this moment. It goes in steps of a
// timer tick, 1 to 10 ms, and lags behind time.Now by up to one: a file changed before fileClock
// passes t never has a later time than t, and one changed after fileClock said c has the time c or
// a later one. Kernels since 6.13 give finer times to files that somebody looks at, never earlier
// ones. (fs/inode.c, inode_set_ctime_current.)
func fileClock() time.Time {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts) != nil {
		return time.Now().Add(-FileTick)
	}
	return time.Unix(ts.Unix())
}

// keepsFileClock reports a file system that stamps files with fileClock to the nanosecond. A
// network's has the clock of its server, and others round. ext2 to ext4 share a number: one that
// keeps whole seconds shows it in its times, see Stat.tick.
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
