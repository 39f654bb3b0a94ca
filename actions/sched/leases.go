package sched

import (
	"context"

	"github.com/kbuild-dev/kbuild/graph"
)

// leases manages the run's requests to a broker. It requests one lease at a time, for the action
// that is to start next, which starts as soon as the lease arrives. By then it may not be the best
// action any more. But a lease that is given back for a better action loses its place in the line.
// While a request is out, nothing else starts locally.
//
// The run acquires make's token first, and holds it while it waits for the lease. In the other
// order, a run with a lease would wait for jobs of make, and those may be runs that wait for a
// lease. So a run that holds a lease waits only for its command. Other jobs of make lack the token
// in the meantime, but the processors are busy.
type leases struct {
	broker  Broker
	node    int32 // the node that the pending request is for, or nobody
	cancel  context.CancelFunc
	unasked bool // the pending request is not wanted any more
	arrived chan leaseAnswer
}

type leaseAnswer struct {
	lease Lease
	err   error
}

// granted reports whether node i may run locally now, because it has what make and the broker must
// give. Otherwise it requests that, unless a request is pending.
func (l *loop) granted(i int32) bool {
	n := &l.nodes[i]
	if l.leases.node != nobody || !l.tokens.take(l.ctx, n) {
		return false
	}
	if l.leases.broker == nil {
		return true
	}
	l.leases.ask(l.ctx, i, n.action, l.expected(n))
	return false
}

// expected returns the memory to request from a broker. An action that runs alone because memory
// was short requests all, so that it is alone on the machine.
func (l *loop) expected(n *node) int64 {
	switch {
	case n.alone:
		return all
	case l.opts.Memory == nil:
		return 0
	}
	return max(0, l.opts.Memory(n.action))
}

func (t *leases) ask(ctx context.Context, i int32, a *graph.Action, memory int64) {
	ctx, t.cancel = context.WithCancel(ctx)
	t.node, t.unasked = i, false
	broker := t.broker
	go func() {
		lease, err := broker.Acquire(ctx, a, memory)
		t.arrived <- leaseAnswer{lease, err}
	}()
}

// unaskLease withdraws a request that its action does not need any more, or that another action
// needs more. The answer still comes, and may still be a lease.
func (l *loop) unaskLease() {
	t := &l.leases
	if t.node == nobody || t.unasked {
		return
	}
	n := &l.nodes[t.node]
	away := n.state == running && n.place == elsewhere
	switch {
	case l.stopping:
	case n.state == queued:
		return
	case away && (l.late.has(n.rank) || l.queued.count == 0):
		return
	}
	t.unasked = true
	t.cancel()
}

// leased handles the answer of the broker. The action of the request runs or, if it may not run any
// more, gives all back.
func (l *loop) leased(a leaseAnswer) {
	t := &l.leases
	i := t.node
	n := &l.nodes[i]
	t.node = nobody
	t.cancel()
	if a.err != nil {
		if !t.unasked && l.ctx.Err() == nil {
			t.broker = nil // the broker does not work
		}
		l.tokens.free(n)
		return
	}
	n.lease = a.lease
	switch {
	case l.stopping || l.ctx.Err() != nil || t.unasked:
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

// free gives back what granted has acquired for n.
func (l *loop) free(n *node) {
	if n.lease != nil {
		n.lease.Release()
		n.lease = nil
	}
	l.tokens.free(n)
}
