package execute

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// A header that changes while it is compiled leaves an object of nobody knows which of its
// contents. So nothing is recorded of a command whose inputs have times from its start on. File
// times go in ticks of a few milliseconds: a header written just before `kbuild`, by a script or an
// editor that calls it, has the time of its tick, and if a command starts in the same one nobody
// can say which came first. What runs first therefore waits until the tick is over in which this
// kbuild began, which it mostly is: reading a snapshot takes longer.
//
// That will do for files that kbuild has read before the command starts (cache.Files.Unchanged).
// What the command is going to read is known from the last time; where there was none, it waits for
// a few ticks more. And if it turns out to have read another file that is too young, it runs again.

// fileClock is what a wait asks and how it waits. The zero value is the kernel's.
type fileClock struct {
	now   func() cache.Moment
	pause func(time.Duration)
}

const (
	pause  = time.Millisecond // the shortest tick there is
	pauses = 50               // more than the longest tick: a clock that somebody sets back keeps nobody waiting
)

// after waits until files get times later than t, and gives the clock's.
func (c fileClock) after(t time.Time) cache.Moment {
	if c.now == nil {
		c = fileClock{cache.Now, time.Sleep}
	}
	now := c.now()
	for range pauses {
		if now.File.After(t) {
			break
		}
		c.pause(pause)
		now = c.now()
	}
	return now
}

// stability tells whether what a command read is what was there when it started.
type stability struct {
	makers
	root      string
	env       []string
	discovery *discover.Discovery
	files     *cache.Files
	last      func(output string) *cache.Record // of an action, by its first output
	begun     time.Time                         // when this kbuild started
	clock     fileClock
}

// start waits for the moment at which the command of a may start: after all that was written before
// this kbuild began, by a good deal unless it is known what the command reads.
func (s *stability) start(a *graph.Action) cache.Moment {
	rec := s.last(a.Outputs[0])
	if rec == nil {
		return s.clock.after(s.begun.Add(cache.FileTick))
	}
	for _, f := range rec.Discovered {
		if !discover.IsCondition(f.Path) {
			s.discovery.Digest(f.Path)
		}
	}
	return s.clock.after(s.begun)
}

// early reports a command that started so early that files from before this kbuild began are too
// young to tell.
func (s *stability) early(start time.Time) bool { return !start.After(s.begun.Add(2 * cache.FileTick)) }

// unchanged reports that a file has a digest, and had it when a command started. What others of the
// graph make may have been made a moment ago.
func (s *stability) unchanged(file string, d cache.Digest, start cache.Moment) bool {
	if s.isIntermediate(file) {
		now, err := s.discovery.Digest(file)
		return err == nil && now == d
	}
	if s.isMade(file) {
		start = cache.Moment{}
	}
	return s.files.Unchanged(file, d, start)
}

// tool reports that the program of a is the one that this kbuild has identified: it was neither
// written nor moved into place since. A toolkit that is upgraded during a build would leave what
// the new one makes under the keys of the old. Of programs that it starts in turn nothing is known.
func (s *stability) tool(a *graph.Action) bool {
	if len(a.Tools) == 0 || len(a.Argv) == 0 || s.isMade(a.Argv[0]) {
		return true
	}
	file, err := run.LookPath(a.Argv[0], s.root, s.env)
	if err != nil {
		return false
	}
	var link, program unix.Stat_t
	if unix.Lstat(file, &link) != nil || unix.Stat(file, &program) != nil {
		return false
	}
	return !time.Unix(link.Ctim.Unix()).After(s.begun) && !time.Unix(program.Ctim.Unix()).After(s.begun)
}

// inputs reports that the tool and the inputs of a are what its key says.
func (s *stability) inputs(a *graph.Action, inputs []cache.FileDigest, start cache.Moment) bool {
	if !s.tool(a) {
		return false
	}
	for _, in := range inputs {
		if !s.unchanged(in.Path, in.Digest, start) {
			return false
		}
	}
	return true
}
