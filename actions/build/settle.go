package build

import (
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// A header that changes while it is compiled leaves an object of nobody knows which of its contents. So nothing is recorded of
// a command whose inputs have times from its start on. File times go in ticks of a few milliseconds: a header written just
// before `kbuild`, by an editor that calls it or a script, has the time of its tick, and a command that starts in the same
// one could not be told from one that the header was changed under. What runs first therefore waits for the tick to end in which
// this kbuild found its files, which is almost always over by then: reading a snapshot takes longer.

// fileClock is what settle asks and how it waits.
type fileClock struct {
	now   func() time.Time
	pause func(time.Duration)
}

const (
	pause  = time.Millisecond // the shortest tick there is
	pauses = 50               // more than the longest tick: a clock that somebody sets back keeps nobody waiting
)

// after waits until files get times later than t, and gives the clock's.
func (c fileClock) after(t time.Time) time.Time {
	now := c.now()
	for range pauses {
		if now.After(t) {
			break
		}
		c.pause(pause)
		now = c.now()
	}
	return now
}

// settle gives the moment at which a command starts, by the clock of files. All that was written before this kbuild began is older.
func (r *Runner) settle() time.Time {
	return fileClock{cache.FileClock, time.Sleep}.after(r.Begun.Add(r.Files.Lag(".")))
}
