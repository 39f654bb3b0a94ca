package sched

import (
	"context"

	"github.com/kbuild-dev/kbuild/graph"
)

// leases is the run's dealing with a broker. It asks for one lease at a time, for the action that
// is to start next, which starts as soon as it comes: it may not be the best any more, but a lease
// that is given back for a better one loses its place in the line. Meanwhile nothing else starts
// here.
//
// Make's token comes first and is held while the lease is waited for. The other way round a run
// with a lease would wait for jobs of make, and those may be runs that wait for a lease. So who
// holds a lease waits for nothing but its command. Other jobs of make lack the token meanwhile, but
// the processors are taken.
type leases struct {
	broker  Broker
	node    int32 // what the request that is out is for, or nobody
	cancel  context.CancelFunc
	unasked bool // the request out is not wanted any more
	arrived chan leaseAnswer
}

type leaseAnswer struct {
	lease Lease
	err   error
}

// granted reports that node i may run here now: it has what make and the broker must give.
// Otherwise it is asked for, unless something is already.
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

// expected is the memory to ask a broker for. What runs alone because memory was short asks for
// all, so that it is alone on the machine.
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

// unaskLease withdraws a request that nobody wants any more, or that something else wants more. Its
// answer still comes, and may still be a lease.
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

// leased takes the answer of the broker: the action it was asked for runs, or, if it may not any
// more, gives all back.
func (l *loop) leased(a leaseAnswer) {
	t := &l.leases
	i := t.node
	n := &l.nodes[i]
	t.node = nobody
	t.cancel()
	if a.err != nil {
		if !t.unasked && l.ctx.Err() == nil {
			t.broker = nil // it does not work
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

// free gives back what granted has taken for n.
func (l *loop) free(n *node) {
	if n.lease != nil {
		n.lease.Release()
		n.lease = nil
	}
	l.tokens.free(n)
}
