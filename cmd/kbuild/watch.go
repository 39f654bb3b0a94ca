package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

type watchCmd struct {
	Targets []string `arg:"" optional:"" help:"Targets, outputs or sources to build (default: group default, or everything)."`
	Clear   bool     `help:"Clear the terminal before each build."`
}

// quiet is how long no file must change before a build starts. Editors save in several steps, and
// version control writes many files.
const quiet = 100 * time.Millisecond

// Run builds, and builds again after each change to an input, until it is interrupted.
func (cmd watchCmd) Run(c *cli) error {
	if c.DryRun {
		return usagef("watch builds; -n goes with build")
	}
	events, err := watchFolders()
	if err != nil {
		return err
	}
	defer events.close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	changed := make(chan []string)
	loop := &watchLoop{cli: c, cmd: cmd, events: events}
	for why := ""; ; {
		if err := loop.build(why); err != nil || ctx.Err() != nil {
			return err
		}
		for again := true; again; { // a folder may change before its first watch
			if again, err = loop.watch(); err != nil {
				return err
			}
			if again {
				if err := loop.build(""); err != nil || ctx.Err() != nil {
					return err
				}
			}
		}
		if !loop.told {
			loop.told = true
			c.Note("watching; Ctrl-C ends")
		}
		go loop.read(ctx, changed)
		select {
		case <-ctx.Done():
			return nil
		case paths := <-changed:
			if paths == nil {
				return errors.New("watching ended")
			}
			why = strings.Join(paths, ", ") + " changed"
		}
	}
}

// watchLoop holds the state that the builds of one watch share.
type watchLoop struct {
	*cli
	cmd     watchCmd
	events  *folderEvents
	watched engine.Watched
	built   bool // at least once
	failed  bool // in the last build
	told    bool
}

// build runs one build. why names the change, "" if no change triggered it. build prints errors of
// the project. It returns only errors that end the watch.
func (l *watchLoop) build(why string) error {
	c := *l.cli
	c.begun, c.told, c.quietEnd = time.Now(), nil, l.built && why == ""
	if why != "" {
		if l.cmd.Clear && term.IsTerminal(c.err) {
			fmt.Fprint(c.err, "\x1b[H\x1b[2J\x1b[3J")
		}
		c.Note(term.Name(why))
	}
	err := buildCmd{Targets: l.cmd.Targets}.Run(&c)
	l.built, l.failed = true, err != nil
	var e exitError
	switch {
	case errors.As(exitOf(err), &e) && e.status == exitInterrupted:
		return e
	case err != nil:
		c.report(err)
	}
	return nil
}

// watch watches the files that the last build observed. again reports whether a folder was not
// watched before.
func (l *watchLoop) watch() (again bool, err error) {
	w := l.workspace()
	var own []string
	for _, file := range []string{l.Trace, l.SARIF, l.JUnit} {
		if abs, err := filepath.Abs(file); err == nil && file != "" {
			own = append(own, abs)
		}
	}
	watched := w.Watched(l.cmd.Targets, l.failed, own...)
	if l.failed {
		watched.Add(l.watched)
	}
	l.watched = watched
	return l.events.set(l.watched.Folders())
}

// changeSource reports changed paths.
type changeSource interface {
	next() (paths []string, err error) // blocks for changes; "" means that events were lost
	settle(until time.Time)            // next then fails with os.ErrDeadlineExceeded; zero: never
}

// read waits for relevant changes, until none follow for a while. It sends nil if watching failed.
func (l *watchLoop) read(ctx context.Context, changed chan<- []string) {
	found := settled(l.events, &l.watched)
	for i, p := range found {
		if found[i] = "much"; p != "" {
			found[i] = l.spell(p)
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) > 4 {
		found = append(found[:3], fmt.Sprintf("%d more", len(found)-3))
	}
	select {
	case changed <- found:
	case <-ctx.Done():
	}
}

// settled returns relevant changes once none follow for a while. Other changes, in a folder that is
// always busy, do not extend the wait.
func settled(c changeSource, watched interface{ Concerns(path string) bool }) (found []string) {
	c.settle(time.Time{})
	for {
		paths, err := c.next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return found
		}
		if err != nil {
			return nil
		}
		before := len(found)
		for _, p := range paths {
			if p == "" || watched.Concerns(p) {
				found = append(found, p)
			}
		}
		if len(found) > before {
			c.settle(time.Now().Add(quiet))
		}
	}
}

// spell converts a path to one relative to the start folder.
func (l *watchLoop) spell(p string) string {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here) // watched paths are resolved
	}
	if err == nil {
		if rel, err := filepath.Rel(here, p); err == nil && !strings.HasPrefix(rel, "../") {
			return rel
		}
	}
	return p
}

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
