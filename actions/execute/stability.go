package execute

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// If a header changes during a compile, kbuild cannot know which version the object was built from.
// So it records nothing about a command whose inputs have times from the command's start on. File
// times advance in ticks of a few milliseconds. A header written just before `kbuild`, by a script
// or an editor that calls it, has the time of its tick. If a command starts in the same tick,
// kbuild cannot tell which came first. So the first command waits until the tick in which this
// kbuild began is over. It mostly is over already: reading a snapshot takes longer.
//
// This is enough for files that kbuild reads before the command starts (cache.Files.Unchanged). The
// last record lists the files that the command will read. Without a record, the command waits for a
// few ticks more. If it then read another file that is too recent, it runs again.

// clock reads the time of files and waits.
type clock interface {
	now() cache.Moment
	sleep(time.Duration)
}

// kernelClock is the clock of the kernel.
type kernelClock struct{}

func (kernelClock) now() cache.Moment     { return cache.Now() }
func (kernelClock) sleep(d time.Duration) { time.Sleep(d) }

const (
	pause = time.Millisecond // the shortest tick
	// more than the longest tick, so that a clock which is set back delays no command for long
	pauses = 50
)

// after waits until files get times later than t, and returns the time.
func after(c clock, t time.Time) cache.Moment {
	now := c.now()
	for range pauses {
		if now.File.After(t) {
			break
		}
		c.sleep(pause)
		now = c.now()
	}
	return now
}

// stability checks whether the inputs that a command read are those that existed when it started.
type stability struct {
	*buildTree
	clock clock
}

// start waits until the command of a may start, and returns that moment. It waits until files get
// times after the start of this kbuild. It waits longer if no record lists what the command reads.
func (s *stability) start(a *graph.Action) cache.Moment {
	rec := s.Records.Last(a.Outputs[0])
	if rec == nil {
		return after(s.clock, s.Begun.Add(cache.FileTick))
	}
	for _, f := range rec.Discovered {
		if !discover.IsCondition(f.Path) {
			s.Digest(f.Path)
		}
	}
	return after(s.clock, s.Begun)
}

// early reports whether a command started so early that files from before this kbuild are too
// recent.
func (s *stability) early(start time.Time) bool {
	return !start.After(s.Begun.Add(2 * cache.FileTick))
}

// tool reports whether the program of a is the one that this kbuild has identified, neither written
// nor moved into place since. Otherwise an upgrade of the toolkit during a build would store
// outputs of the new tools under the keys of the old. Programs that the tool starts in turn are not
// checked.
func (s *stability) tool(a *graph.Action) bool {
	if len(a.Tools) == 0 || len(a.Argv) == 0 || s.IsOutput(a.Argv[0]) {
		return true
	}
	file, err := run.LookPath(a.Argv[0], s.Root, s.Env)
	if err != nil {
		return false
	}
	var link, program unix.Stat_t
	if unix.Lstat(file, &link) != nil || unix.Stat(file, &program) != nil {
		return false
	}
	return !time.Unix(link.Ctim.Unix()).After(s.Begun) &&
		!time.Unix(program.Ctim.Unix()).After(s.Begun)
}

// inputs reports whether the tool and the inputs of a are still those of its key, and were when its
// command started. A file that another action of the graph writes may be recent, so its time does
// not count.
func (s *stability) inputs(a *graph.Action, inputs []cache.FileDigest, start cache.Moment) bool {
	if !s.tool(a) {
		return false
	}
	for _, in := range inputs {
		if s.IsIntermediate(in.Path) {
			if now, err := s.Digest(in.Path); err != nil || now != in.Digest {
				return false
			}
			continue
		}
		since := start
		if s.IsOutput(in.Path) {
			since = cache.Moment{}
		}
		if !s.Files.Unchanged(in.Path, in.Digest, since) {
			return false
		}
	}
	return true
}
