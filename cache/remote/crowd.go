package remote

import (
	"context"
	"sync"
	"time"
)

// Calls wait for the network, so more concurrent calls let a build look up its actions sooner. But
// an overloaded server answers late, like a server that has stopped, or it refuses calls. BuildGrid
// refuses calls if there are more of them than threads. So the limit adapts, like TCP's congestion
// window. Each answer raises the limit by one, which doubles it per round trip, until an answer is
// late or a call is refused. That halves the limit. From then on it grows by one per round trip.

const (
	most  = 64 // concurrent calls
	first = 8
	least = 4

	// late is the minimum duration of a late answer. An answer that takes at most twice as long as
	// the fastest one is not late.
	late = 100 * time.Millisecond

	// tries is how often a call is sent if the server refuses it because there are too many.
	tries = 5
)

// Checks is the maximum number of concurrent lookups.
const Checks = most

// crowd limits the number of concurrent calls.
type crowd struct {
	places chan struct{} // a call takes one and returns it

	mu    sync.Mutex
	limit int
	over  int // places not to return, since the limit was lowered
	cuts  int // how often the limit was lowered
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

// enter waits for a place. The caller passes turn to leave.
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

// leave returns a place and adapts the limit to the duration of the call. An operation of "" has no
// meaningful duration.
func (c *crowd) leave(turn int, operation string, took time.Duration, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := 1
	switch {
	case refused || operation != "" && c.isLate(operation, took):
		if turn == c.cuts { // calls that began before the last cut have the same cause
			c.halve()
		}
	case operation != "" && c.limit < most && len(c.places) == 0: // an unused limit must not grow
		if c.round++; c.cuts == 0 || c.round >= c.limit {
			c.limit, c.round = c.limit+1, 0
			back++
		}
	}
	for ; back > 0; back-- {
		if c.over > 0 {
			c.over--
		} else {
			// This does not block: places and running calls together never exceed most.
			c.places <- struct{}{}
		}
	}
}

// makeRoom lowers the limit on behalf of a request that did not enter.
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

// isLate compares the duration of a call with the fastest one of its operation, since a distant
// server is slow for every call.
func (c *crowd) isLate(operation string, took time.Duration) bool {
	quick, known := c.quick[operation]
	if !known || took < quick {
		c.quick[operation] = took
	}
	return known && took > late && took > 2*quick
}
