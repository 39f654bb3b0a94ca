package remote

import (
	"context"
	"sync"
	"time"
)

// A call waits for the network, so that the more are under way at once, the sooner a build of many
// actions has looked them all up. But a server that is asked too much answers late, which looks
// like a server that has stopped, or refuses: BuildGrid does where there are more calls than it has
// threads. So the number is found out, as TCP does: each answer allows one call more, which doubles
// the number with each round trip, until one comes late or refuses. That halves it, and from then
// on it grows by one with each round trip.

const (
	most  = 64 // calls at once
	first = 8
	least = 4

	// late is how long an answer takes at least that is late; one that takes no more than twice as
	// long as the quickest is not.
	late = 100 * time.Millisecond

	// tries is how often a server may refuse a call because there are too many.
	tries = 5
)

// Checks is how many actions may be looked up at once.
const Checks = most

// crowd bounds how many calls are under way.
type crowd struct {
	places chan struct{} // a call takes one, and puts it back

	mu    sync.Mutex
	limit int
	over  int // places that are not to be put back, since the limit was lowered
	cuts  int // how often that was
	round int // answers since the limit was raised
	quick map[string]time.Duration
}

func newCrowd() *crowd {
	c := &crowd{places: make(chan struct{}, most), limit: first, quick: map[string]time.Duration{}}
	for range first {
		c.places <- struct{}{}
	}
	return c
}

// enter waits for a place. The turn is for leave.
func (c *crowd) enter(ctx context.Context, off <-chan struct{}) (turn int, err error) {
	select {
	case <-c.places:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.cuts, nil
	case <-off:
		return 0, ErrOff
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// leave puts a place back, and learns from how long an answer took. Nothing is learned of an
// operation that is "".
func (c *crowd) leave(turn int, operation string, took time.Duration, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := 1
	switch {
	case refused || operation != "" && c.isLate(operation, took):
		if turn == c.cuts { // calls of before the last time have the same cause
			c.halve()
		}
	case operation != "" && c.limit < most && len(c.places) == 0: // of a limit that nobody meets nothing can be said
		if c.round++; c.cuts == 0 || c.round >= c.limit {
			c.limit, c.round = c.limit+1, 0
			back++
		}
	}
	for ; back > 0; back-- {
		if c.over > 0 {
			c.over--
		} else {
			c.places <- struct{}{} // there is room: places and calls are limit and over together, which is most at the most
		}
	}
}

// makeRoom lowers the limit for others than calls.
func (c *crowd) makeRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halve()
}

func (c *crowd) halve() {
	if half := max(least, c.limit/2); half < c.limit {
		c.over += c.limit - half
		c.limit = half
		c.cuts++
	}
}

// isLate compares what an answer took with the quickest of its kind: another continent is far away
// for one call as for many.
func (c *crowd) isLate(operation string, took time.Duration) bool {
	quick, known := c.quick[operation]
	if !known || took < quick {
		c.quick[operation] = took
	}
	return known && took > late && took > 2*quick
}
