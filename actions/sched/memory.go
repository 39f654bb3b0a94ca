package sched

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Memory is planned like job slots: the expected peaks of the running actions together never exceed
// the budget. An action that is expected to need more than the whole budget runs alone. To refuse
// it would fail a build that may well succeed.
//
// An action that does not fit lets others pass, or a machine would idle while one link waits for
// another. But it does not let all others pass. Small ones would take each byte that is given back,
// and a large one would wait for the end of the build. So memory is held for the best queued action
// that does not fit. Of the actions behind it, only as many may start as can go on running beside
// it: together they take no more than the budget less its need. It starts at the latest when all
// that ran when the hold began has ended. That holds whatever passes it, and however wrong the
// expected times are: none is used here. (Batch schedulers call this backfilling, and use them.)
// Its place in its pool is held as well.
//
// A better action that is queued later starts if it fits, and else takes over the hold. So the end
// of the build depends least on the action that waits longest.

// next returns the queued action to start now. ok is false if none may start.
func (c *core) next() (i int32, ok bool) {
	best, ok := c.placed(0, all)
	if !ok {
		return 0, false
	}
	if c.nodes[best].memory <= c.room() {
		return best, true
	}
	c.hold(best)
	beside := max(0, c.budget-c.nodes[best].memory-c.passing)
	return c.placed(c.nodes[best].rank+1, min(c.room(), beside))
}

// room returns how much memory one more action may need.
func (c *core) room() int64 {
	if c.memory == 0 {
		return all
	}
	return max(0, c.budget-c.memory) // an action that needs more than the budget may be running
}

// placed returns the best queued node, from a rank on, that needs at most room and has a place in
// its pool.
func (c *core) placed(from int32, room int64) (i int32, ok bool) {
	for rank, ok := c.queued.first(from, room); ok; rank, ok = c.queued.first(rank+1, room) {
		if i := c.byRank[rank]; !c.poolFull(i) {
			return i, true
		}
	}
	return 0, false
}

func (c *core) poolFull(i int32) bool {
	n := &c.nodes[i]
	pool := n.action.Pool
	depth := c.depths[pool]
	if pool == "" || depth <= 0 {
		return false
	}
	taken := c.pools[pool]
	if c.held != nobody && c.nodes[c.held].action.Pool == pool && c.nodes[c.held].rank < n.rank {
		taken++
	}
	return taken >= depth
}

// hold holds memory for queued node i, and no longer for another one.
func (c *core) hold(i int32) {
	if c.held != i {
		c.held, c.passing = i, 0
		c.holds++
	}
}

// loadInterval is how long a run that the load holds back waits before it checks again, if nothing
// ends before.
const loadInterval = time.Second

// overloaded reports whether the load forbids another process. One may always run.
//
// The average lags by a minute. By itself it lets a build start everything it has at the same
// moment (ninja reached a load of 562 where make stayed at 132). So the processes of this run count
// as load from the moment they start, and the average stands for all other processes.
func (l *loop) overloaded() bool {
	if l.opts.MaxLoad <= 0 || l.local() == 0 {
		return false
	}
	if float64(l.local()) < l.opts.MaxLoad && l.opts.Load() < l.opts.MaxLoad {
		return false
	}
	if l.loadTimer == nil {
		l.loadTimer = time.After(loadInterval)
	}
	return true
}

// systemLoad returns the 1-minute load average, or 0 if it is not known.
func systemLoad() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
