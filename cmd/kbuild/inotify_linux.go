package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// folderEvents watches folders with inotify. The kernel watches inodes, not paths. A folder with
// two paths, as behind a bind mount, has one watch; a moved folder keeps its watch.
type folderEvents struct {
	fd    int
	file  *os.File
	byDir map[string]int32
	dirs  map[int32][]string
}

// watchFolders creates a folderEvents that watches nothing.
func watchFolders() (*folderEvents, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &folderEvents{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), byDir: map[string]int32{}, dirs: map[int32][]string{}}, nil
}

// entries is the event mask of a folder whose entries appear and disappear. content adds writes to
// the entries.
const (
	entries = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	content = entries | unix.IN_CLOSE_WRITE
)

// set watches exactly these folders. A true value includes writes to the folder's entries. added
// reports whether a folder was not watched before.
func (c *folderEvents) set(dirs map[string]bool) (added bool, err error) {
	was := c.dirs
	c.dirs = map[int32][]string{}
	masks := map[int32]uint32{}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		mask := uint32(entries)
		if dirs[dir] {
			mask = content
		}
		n, err := unix.InotifyAddWatch(c.fd, dir, mask)
		wd := int32(n)
		switch {
		case err == unix.ENOSPC:
			return added, fmt.Errorf("watching %d folders: more than fs.inotify.max_user_watches (sysctl) allows", len(dirs))
		case err != nil:
			delete(c.byDir, dir)
			continue // the folder is gone, which its parent's watch reports
		}
		if old, twice := masks[wd]; twice && old|mask != mask {
			unix.InotifyAddWatch(c.fd, dir, old|mask) // two paths to one folder
		}
		masks[wd] |= mask
		if c.byDir[dir] != wd {
			c.byDir[dir], added = wd, true
		}
		c.dirs[wd] = append(c.dirs[wd], dir)
	}
	for dir := range c.byDir {
		if _, wanted := dirs[dir]; !wanted {
			delete(c.byDir, dir)
		}
	}
	for wd := range was {
		if c.dirs[wd] == nil {
			unix.InotifyRmWatch(c.fd, uint32(wd))
		}
	}
	return added, nil
}

// settle sets the deadline of next. The zero time means no deadline.
func (c *folderEvents) settle(until time.Time) { c.file.SetReadDeadline(until) }

// next blocks for changes and returns their paths. It fails after close. An empty path means that
// events were lost.
func (c *folderEvents) next() (paths []string, err error) {
	buffer := make([]byte, 64<<10)
	n, err := c.file.Read(buffer)
	if err != nil {
		return nil, err
	}
	for b := buffer[:n]; len(b) >= unix.SizeofInotifyEvent; {
		wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
		b = b[end:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			paths = append(paths, "")
		}
		for _, dir := range c.dirs[wd] {
			if mask&unix.IN_IGNORED != 0 {
				delete(c.byDir, dir)
			} else {
				paths = append(paths, filepath.Join(dir, string(name)))
			}
		}
		if mask&unix.IN_IGNORED != 0 {
			delete(c.dirs, wd)
		}
	}
	return paths, nil
}

func (c *folderEvents) close() { c.file.Close() }
