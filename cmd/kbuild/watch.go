package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

type watchCmd struct {
	Targets []string `arg:"" optional:"" help:"Targets, outputs or sources to build (default: group default, or everything)."`
	Clear   bool     `help:"Clear the terminal before each build."`
}

// quiet is for how long nothing must change before a build: editors write in several steps, and
// version control many files.
const quiet = 100 * time.Millisecond

// Run builds, and again at each change of something that the build looks at, until it is
// interrupted.
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
		for again := true; again; { // what is watched for the first time may have changed before
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

// watchLoop is what builds of a watch have in common.
type watchLoop struct {
	*cli
	cmd     watchCmd
	events  *folderEvents
	watched engine.Watched
	built   bool // once
	failed  bool // the last time
	told    bool
}

// build builds once; why is "" for one that nobody asked for. The error is one that ends the watch:
// those of the project are shown.
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

// watch takes what the last build looked at. again reports that there was more to watch than
// before.
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
	return l.events.set(l.watched.Folders(func(dir string) bool {
		info, err := os.Stat(dir)
		return err == nil && info.IsDir()
	}))
}

// changeSource tells of paths that have changed.
type changeSource interface {
	next() (paths []string, err error) // waits for some; "" is that some were missed
	settle(until time.Time)            // has next give os.ErrDeadlineExceeded where nothing changes until then; the zero time is never
}

// read waits for a change that matters, and then until nothing that matters changes for a while;
// nil is that nothing can be watched any more.
func (l *watchLoop) read(ctx context.Context, changed chan<- []string) {
	found := settled(l.events, l.watched.Concerns, time.Now)
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

// settled are the changes that concern somebody, until there are none for a while. Others, in a
// folder that is always busy, do not put that off.
func settled(c changeSource, concerns func(path string) bool, now func() time.Time) (found []string) {
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
			if p == "" || concerns(p) {
				found = append(found, p)
			}
		}
		if len(found) > before {
			c.settle(now().Add(quiet))
		}
	}
}

// spell is a path as it is from where kbuild was started.
func (l *watchLoop) spell(p string) string {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here) // paths are real ones
	}
	if err == nil {
		if rel, err := filepath.Rel(here, p); err == nil && !strings.HasPrefix(rel, "../") {
			return rel
		}
	}
	return p
}
