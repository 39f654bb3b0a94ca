package cache

import (
	"io/fs"
	"syscall"
)

// stampOf returns the Stat of a file; ok is false if info lacks the inode and ctime.
func stampOf(info fs.FileInfo) (s Stat, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Stat{}, false
	}
	return Stat{
		Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mode: st.Mode,
		Mtime: int64(st.Mtim.Sec)*1e9 + int64(st.Mtim.Nsec),
		Ctime: int64(st.Ctim.Sec)*1e9 + int64(st.Ctim.Nsec),
	}, true
}
