package build

import (
	"testing"
	"time"
)

// A clock that goes in ticks, and only while somebody waits for it.
type ticking struct {
	at     time.Time
	tick   time.Duration
	waited int
}

func (c *ticking) clock() fileClock {
	return fileClock{
		now:   func() time.Time { return c.at.Truncate(c.tick) },
		pause: func(d time.Duration) { c.waited++; c.at = c.at.Add(d) },
	}
}

func TestSettle(t *testing.T) {
	const tick = 4 * time.Millisecond
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what   string
		now    time.Duration // after noon
		begun  time.Duration
		waited int // ms
	}{
		{"a second ago", time.Second, 0, 0},
		{"in the tick before this one", tick, tick - 1, 0},
		{"at the start of this tick", 0, 0, 4},
		{"in the middle of this tick", tick / 2, tick / 4, 2},
		{"at the end of this tick", tick - time.Millisecond, tick - time.Millisecond, 1},
		{"before the clock was set back", -time.Hour, 0, pauses},
	} {
		clock := &ticking{at: noon.Add(c.now), tick: tick}
		at := clock.clock().after(noon.Add(c.begun))
		if clock.waited != c.waited {
			t.Errorf("begun %s: waited %d ms, want %d", c.what, clock.waited, c.waited)
		}
		if c.waited < pauses && !at.After(noon.Add(c.begun)) {
			t.Errorf("begun %s: the command starts at %v, not after what was there", c.what, at)
		}
	}
}
