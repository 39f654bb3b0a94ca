package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folderEvents tells of changes in folders, by inotify.
type folderEvents struct {
	fd    int
	file  *os.File
	byDir map[string]int32
	dirs  map[int32]string
	paths chan string // of what has changed; "" is that some were missed
}

// watchFolders begins with no folder.
func watchFolders() (*folderEvents, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &folderEvents{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), byDir: map[string]int32{}, dirs: map[int32]string{}, paths: make(chan string, 4096)}, nil
}

// set watches these folders and no others. added reports one that was not watched before.
func (c *folderEvents) set(dirs map[string]bool) (added bool, err error) {
	for dir := range dirs {
		wd, err := unix.InotifyAddWatch(c.fd, dir, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_CREATE|unix.IN_DELETE|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR)
		switch {
		case err == unix.ENOSPC:
			return added, fmt.Errorf("watching %d folders: more than fs.inotify.max_user_watches (sysctl) allows", len(dirs))
		case err != nil:
			continue // it is gone by now, which its parent tells
		}
		if c.byDir[dir] != int32(wd) {
			c.byDir[dir], added = int32(wd), true
		}
	}
	c.dirs = map[int32]string{}
	for dir, wd := range c.byDir {
		if dirs[dir] {
			c.dirs[wd] = dir
			continue
		}
		unix.InotifyRmWatch(c.fd, uint32(wd))
		delete(c.byDir, dir)
	}
	return added, nil
}

// next waits for changes and gives their paths, until the file is closed.
func (c *folderEvents) next(buffer []byte) (paths []string, err error) {
	n, err := c.file.Read(buffer)
	if err != nil {
		return nil, err
	}
	for b := buffer[:n]; len(b) >= unix.SizeofInotifyEvent; {
		wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
		b = b[end:]
		switch dir, known := c.dirs[wd]; {
		case mask&unix.IN_Q_OVERFLOW != 0:
			paths = append(paths, "")
		case known && mask&unix.IN_IGNORED != 0:
			delete(c.byDir, dir)
		case known:
			paths = append(paths, filepath.Join(dir, string(name)))
		}
	}
	return paths, nil
}

func (c *folderEvents) close() { c.file.Close() }
