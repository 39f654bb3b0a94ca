package sched

import (
	"fmt"
	"math"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
)

// state is the state of an action. Every change goes through core.set, which alone updates the
// counters, the queues and the occupancy of pools. (After n2's BuildStates, where the same rule
// replaced the set of half-agreeing flags that ninja keeps on edges.)
type state uint8

const (
	unwanted state = iota // before the run
	waiting               // something it needs has not ended
	ready                 // may be checked
	checking              // Runner.Check runs
	queued                // must run, waits for a slot
	running               // Runner.Execute runs, holds a slot
	done                  // ended well
	failed                // ended badly
	skipped               // never tried, or stopped
	numStates
)

var stateNames = [numStates]string{"unwanted", "waiting", "ready", "checking", "queued", "running", "done", "failed", "skipped"}

func (s state) String() string { return stateNames[s] }

// legal lists the allowed transitions.
var legal = [numStates][numStates]bool{
	unwanted: {waiting: true},
	waiting:  {ready: true, skipped: true},
	ready:    {checking: true, skipped: true},
	checking: {queued: true, done: true, failed: true, skipped: true},
	queued:   {running: true, skipped: true},
	// queued again: to run alone, or locally after a lost remote run
	running: {done: true, failed: true, skipped: true, queued: true},
}

// node is an action in a run.
type node struct {
	action     *graph.Action
	users      []int32 // positions of the nodes that need this one
	priority   int64   // cost of the most expensive path from here to an end
	memory     int64   // bytes that it is expected to need while it runs
	rank       int32   // 0 is the best: highest priority first, then lowest ActionID
	holds      int32   // core.holds when it started
	blockers   int32   // number of dependencies that have not ended well
	overlapped bool    // another node ran concurrently
	exclusive  bool    // memory was short: it is retried with nothing beside it
	state      state
	place      place
	portable   bool // may run remotely
	started    bool // the observer was notified
	poisoned   bool // needs an action that failed
	token      byte // of the jobserver, while running
	hasToken   bool
	lease      Lease // of the broker, while running
}

// place is where a running action runs.
type place uint8

const (
	here      place = iota // in a local slot
	elsewhere              // on a remote worker
	both                   // on a remote worker, and in a local slot
)

// core is the state machine: the state of each action, and the views that follow from it. It starts
// nothing itself.
type core struct {
	nodes  []node
	byRank []int32
	depths map[string]int // of pools; 0 means no limit
	budget int64          // bytes for all that runs; 0 means no limit

	distributed bool // actions may run remotely

	count     [numStates]int
	pools     map[string]int // running, by pool
	memory    int64          // expected need of what runs locally
	held      int32          // the queued node that memory is held for, or nobody
	holds     int32          // how many times memory was held
	passing   int64          // expected need of what runs and started since the last hold began
	ready     queue          // the nodes in state ready
	queued    queue          // the nodes in state queued, except those in alone
	ports     queue          // those in queued that may run remotely
	away      queue          // the nodes that run only remotely
	late      queue          // those in away that are overdue
	exclusive []int32        // the nodes in state queued that run alone, oldest first
}

const nobody = -1

// set moves node i to state to, and updates everything derived.
func (c *core) set(i int32, to state) {
	n := &c.nodes[i]
	if !legal[n.state][to] {
		panic(fmt.Sprintf("BUG: action %d (%s) goes from %v to %v", n.action.ID, n.action.Name, n.state, to))
	}
	switch n.state {
	case ready:
		c.ready.take(n.rank)
	case queued:
		c.unqueue(i)
	case running:
		c.leave(n)
	}
	if n.state != unwanted {
		c.count[n.state]--
	}
	n.state = to
	c.count[to]++
	switch to {
	case waiting:
		if n.blockers == 0 {
			c.set(i, ready)
		}
	case ready:
		c.ready.put(n.rank, 0)
	case queued:
		if n.exclusive {
			c.exclusive = append(c.exclusive, i)
		} else {
			c.queued.put(n.rank, n.memory)
			if n.portable {
				c.ports.put(n.rank, 0)
			}
		}
	case running:
		c.enter(n)
	case done:
		c.release(n)
	}
}

// unqueue removes node i from the queue that it waits in.
func (c *core) unqueue(i int32) {
	if c.nodes[i].exclusive {
		c.exclusive = slices.DeleteFunc(c.exclusive, func(k int32) bool { return k == i })
		return
	}
	c.queued.take(c.nodes[i].rank)
	if c.nodes[i].portable {
		c.ports.take(c.nodes[i].rank)
	}
	if c.held == i {
		c.held = nobody
	}
}

// enter takes the slot and the memory that n needs where it runs, and leave returns them. A pool limits local and
// remote actions together.
func (c *core) enter(n *node) {
	c.pool(n, 1)
	if n.place == elsewhere {
		c.away.put(n.rank, n.memory)
		return
	}
	n.holds = c.holds
	c.occupy(n, 1)
}

func (c *core) leave(n *node) {
	c.pool(n, -1)
	if n.place != elsewhere {
		c.occupy(n, -1)
		return
	}
	c.away.take(n.rank)
	if c.late.has(n.rank) {
		c.late.take(n.rank)
	}
}

// join takes a local slot and memory for n, which runs remotely.
func (c *core) join(n *node) {
	c.leave(n)
	n.place = both
	c.enter(n)
}

// local returns the number of local slots that are taken.
func (c *core) local() int { return c.count[running] - c.away.count }

func (c *core) pool(n *node, by int) {
	if n.action.Pool != "" {
		c.pools[n.action.Pool] += by
	}
}

// occupy adds the memory of n to what local actions take, or removes it: by is 1 or -1.
func (c *core) occupy(n *node, by int) {
	c.memory += int64(by) * n.memory
	if n.holds == c.holds {
		c.passing += int64(by) * n.memory
	}
}

// release unblocks the users of a node that ended well.
func (c *core) release(n *node) {
	for _, u := range n.users {
		user := &c.nodes[u]
		if user.blockers--; user.blockers == 0 && user.state == waiting {
			c.set(u, ready)
		}
	}
}

// poison marks what needs node i, directly or through others, and returns the nodes that it had not
// marked before. None of them has begun: what i blocks was never ready.
func (c *core) poison(i int32) []int32 {
	var out []int32
	stack := []int32{i}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, u := range c.nodes[n].users {
			if !c.nodes[u].poisoned {
				c.nodes[u].poisoned = true
				out = append(out, u)
				stack = append(stack, u)
			}
		}
	}
	return out
}

// ended returns the number of actions that have ended, in whatever way.
func (c *core) ended() int { return c.count[done] + c.count[failed] + c.count[skipped] }

// queue holds nodes by rank, each with the memory it needs, and finds the best node that needs no
// more than a limit. With 100,000 compiles queued behind a link, all of them too large, it must not
// check each whenever a process ends.
//
// It is a binary tree in an array. Leaves are ranks, and each inner node has the least need below
// it.
type queue struct {
	least []int64
	count int
}

// absent is the need of a rank that is not in the queue. No need is as large.
const absent = math.MaxInt64

// all is room for everything.
const all = absent - 1

// newQueue returns an empty queue for ranks below n.
func newQueue(n int) queue {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	q := queue{least: make([]int64, 2*leaves)}
	for i := range q.least {
		q.least[i] = absent
	}
	return q
}

func (q *queue) put(rank int32, need int64) {
	q.count++
	q.set(rank, need)
}

func (q *queue) take(rank int32) {
	q.count--
	q.set(rank, absent)
}

func (q *queue) has(rank int32) bool { return q.least[len(q.least)/2+int(rank)] != absent }

func (q *queue) set(rank int32, need int64) {
	k := len(q.least)/2 + int(rank)
	q.least[k] = need
	for k /= 2; k > 0; k /= 2 {
		q.least[k] = min(q.least[2*k], q.least[2*k+1])
	}
}

// first returns the best rank, from one on, that needs at most room. ok is false if there is none.
func (q *queue) first(from int32, room int64) (rank int32, ok bool) {
	leaves := len(q.least) / 2
	k := leaves + int(from)
	if k == len(q.least) {
		return 0, false
	}
	for q.least[k] > room { // go to the next subtree to the right, as large as possible
		for k++; k%2 == 0; k /= 2 {
		}
		if k == 1 {
			return 0, false
		}
	}
	for k < leaves {
		if k *= 2; q.least[k] > room {
			k++
		}
	}
	return int32(k - leaves), true
}
