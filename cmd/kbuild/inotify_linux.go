package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// folderEvents tells of changes in folders, by inotify. The kernel watches folders, not paths: one
// that two paths lead to, as behind a bind mount, is watched once, and one that was moved is
// watched on where it is now.
type folderEvents struct {
	fd    int
	file  *os.File
	byDir map[string]int32
	dirs  map[int32][]string
}

// watchFolders begins with no folder.
func watchFolders() (*folderEvents, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &folderEvents{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), byDir: map[string]int32{}, dirs: map[int32][]string{}}, nil
}

// entries are the events of a folder whose entries come and go; content adds those of entries that
// are written.
const (
	entries = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	content = entries | unix.IN_CLOSE_WRITE
)

// set watches these folders and no others, with the content of their entries where that is true.
// added reports one that was not watched before.
func (c *folderEvents) set(dirs map[string]bool) (added bool, err error) {
	was := c.dirs
	c.dirs = map[int32][]string{}
	masks := map[int32]uint32{}
	for _, dir := range inOrder(dirs) {
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
			continue // it is gone by now, which its parent tells
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

// inOrder are the keys of a map, sorted.
func inOrder(dirs map[string]bool) (sorted []string) {
	for dir := range dirs {
		sorted = append(sorted, dir)
	}
	slices.Sort(sorted)
	return sorted
}

// settle has next give up when nothing has changed until then; the zero time is never.
func (c *folderEvents) settle(until time.Time) { c.file.SetReadDeadline(until) }

// next waits for changes and gives their paths, until the file is closed. "" is that some were
// missed.
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
