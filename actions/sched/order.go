package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
)

// newCore builds the nodes of a run: want with everything it needs, with edges and priorities. In a
// sealed graph the dependencies of an action come before it.
func newCore(g *graph.Graph, want []graph.ActionID, opts Options) (*core, error) {
	for _, id := range want {
		if id < 0 || int(id) >= len(g.Actions) {
			return nil, fmt.Errorf("there is no action %d", id)
		}
	}
	ids := g.Closure(want)
	c := &core{nodes: make([]node, 0, len(ids)), pools: map[string]int{}, depths: opts.Pools, budget: opts.Budget, held: nobody, distributed: opts.Elsewhere > 0}
	at := make([]int32, len(g.Actions)) // position of each action in nodes
	users := make([]int32, len(ids))    // how many nodes need each node
	edges := 0
	for i, id := range ids {
		at[id] = int32(i)
		deps := g.Deps(id)
		c.nodes = append(c.nodes, node{action: g.Actions[id], blockers: int32(len(deps)), memory: opts.need(g.Actions[id])})
		edges += len(deps)
		for _, d := range deps {
			users[at[d]]++
		}
	}
	arena := make([]int32, edges) // one allocation for the users of all nodes
	for i := range c.nodes {
		c.nodes[i].users, arena = arena[:0:users[i]], arena[users[i]:]
	}
	for i, id := range ids {
		for _, d := range g.Deps(id) {
			n := &c.nodes[at[d]]
			n.users = append(n.users, int32(i))
		}
	}
	c.prioritise(opts.Estimates)
	c.rank()
	return c, nil
}

// need returns how much of the budget a is expected to take.
func (o *Options) need(a *graph.Action) int64 {
	if o.Budget <= 0 || o.Estimates == nil {
		return 0
	}
	return min(max(0, o.Estimates.Memory(a)), all)
}

// rank sorts the nodes in the order in which they start, as far as they may.
func (c *core) rank() {
	c.byRank = make([]int32, len(c.nodes))
	for i := range c.byRank {
		c.byRank[i] = int32(i)
	}
	slices.SortFunc(c.byRank, func(i, k int32) int {
		a, b := &c.nodes[i], &c.nodes[k]
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.action.ID, b.action.ID))
	})
	for rank, i := range c.byRank {
		c.nodes[i].rank = int32(rank)
	}
	c.ready, c.queued = newQueue(len(c.nodes)), newQueue(len(c.nodes))
	if c.distributed {
		c.ports, c.away, c.late = newQueue(len(c.nodes)), newQueue(len(c.nodes)), newQueue(len(c.nodes))
	}
}

// prioritise sets the priority of each node to the cost of the most expensive path from it to an
// end, itself included. A late start on that path makes the whole build late.
func (c *core) prioritise(e Estimates) {
	for i := len(c.nodes) - 1; i >= 0; i-- {
		n := &c.nodes[i]
		for _, u := range n.users {
			n.priority = max(n.priority, c.nodes[u].priority)
		}
		if e == nil {
			n.priority++
		} else {
			n.priority += max(0, int64(e.Cost(n.action)))
		}
	}
}
