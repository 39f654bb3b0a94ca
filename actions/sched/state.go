package sched

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
)

// state of an action. Every change goes through core.set, which keeps the counters and queues true.
type state uint8

const (
	unwanted state = iota // not part of this run
	waiting               // something it needs has not ended
	checking              // Runner.Check is at work
	queued                // must run, waits for a slot
	running               // Runner.Execute is at work, holds a slot
	done                  // ended well
	failed                // ended badly
	skipped               // never tried
	numStates
)

// legal lists the allowed transitions.
var legal = [numStates][numStates]bool{
	unwanted: {waiting: true},
	waiting:  {checking: true, skipped: true},
	checking: {queued: true, done: true, failed: true, skipped: true},
	queued:   {running: true, skipped: true},
	running:  {done: true, failed: true, skipped: true},
}

// node is an action in a run.
type node struct {
	action   *graph.Action
	state    state
	blockers int   // dependencies that have not ended
	users    []int // positions of the nodes that need this one
	priority int64 // length of the longest path from here to an end, ns
	result   Result
	token    byte // of the jobserver, while running
	hasToken bool
}

// core is the state machine: which action is where, and the views that follow from it. It starts
// nothing itself.
type core struct {
	nodes  []node
	count  [numStates]int
	pools  map[string]int // running, by pool
	ready  queue          // waiting with no blockers: to be checked
	toRun  queue          // queued
	poison []bool         // needs something that failed
}

// set moves node i to state to, and updates everything derived.
func (c *core) set(i int, to state) {
	n := &c.nodes[i]
	if !legal[n.state][to] {
		panic(fmt.Sprintf("BUG: action %d (%s) goes from state %d to %d", n.action.ID, n.action.Name, n.state, to))
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
			c.ready.push(c, i)
		}
	case queued:
		c.toRun.push(c, i)
	case running:
		if n.action.Pool != "" {
			c.pools[n.action.Pool]++
		}
	case done:
		c.release(i)
	}
}

// release unblocks the users of a finished node.
func (c *core) release(i int) {
	for _, u := range c.nodes[i].users {
		n := &c.nodes[u]
		n.blockers--
		if n.blockers == 0 && n.state == waiting {
			c.ready.push(c, u)
		}
	}
}

// poisoned are the waiting nodes that need i, directly or through others, in order.
func (c *core) poisoned(i int) []int {
	var out []int
	stack := []int{i}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, u := range c.nodes[n].users {
			if !c.poison[u] {
				c.poison[u] = true
				out = append(out, u)
				stack = append(stack, u)
			}
		}
	}
	return out
}

// finished counts the actions that have ended, in whatever way.
func (c *core) finished() int { return c.count[done] + c.count[failed] + c.count[skipped] }

// queue is a heap of node positions: highest priority first, then lowest ActionID.
type queue struct{ items []int }

func (q *queue) less(c *core, a, b int) bool {
	na, nb := &c.nodes[a], &c.nodes[b]
	if na.priority != nb.priority {
		return na.priority > nb.priority
	}
	return na.action.ID < nb.action.ID
}

func (q *queue) push(c *core, i int) {
	q.items = append(q.items, i)
	for k := len(q.items) - 1; k > 0; {
		up := (k - 1) / 2
		if !q.less(c, q.items[k], q.items[up]) {
			break
		}
		q.items[k], q.items[up] = q.items[up], q.items[k]
		k = up
	}
}

func (q *queue) pop(c *core) int {
	top := q.items[0]
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items = q.items[:last]
	for k := 0; ; {
		next := 2*k + 1
		if next >= last {
			break
		}
		if next+1 < last && q.less(c, q.items[next+1], q.items[next]) {
			next++
		}
		if !q.less(c, q.items[next], q.items[k]) {
			break
		}
		q.items[k], q.items[next] = q.items[next], q.items[k]
		k = next
	}
	return top
}
