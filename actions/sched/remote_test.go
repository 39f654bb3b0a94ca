package sched

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph"
)

// machines are a world with other machines.
type machines struct {
	*fakeRunner
	away  []fateAway
	opens time.Time                          // when they are there
	out   map[graph.ActionID]<-chan struct{} // actions that are elsewhere; closed where they are here too
	most  int
	lost  int
	won   map[bool]int // races, by whether the other machine was first
}

// fateAway is what becomes of an action elsewhere.
type fateAway struct {
	portable bool
	takes    time.Duration
	lost     bool
}

// with returns the options with other machines.
func (m *machines) with() Options {
	m.opts.Remote = m
	return m.opts
}

func (m *machines) Executes() bool { return !time.Now().Before(m.opens) }

func (m *machines) Ready() <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(time.Until(m.opens), func() { close(c) })
	return c
}

func (m *machines) Check(ctx context.Context, a *graph.Action) (Result, bool) {
	res, done := m.fakeRunner.Check(ctx, a)
	res.Portable = m.away[a.ID].portable
	return res, done
}

func (m *machines) Execute(ctx context.Context, a *graph.Action, here <-chan struct{}) Result {
	if here == nil {
		return m.fakeRunner.Execute(ctx, a, nil)
	}
	f := m.away[a.ID]
	m.leave(a, here)
	timer := time.NewTimer(f.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		return m.back(a, f)
	case <-here:
	case <-ctx.Done():
		m.back(a, f)
		return Result{Status: Failed, Err: ctx.Err()}
	}
	m.mu.Lock()
	delete(m.out, a.ID)
	m.pools[a.Pool]--
	m.mu.Unlock()
	local, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan Result)
	go func() { ended <- m.fakeRunner.Execute(local, a, nil) }()
	select {
	case r := <-ended:
		m.note(false)
		return r
	case <-timer.C:
		if f.lost {
			return <-ended
		}
		cancel()
		<-ended
		m.note(true)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.good[a.ID] = m.fates[a.ID].execute == Ran
		return Result{Status: m.fates[a.ID].execute}
	}
}

func (m *machines) note(won bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.won[won]++
}

func (m *machines) leave(a *graph.Action, here <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out[a.ID] = here
	busy := 0
	for _, h := range m.out {
		select {
		case <-h:
		default:
			busy++
		}
	}
	m.most = max(m.most, busy)
	if busy > m.opts.Elsewhere {
		m.t.Errorf("%d actions are elsewhere, %d are allowed", busy, m.opts.Elsewhere)
	}
	m.pools[a.Pool]++
	if depth := m.opts.Pools[a.Pool]; depth > 0 && m.pools[a.Pool] > depth {
		m.t.Errorf("%d processes run in pool %s, %d are allowed", m.pools[a.Pool], a.Pool, depth)
	}
	if !m.checked[a.ID] || !m.away[a.ID].portable {
		m.t.Errorf("%s is sent elsewhere unchecked, or may not be", a.Name)
	}
	m.away[a.ID].portable = false
}

// back is the end of an action that was elsewhere alone.
func (m *machines) back(a *graph.Action, f fateAway) Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.out, a.ID)
	m.pools[a.Pool]--
	if f.lost {
		m.lost++
		return Result{Status: Failed, Lost: true}
	}
	m.good[a.ID] = m.fates[a.ID].execute == Ran
	return Result{Status: m.fates[a.ID].execute}
}

func randomMachines(rng *rand.Rand, w *fakeRunner) *machines {
	m := &machines{fakeRunner: w, away: make([]fateAway, len(w.fates)), won: map[bool]int{}, out: map[graph.ActionID]<-chan struct{}{}}
	for i := range m.away {
		m.away[i] = fateAway{rng.IntN(6) > 0, time.Duration(rng.IntN(30)) * time.Millisecond, rng.IntN(4) == 0}
		w.fates[i].short = false
	}
	return m
}

// Whatever other machines do, every action ends as it would have here, no bound is passed, and no
// token is kept.
func TestRandomElsewhere(t *testing.T) {
	var most, lost int
	won := map[bool]int{}
	forEachSeed(t, func(t *testing.T, rng *rand.Rand) {
		g, opts := randomGraph(rng), randomOptions(t, rng)
		opts.Elsewhere = 1 + rng.IntN(8)
		if rng.IntN(2) == 0 {
			opts.Estimates = estimates{overdue: func(*graph.Action) time.Duration { return 5 * time.Millisecond }}
		}
		m := randomMachines(rng, newFakeRunner(t, g, randomFates(rng, len(g.Actions), 0.1*float64(rng.IntN(2))), opts))
		m.opens = time.Now().Add(time.Duration(rng.IntN(20)) * time.Millisecond)
		want := randomWant(rng, len(g.Actions))
		sum, err := Run(t.Context(), g, want, m.with(), m, m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.predict(want), m.ended); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(m.counts(), sum); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
		synctest.Wait()
		m.checkBroker()
		if m.srv != nil {
			m.checkServer(cap(m.srv.pool))
		}
		most, lost = max(most, m.most), lost+m.lost
		won[true], won[false] = won[true]+m.won[true], won[false]+m.won[false]
	})
	if most > 0 && (most < 4 || lost < 40 || won[true] < 50 || won[false] < 50) { // 0 where there is no bubble
		t.Errorf("up to %d at once, %d lost, races %v: the test tests too little", most, lost, won)
	}
}

// A run that is stopped while actions are elsewhere ends.
func TestStoppedElsewhere(t *testing.T) {
	forEachSeed(t, func(t *testing.T, rng *rand.Rand) {
		g, opts := randomGraph(rng), randomOptions(t, rng)
		opts.Elsewhere = 4
		m := randomMachines(rng, newFakeRunner(t, g, randomFates(rng, len(g.Actions), 0), opts))
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(rng.IntN(40))*time.Millisecond, func() { m.cancel(stop) })
		want := randomWant(rng, len(g.Actions))
		if _, err := Run(ctx, g, want, m.with(), m, m); err != nil {
			t.Fatal(err)
		}
		if len(m.ended) != len(g.Closure(want)) {
			t.Errorf("%d of %d actions end", len(m.ended), len(g.Closure(want)))
		}
		m.checkBroker()
		if m.srv != nil {
			m.checkServer(cap(m.srv.pool))
		}
	})
}

// elsewhere runs a graph of actions that take 10 ms here, with one slot, and gives the time.
func timeRemote(t *testing.T, g *graph.Graph, away []fateAway, overdue func(*graph.Action) time.Duration) (took time.Duration, m *machines) {
	fates := make([]fate, len(g.Actions))
	for i := range fates {
		fates[i] = fate{execute: Ran, takes: 10 * time.Millisecond}
	}
	m = &machines{fakeRunner: newFakeRunner(t, g, fates, Options{Jobs: 1, Elsewhere: 100, Estimates: estimates{overdue: overdue}}), away: away, won: map[bool]int{}, out: map[graph.ActionID]<-chan struct{}{}}
	begun := time.Now()
	want := make([]graph.ActionID, len(g.Actions))
	for i := range want {
		want[i] = graph.ActionID(i)
	}
	if sum, err := Run(t.Context(), g, want, m.with(), m, m); err != nil || sum.Ran != len(want) {
		t.Fatalf("%+v, %v", sum, err)
	}
	return time.Since(begun), m
}

// What finds no slot here goes elsewhere at once; one slot that nothing else wants takes part.
func TestOverflow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := makeGraph([]string{"a"}, []string{"b"}, []string{"c"}, []string{"d"})
		fast := fateAway{true, 15 * time.Millisecond, false}
		took, m := timeRemote(t, g, []fateAway{fast, fast, fast, fast}, nil)
		if took != 15*time.Millisecond || m.most != 3 || m.won[true] != 1 {
			t.Errorf("it took %v, with %d elsewhere, races %v", took, m.most, m.won)
		}
	})
}

// Machines that never answer take nothing of the time that the actions take here.
func TestDeadElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := makeGraph([]string{"a"}, []string{"b"}, []string{"c"}, []string{"d", "c"})
		dead := fateAway{true, time.Hour, false}
		if took, m := timeRemote(t, g, []fateAway{dead, dead, dead, dead}, nil); took != 40*time.Millisecond || m.won[false] != 2 { // a was here from the beginning, and d, when it was alone
			t.Errorf("it took %v, races %v", took, m.won)
		}
	})
}

// An action that is overdue has a slot here before one that matters less.
func TestOverdue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lines := [][]string{{"first"}, {"second"}, {"end", "second"}, {"end2", "end"}, {"end3", "end2"}, {"first2", "first"}, {"first3", "first2"}, {"first4", "first3"}}
		for range 20 {
			lines = append(lines, []string{"other" + string(rune('a'+len(lines)))})
		}
		g := makeGraph(lines...)
		away := make([]fateAway, len(lines))
		away[1] = fateAway{true, time.Hour, false} // while all others run here
		took, m := timeRemote(t, g, away, func(*graph.Action) time.Duration { return 15 * time.Millisecond })
		if i := len(m.order); took != time.Duration(i)*10*time.Millisecond || m.won[false] != 1 {
			t.Errorf("%d actions took %v, races %v", i, took, m.won)
		}
		for i, id := range m.order {
			if name := g.Actions[id].Name; name == "end" && i > 6 {
				t.Errorf("what needs the action that is elsewhere starts as number %d", i)
			}
		}
	})
}

// What waits for a slot here goes elsewhere as soon as there is an elsewhere, though nothing else
// happens then.
func TestOpensLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := makeGraph([]string{"long"}, []string{"a"}, []string{"b"})
		m := &machines{fakeRunner: newFakeRunner(t, g, []fate{{execute: Ran, takes: time.Second}, {execute: Ran, takes: time.Second, checks: 1}, {execute: Ran, takes: time.Second, checks: 1}}, Options{Jobs: 1, Elsewhere: 9}),
			away: []fateAway{{}, {portable: true, takes: time.Millisecond}, {portable: true, takes: time.Millisecond}}, won: map[bool]int{}, out: map[graph.ActionID]<-chan struct{}{}, opens: time.Now().Add(100 * time.Millisecond)}
		begun := time.Now()
		if _, err := Run(t.Context(), g, []graph.ActionID{0, 1, 2}, m.with(), m, m); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != time.Second || m.most != 2 {
			t.Errorf("it took %v, with %d elsewhere", took, m.most)
		}
	})
}
