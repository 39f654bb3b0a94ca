package sched

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph"
)

// fakeBroker is a machine of so many processors that runs share.
type fakeBroker struct {
	pool  chan struct{}
	t     *testing.T
	mu    sync.Mutex
	held  int
	asked []string // what leases were asked for, as "name memory"
	err   error    // what Acquire says at once
}

func newBroker(t *testing.T, n int) *fakeBroker {
	b := &fakeBroker{pool: make(chan struct{}, n), t: t}
	for range n {
		b.pool <- struct{}{}
	}
	return b
}

func (b *fakeBroker) Acquire(ctx context.Context, a *graph.Action, memory int64) (Lease, error) {
	b.mu.Lock()
	b.asked = append(b.asked, fmt.Sprint(a.Name, " ", memory))
	b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	select {
	case <-b.pool:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.held++
		return &fakeLease{b: b}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// keep has nobody who waits now get a lease.
func (b *fakeBroker) keep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool = make(chan struct{}, cap(b.pool))
}

func (b *fakeBroker) taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

type fakeLease struct {
	b    *fakeBroker
	gone bool
}

func (l *fakeLease) Release() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.gone {
		l.b.t.Error("a lease is given back twice")
	}
	l.gone = true
	l.b.held--
	l.b.pool <- struct{}{}
}

func (w *fakeRunner) checkBroker() {
	if b, ok := w.opts.Broker.(*fakeBroker); ok && b.taken() != 0 {
		w.t.Errorf("%d leases are still held", b.taken())
	}
}

// Two runs have no more processes together than the machine has processors, and both end.
func TestTwoRunsShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBroker(t, 3)
		var mu sync.Mutex
		now, most := 0, 0
		var wg sync.WaitGroup
		for range 2 {
			g, want := independent(12)
			w := newFakeRunner(t, g, executing(12), Options{Jobs: 3, Broker: b})
			count := func(by int) {
				mu.Lock()
				defer mu.Unlock()
				now += by
				most = max(most, now)
			}
			wg.Go(func() {
				sum, err := Run(t.Context(), g, want, w.opts, counting{w, count}, w)
				if err != nil || sum.Ran != 12 {
					t.Errorf("%+v, %v", sum, err)
				}
			})
		}
		wg.Wait()
		if most != 3 || b.taken() != 0 {
			t.Errorf("%d at once, want 3; %d leases are still held", most, b.taken())
		}
	})
}

type counting struct {
	*fakeRunner
	count func(by int)
}

func (c counting) Execute(ctx context.Context, a *graph.Action, _ <-chan struct{}) Result {
	c.count(1)
	defer c.count(-1)
	return c.fakeRunner.Execute(ctx, a, nil)
}

func TestLeasesAreAskedWithMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := makeGraph([]string{"a"}, []string{"b", "a"}, []string{"c", "b"}, []string{"d"})
		fates := executing(4)
		fates[0].short, fates[0].takes, fates[3].checks, fates[3].takes = true, time.Minute, time.Second, 10*time.Minute
		fates[2] = fate{check: Cached}
		b := newBroker(t, 2)
		w := newFakeRunner(t, g, fates, Options{Jobs: 2, Broker: b, Estimates: estimates{memory: func(a *graph.Action) int64 { return 100 + int64(a.ID) }}})
		w.mustRun(t.Context(), 2, 3)
		// a is short of memory beside d, and runs once more when nothing else does, on the whole
		// machine
		if diff := cmp.Diff([]string{"a 100", "d 103", fmt.Sprint("a ", int64(all)), "b 101"}, b.asked); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.checkBroker()
	})
}

func TestCancelWhileWaitingForLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(2)
		srv := newServer(t, 1)
		w := newFakeRunner(t, g, executing(2), Options{Jobs: 2, Broker: newBroker(t, 0), Jobserver: srv})
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, func() { w.cancel(stop) })
		begin := time.Now()
		sum := w.mustRun(ctx, want...)
		if diff := cmp.Diff(Summary{Actions: 2, Skipped: 2, Interrupted: true}, sum); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
		if time.Since(begin) != time.Minute {
			t.Errorf("cancelled after a minute, over after %v", time.Since(begin))
		}
		w.checkServer(1)
	})
}

// A run that stops after a failure does not wait for a lease that it has no use for.
func TestFailureWhileWaitingForLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(2)
		fates := executing(2)
		fates[0].execute, fates[1].checks = Failed, time.Millisecond
		b := newBroker(t, 1)
		w := newFakeRunner(t, g, fates, Options{Jobs: 2, KeepGoing: 1, Broker: b})
		time.AfterFunc(500*time.Millisecond, b.keep)
		if sum := w.mustRun(t.Context(), want...); sum.Failed != 1 || sum.Skipped != 1 {
			t.Errorf("%+v", sum)
		}
		w.checkBroker()
	})
}

func TestBrokerBreaks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(4)
		b := newBroker(t, 0)
		b.err = errors.New("the broker is gone")
		w := newFakeRunner(t, g, executing(4), Options{Jobs: 2, Broker: b})
		if sum := w.mustRun(t.Context(), want...); sum.Ran != 4 || w.peak != 2 {
			t.Errorf("%+v, %d at once", sum, w.peak)
		}
	})
}

// A run that waits for a lease holds make's token, and one that has a lease waits for nothing: so
// two that take them in one order do not wait for each other.
func TestTokenBeforeLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, srv := newBroker(t, 1), newServer(t, 1)
		<-b.pool
		g, want := independent(2)
		w := newFakeRunner(t, g, executing(2), Options{Jobs: 2, Broker: b, Jobserver: srv})
		srv.pool <- <-srv.pool
		done := make(chan Summary)
		go func() { done <- w.mustRun(t.Context(), want...) }()
		pause(t.Context(), time.Minute)
		if len(b.asked) != 1 || srv.taken() != 0 { // the first has make's free slot
			t.Errorf("asked for %q, %d tokens held", b.asked, srv.taken())
		}
		b.pool <- struct{}{}
		b.keep()
		pause(t.Context(), 500*time.Millisecond)
		if srv.taken() != 1 {
			t.Errorf("%d tokens are held by a process and one that waits for its lease, want 1", srv.taken())
		}
		if sum := <-done; sum.Ran != 2 || w.peak != 1 {
			t.Errorf("%+v, %d at once", sum, w.peak)
		}
		w.checkServer(1)
		w.checkBroker()
	})
}

// A slot for an action that runs elsewhere is not waited for any more when there is better use for
// it.
func TestLeaseForRaceIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := makeGraph([]string{"away"}, []string{"needed"}, []string{"here", "needed"})
		b := newBroker(t, 1)
		<-b.pool // another run has it, for half a minute
		time.AfterFunc(30*time.Second, func() { b.pool <- struct{}{} })
		fates := executing(3)
		fates[0].takes = time.Hour
		cost := func(a *graph.Action) time.Duration { return time.Hour >> (10 * a.ID) }
		m := &machines{fakeRunner: newFakeRunner(t, g, fates, Options{Jobs: 1, Elsewhere: 2, Broker: b, Estimates: estimates{cost: cost}}), won: map[bool]int{}, out: map[graph.ActionID]<-chan struct{}{},
			away: []fateAway{{portable: true, takes: time.Hour}, {portable: true, takes: time.Second}, {}}}
		begin := time.Now()
		if _, err := Run(t.Context(), g, []graph.ActionID{0, 2}, m.with(), m, m); err != nil {
			t.Fatal(err)
		}
		if d := m.stopped[2].Sub(begin); d != 31*time.Second {
			t.Errorf("asked for %q; what can only run here has ended after %v, want 31s", b.asked, d)
		}
		m.checkBroker()
	})
}
