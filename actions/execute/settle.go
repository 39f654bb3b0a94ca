package execute

import (
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// A header that changes while it is compiled leaves an object of nobody knows which of its contents. So nothing is recorded of
// a command whose inputs have times from its start on. File times go in ticks of a few milliseconds: a header written just
// before `kbuild`, by a script or an editor that calls it, has the time of its tick, and if a command starts in the same
// one nobody can say which came first. What runs first therefore waits until the tick is over in which this kbuild began, which it
// mostly is: reading a snapshot takes longer.
//
// That will do for files that kbuild has read before the command starts (cache.Files.Unchanged). What the command is going to read is
// known from the last time; where there was none, it waits for a few ticks more. And if it turns out to have read another file that is
// too young, it runs again.

// fileClock is what settle asks and how it waits. The zero value is the kernel's.
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

// settle gives the moment at which the command of a starts: after all that was written before this kbuild began, by a good
// deal unless it is known what the command reads.
func (r *Runner) settle(a *graph.Action) cache.Moment {
	rec := r.Journal.Last(a.Outputs[0])
	if rec == nil {
		return r.clock.after(r.Begun.Add(cache.FileTick))
	}
	for _, f := range rec.Discovered {
		if !strings.HasPrefix(f.Path, "-D") {
			r.digest(f.Path)
		}
	}
	return r.clock.after(r.Begun)
}

// early reports a command that started so early that files from before this kbuild began are too young to tell.
func (r *Runner) early(start time.Time) bool { return !start.After(r.Begun.Add(2 * cache.FileTick)) }
