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
