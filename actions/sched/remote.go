package sched

import "time"

// Remote workers are for actions that find no local slot. The best queued action takes a local
// slot, and the best of those that find none, and may, run remotely. While an action waits that
// perhaps can run only locally, others go to remote workers first. At the end of a build, or if all
// actions wait for one, a local slot is free while actions run remotely. It is given to the best of
// those, which then runs in both places until one run has ended.
//
// So a build with remote execution takes no longer than one without, whatever the remote workers
// do. The exception is an action that waits for a remote worker while less important actions run
// locally. Once it is overdue, it has a right to a local slot before them.

// startRemote sends queued actions to remote workers, best first.
func (l *loop) startRemote() {
	from := int32(0)
	for l.ports.count > 0 && l.away.count < l.opts.Elsewhere && l.opts.Remote.Executes() {
		rank, ok := l.ports.first(from, all)
		if !ok {
			return
		}
		i := l.byRank[rank]
		if from = rank + 1; l.poolFull(i) {
			continue
		}
		n := &l.nodes[i]
		n.portable, n.place = false, elsewhere // if the remote run is lost, it runs locally
		l.ports.take(rank)
		l.set(i, running)
		l.tellStarted(i)
		here := make(chan struct{})
		l.raced[i] = here
		if l.opts.Estimates != nil {
			time.AfterFunc(l.opts.Estimates.Overdue(n.action), func() {
				select {
				case l.overdue <- i:
				case <-here:
				}
			})
		}
		go l.execute(i, n.action, here)
	}
}

// isOverdue marks node i as overdue if it still runs only remotely.
func (l *loop) isOverdue(i int32) {
	if n := &l.nodes[i]; n.state == running && n.place == elsewhere && !l.late.has(n.rank) {
		l.late.put(n.rank, n.memory)
	}
}

// joinLate gives a local slot to an overdue action that is better than all that wait for one. ok is
// false if there is none.
func (l *loop) joinLate() (ok bool) {
	if l.late.count == 0 {
		return false
	}
	rank, ok := l.late.first(0, l.room())
	if best, queued := l.queued.first(0, all); !ok || queued && best < rank {
		return false
	}
	return l.join(l.byRank[rank])
}

// race gives local slots that no queued action can use to actions that run remotely.
func (l *loop) race() {
	for l.mayRace() && !l.overloaded() {
		rank, ok := l.away.first(0, l.room())
		if !ok || !l.join(l.byRank[rank]) {
			return
		}
	}
}

func (l *loop) mayRace() bool {
	return l.away.count > 0 && l.queued.count+len(l.exclusive)+l.count[checking] == 0 && l.local() < l.opts.Jobs
}

// join makes node i run locally too.
func (l *loop) join(i int32) bool {
	if !l.granted(i) {
		return false
	}
	l.joinNow(i)
	return true
}

func (l *loop) joinNow(i int32) {
	l.noteOverlap(i)
	l.core.join(&l.nodes[i])
	close(l.raced[i])
	delete(l.raced, i)
}

// vacate frees what the running node i holds, except what set counts.
func (l *loop) vacate(i int32) {
	n := &l.nodes[i]
	if n.place == elsewhere {
		close(l.raced[i]) // the remote run stops waiting for a local slot
		delete(l.raced, i)
		return
	}
	l.free(n)
	if l.onlyLocal == i {
		l.onlyLocal = nobody
	}
}
