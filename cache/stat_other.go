//go:build !linux

package cache

import "io/fs"

// stampOf has no inode and no ctime on this platform, so no digest is remembered between runs.
func stampOf(info fs.FileInfo) (Stat, bool) {
	return Stat{Size: info.Size(), Mode: uint32(info.Mode()), Mtime: info.ModTime().UnixNano(), Ctime: info.ModTime().UnixNano()}, false
}
