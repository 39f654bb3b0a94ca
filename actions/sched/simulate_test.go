package sched

import (
	"container/heap"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// A simulation has the scheduler's own core decide what runs, and lets actions end in virtual time.
// Checks take none.
type simulation struct {
	*core
	t     testing.TB
	slots int
	takes func(*graph.Action) time.Duration
	next  func() (int32, bool) // the core's, or another to compare it with

	now    time.Duration
	starts []time.Duration // by position in nodes
	ends   ends
	most   int64 // bytes expected at once
}

func newSimulation(t testing.TB, g *graph.Graph, opts Options, takes func(*graph.Action) time.Duration) *simulation {
	t.Helper()
	want := make([]graph.ActionID, len(g.Actions))
	for i := range want {
		want[i] = graph.ActionID(i)
	}
	c, err := newCore(g, want, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &simulation{core: c, t: t, slots: opts.Jobs, takes: takes, next: c.next, starts: make([]time.Duration, len(c.nodes))}
}

// run gives the makespan.
func (s *simulation) run() time.Duration {
	for i := range s.nodes {
		s.set(int32(i), waiting)
	}
	for {
		s.settle()
		s.start()
		if len(s.ends) == 0 {
			break
		}
		s.now = s.ends[0].at
		for len(s.ends) > 0 && s.ends[0].at == s.now {
			s.set(heap.Pop(&s.ends).(end).node, done)
		}
	}
	if s.ended() != len(s.nodes) {
		s.t.Fatalf("%d of %d actions end", s.ended(), len(s.nodes))
	}
	return s.now
}

// settle takes all that is ready to the queue.
func (s *simulation) settle() {
	for rank, ok := s.ready.first(0, all); ok; rank, ok = s.ready.first(0, all) {
		s.set(s.byRank[rank], checking)
		s.set(s.byRank[rank], queued)
	}
}

func (s *simulation) start() {
	for s.count[running] < s.slots {
		i, ok := s.next()
		if !ok {
			return
		}
		s.set(i, running)
		s.starts[i] = s.now
		s.most = max(s.most, s.memory)
		heap.Push(&s.ends, end{s.now + s.takes(s.nodes[i].action), i})
	}
}

// ends is a heap of what runs; what ends first is on top.
type ends []end

type end struct {
	at   time.Duration
	node int32
}

func (e ends) Len() int { return len(e) }
func (e ends) Less(a, b int) bool {
	return e[a].at < e[b].at || e[a].at == e[b].at && e[a].node < e[b].node
}
func (e ends) Swap(a, b int) { e[a], e[b] = e[b], e[a] }
func (e *ends) Push(x any)   { *e = append(*e, x.(end)) }

func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
