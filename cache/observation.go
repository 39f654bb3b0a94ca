package cache

import (
	"time"

	"golang.org/x/sys/unix"
)

// Moment is a point in time on two clocks.
type Moment struct {
	Time time.Time
	// On the clock of files: no file changed later gets an earlier time, see fileClock.
	File time.Time
}

// Now returns the current Moment.
func Now() Moment {
	file := fileClock() // before the wall clock, so that no file change falls in between
	return Moment{time.Now(), file}
}

// FileTick is twice the step of the slowest kernel's file clock.
const FileTick = 20 * time.Millisecond

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

// Kind is the kind of what a build observed at a path.
type Kind uint8

const (
	KindFile   Kind = iota // a file of known content; or anything, compared by stat only
	KindAbsent             // nothing exists
	KindFolder             // a folder with exactly these names
	KindGuard              // a folder without the names of Observation.Absent
)

// LeadsTo separates the name of a link from its target. No name contains it.
const LeadsTo = "//"

// Observation is one path that a build depends on, and what the build observed there. The observer
// sets Path and Kind. The code that keeps the observation for the next build adds the fields that
// decide whether it is still valid.
type Observation struct {
	Path string // relative to the root of the project, or absolute
	Kind Kind
	Stat Stat `json:",omitzero"` // zero for KindAbsent; may have only the mode if Young
	// Digest of the content of a file, or of the names in a folder; zero if only stat decides.
	Digest Digest `json:",omitzero"`
	// Of a KindGuard: names that do not exist, or links, as NAME + LeadsTo + TARGET.
	Absent []string `json:",omitzero"`
	// of a file: a link to such a file is invalid, as for all outputs
	MustBeRegular bool `json:"Output,omitzero"`
	// For a file: only an equal stat makes it valid, equal content does not.
	ByStat bool `json:",omitzero"`
	Plan   bool `json:",omitzero"` // the plan depends on it; otherwise only actions do
	Young  bool `json:",omitzero"` // too recent: an equal stat does not prove equal content
	// For a Young file: when this content was first read under this stat, in ns since 1970; 0 if
	// unknown.
	Seen int64 `json:",omitzero"`
}
