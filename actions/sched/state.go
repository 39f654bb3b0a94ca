package sched

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
)

// state of an action. Every change goes through core.set, which alone keeps the counters, the queues
// and the occupancy of pools true. (After n2's BuildStates, where the same rule replaced the set of
// half-agreeing flags that ninja keeps on edges.)
type state uint8

const (
	unwanted state = iota // before the run
	waiting               // something it needs has not ended
	ready                 // may be checked
	checking              // Runner.Check is at work
	queued                // must run, waits for a slot
	running               // Runner.Execute is at work, holds a slot
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
	running:  {done: true, failed: true, skipped: true},
}

// node is an action in a run.
type node struct {
	action   *graph.Action
	users    []int32 // positions of the nodes that need this one
	priority int64   // cost of the most expensive path from here to an end
	blockers int32   // what it needs that has not ended well
	state    state
	poisoned bool // needs something that failed
	token    byte // of the jobserver, while running
	hasToken bool
}

// core is the state machine: which action is where, and the views that follow from it. It starts
// nothing itself.
type core struct {
	nodes  []node
	count  [numStates]int
	pools  map[string]int // running, by pool
	ready  queue          // the nodes in state ready
	queued queue          // the nodes in state queued
}

// set moves node i to state to, and updates everything derived. Whoever moves a node out of ready or
// queued while the run goes on has popped it from its queue.
func (c *core) set(i int32, to state) {
	n := &c.nodes[i]
	if !legal[n.state][to] {
		panic(fmt.Sprintf("BUG: action %d (%s) goes from %v to %v", n.action.ID, n.action.Name, n.state, to))
	}
	if n.state == running && n.action.Pool != "" {
		c.pools[n.action.Pool]--
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
		c.ready.push(c, i)
	case queued:
		c.queued.push(c, i)
	case running:
		if n.action.Pool != "" {
			c.pools[n.action.Pool]++
		}
	case done:
		c.release(n)
	}
}

// release unblocks the users of a node that ended well.
func (c *core) release(n *node) {
	for _, u := range n.users {
		user := &c.nodes[u]
		if user.blockers--; user.blockers == 0 {
			c.set(u, ready)
		}
	}
}

// poison marks what needs node i, directly or through others, and returns those it had not marked
// before. All of them wait: what i blocks was never ready.
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

// ended counts the actions that are over, in whatever way.
func (c *core) ended() int { return c.count[done] + c.count[failed] + c.count[skipped] }

// queue is a heap of node positions: highest priority first, then lowest ActionID.
type queue struct{ items []int32 }

func (q *queue) less(c *core, a, b int) bool {
	na, nb := &c.nodes[q.items[a]], &c.nodes[q.items[b]]
	if na.priority != nb.priority {
		return na.priority > nb.priority
	}
	return na.action.ID < nb.action.ID
}

func (q *queue) swap(a, b int) { q.items[a], q.items[b] = q.items[b], q.items[a] }

func (q *queue) push(c *core, i int32) {
	q.items = append(q.items, i)
	for k := len(q.items) - 1; k > 0; {
		up := (k - 1) / 2
		if !q.less(c, k, up) {
			break
		}
		q.swap(k, up)
		k = up
	}
}

func (q *queue) pop(c *core) int32 {
	top, last := q.items[0], len(q.items)-1
	q.swap(0, last)
	q.items = q.items[:last]
	for k := 0; ; {
		next := 2*k + 1
		if next >= last {
			break
		}
		if next+1 < last && q.less(c, next+1, next) {
			next++
		}
		if !q.less(c, next, k) {
			break
		}
		q.swap(k, next)
		k = next
	}
	return top
}
