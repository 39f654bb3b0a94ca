package sched

import "context"

// grants manages what a run requests from other processes before it starts a command locally: a
// token of make's jobserver, then a lease of a broker. At most one request is pending.
//
// The first slot of a jobserver is free; each further process needs a token. A token is for
// whatever action is the best when it arrives. No token is kept that no process uses: make would
// wait for it, and this run, idle, for make.
//
// A lease is for the action that is to start next, which starts as soon as the lease arrives. By
// then it may not be the best action any more. But a lease that is given back for a better action
// loses its place in the line. While the request is pending, nothing else starts locally.
//
// The run holds make's token while it waits for the lease. In the other order, a run with a lease
// would wait for jobs of make, and those may be runs that wait for a lease. So a run that holds a
// lease waits only for its command. Other jobs of make lack the token in the meantime, but the
// processors are busy.
type grants struct {
	server   Jobserver
	broker   Broker
	implicit bool   // the free slot is taken
	broken   bool   // the server returned an error: there is only the free slot
	spare    []byte // tokens that arrived and are not used yet

	pending   bool  // a request; its answer comes on arrived
	node      int32 // the node that the pending request for a lease is for, or nobody
	withdrawn bool  // the pending request is not wanted any more
	cancel    context.CancelFunc
	arrived   chan grant
}

// grant is the answer to a request.
type grant struct {
	token byte
	lease Lease
	err   error
}

// granted reports whether node i may run locally now, because it has what make and the broker must
// give. Otherwise it requests that, unless a request is pending.
func (l *loop) granted(i int32) bool {
	g, n := &l.grants, &l.nodes[i]
	last := len(g.spare) - 1
	switch {
	case g.node != nobody:
		return false
	case g.server == nil:
	case !g.implicit && g.pending && g.broker != nil:
		g.withdraw() // no token is needed, and the next request is for a lease
		return false
	case !g.implicit:
		g.implicit = true
	case last >= 0:
		n.token, n.hasToken = g.spare[last], true
		g.spare = g.spare[:last]
	default:
		if !g.pending && !g.broken {
			l.request(nobody, 0)
		}
		return false
	}
	if g.broker == nil {
		return true
	}
	l.request(i, l.expected(n))
	return false
}

// expected returns the memory to request from a broker. An action that runs alone because memory
// was short requests all, so that it is alone on the machine.
func (l *loop) expected(n *node) int64 {
	switch {
	case n.exclusive:
		return all
	case l.opts.Estimates == nil:
		return 0
	}
	return max(0, l.opts.Estimates.Memory(n.action))
}

// request requests a lease for node i, or a token if i is nobody.
func (l *loop) request(i int32, memory int64) {
	g := &l.grants
	g.pending, g.node, g.withdrawn = true, i, false
	ctx, cancel := context.WithCancel(l.ctx)
	g.cancel = cancel
	go func() {
		var answer grant
		if i == nobody {
			answer.token, answer.err = g.server.Acquire(ctx)
		} else {
			answer.lease, answer.err = g.broker.Acquire(ctx, l.nodes[i].action, memory)
		}
		g.arrived <- answer
	}()
}

// withdraw withdraws the pending request. The answer still comes, and may still be a grant.
func (g *grants) withdraw() {
	if g.pending && !g.withdrawn {
		g.withdrawn = true
		g.cancel()
	}
}

// withdrawUnused withdraws a request that its action does not need any more, or that another action
// needs more.
func (l *loop) withdrawUnused() {
	g := &l.grants
	if g.node == nobody {
		if l.stopping || l.queued.count == 0 && !l.mayRace() {
			g.withdraw()
		}
		return
	}
	n := &l.nodes[g.node]
	away := n.state == running && n.place == elsewhere
	switch {
	case l.stopping:
	case n.state == queued:
		return
	case away && (l.late.has(n.rank) || l.queued.count == 0):
		return
	}
	g.withdraw()
}

// answered handles the answer to the pending request. The action of a lease runs or, if it may not
// run any more, gives all back.
func (l *loop) answered(a grant) {
	g, i := &l.grants, l.grants.node
	g.pending, g.node = false, nobody
	g.cancel()
	if i == nobody {
		if a.err == nil {
			g.spare = append(g.spare, a.token)
		}
		g.broken = g.broken || a.err != nil && !g.withdrawn
		return
	}
	n := &l.nodes[i]
	if n.lease = a.lease; a.err != nil {
		n.lease = nil
		if !g.withdrawn && l.ctx.Err() == nil {
			g.broker = nil // it does not work
		}
	}
	switch {
	case a.err != nil || l.stopping || l.ctx.Err() != nil || g.withdrawn:
		l.free(n)
	case n.state == queued && !l.poolFull(i):
		l.tellStarted(i)
		l.begin(i)
	case n.state == running && n.place == elsewhere:
		l.joinNow(i)
	default:
		l.free(n)
	}
}

// free returns what granted has acquired for n.
func (l *loop) free(n *node) {
	if n.lease != nil {
		n.lease.Release()
		n.lease = nil
	}
	switch {
	case l.grants.server == nil:
	case n.hasToken:
		n.hasToken = false
		l.grants.server.Release(n.token)
	default:
		l.grants.implicit = false
	}
}

// giveBack releases the tokens that no process could use.
func (g *grants) giveBack() {
	for _, token := range g.spare {
		g.server.Release(token)
	}
	g.spare = g.spare[:0]
}
