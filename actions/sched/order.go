package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// newCore makes the nodes of a run: want with everything it needs, with edges and priorities.
func newCore(g *graph.Graph, want []graph.ActionID, opts Options) (*core, error) {
	deps, count, err := closure(g, want)
	if err != nil {
		return nil, err
	}
	c := &core{nodes: make([]node, 0, count), pools: map[string]int{}, depths: opts.Pools, budget: opts.Budget, held: nobody}
	at := make([]int32, len(deps)) // position of each action in nodes
	users := make([]int32, count)  // how many need each node
	edges := 0
	for id, reached := range deps {
		if reached == nil {
			continue
		}
		at[id] = int32(len(c.nodes))
		c.nodes = append(c.nodes, node{action: g.Actions[id], blockers: int32(len(reached)), memory: opts.need(g.Actions[id])})
	}
	for _, list := range deps {
		for _, d := range list {
			users[at[d]]++
			edges++
		}
	}
	arena := make([]int32, edges) // one allocation for the users of all nodes
	for i := range c.nodes {
		c.nodes[i].users, arena = arena[:0:users[i]], arena[users[i]:]
	}
	for id, list := range deps {
		for _, d := range list {
			n := &c.nodes[at[d]]
			n.users = append(n.users, at[id])
		}
	}
	if err := c.prioritise(opts.Cost); err != nil {
		return nil, err
	}
	c.rank()
	return c, nil
}

// need is what a is expected to take of the budget.
func (o *Options) need(a *graph.Action) int64 {
	if o.Budget <= 0 || o.Memory == nil {
		return 0
	}
	return min(max(0, o.Memory(a)), all)
}

// rank puts the nodes in the order in which they start, as far as they may.
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
}

// closure gives, by ActionID, what each action of the run needs, and how many actions that is. The
// list of an action outside of the run is nil; of one that needs nothing it is empty.
func closure(g *graph.Graph, want []graph.ActionID) (deps [][]graph.ActionID, count int, err error) {
	deps = make([][]graph.ActionID, len(g.Actions))
	stack := append([]graph.ActionID(nil), want...)
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if id < 0 || int(id) >= len(g.Actions) {
			return nil, 0, fmt.Errorf("there is no action %d", id)
		}
		if deps[id] != nil {
			continue
		}
		count++
		if deps[id] = g.Deps(id); deps[id] == nil {
			deps[id] = []graph.ActionID{}
		}
		stack = append(stack, deps[id]...)
	}
	return deps, count, nil
}

// prioritise gives each node the cost of the most expensive path from it to an end, itself included:
// what is started late of that path makes the whole build late.
func (c *core) prioritise(cost func(*graph.Action) time.Duration) error {
	blockers := make([]int32, len(c.nodes))
	order := make([]int32, 0, len(c.nodes)) // needed before user
	for i := range c.nodes {
		if blockers[i] = c.nodes[i].blockers; blockers[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for k := 0; k < len(order); k++ {
		for _, u := range c.nodes[order[k]].users {
			if blockers[u]--; blockers[u] == 0 {
				order = append(order, u)
			}
		}
	}
	if len(order) < len(c.nodes) {
		return c.cycle(blockers)
	}
	for k := len(order) - 1; k >= 0; k-- {
		n := &c.nodes[order[k]]
		for _, u := range n.users {
			n.priority = max(n.priority, c.nodes[u].priority)
		}
		if cost == nil {
			n.priority++
		} else {
			n.priority += max(0, int64(cost(n.action)))
		}
	}
	return nil
}

// cycle describes one cycle among the nodes that still have blockers. Each of them needs another one
// of them, so that walking from need to need must come back.
func (c *core) cycle(blockers []int32) error {
	needs := make([]int32, len(c.nodes)) // one blocked node that it needs; position + 1
	start := int32(-1)
	for i := range c.nodes {
		if blockers[i] == 0 {
			continue
		}
		start = int32(i)
		for _, u := range c.nodes[i].users {
			needs[u] = int32(i) + 1
		}
	}
	path, seen := []int32{}, map[int32]int{}
	for i := start; ; i = needs[i] - 1 {
		if from, ok := seen[i]; ok {
			path = append(path[from:], i)
			break
		}
		seen[i] = len(path)
		path = append(path, i)
	}
	names := make([]string, len(path))
	for k, i := range path {
		names[k] = c.nodes[i].action.Name
	}
	return fmt.Errorf("the graph has a cycle: %s", strings.Join(names, " needs "))
}
