package sched

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph"
)

// executing are fates that all run, each for a second.
func executing(n int) []fate {
	fates := make([]fate, n)
	for i := range fates {
		fates[i] = fate{execute: Ran, takes: time.Second}
	}
	return fates
}

// independent makes n actions that need nothing, and wants them all.
func independent(n int) (g *graph.Graph, want []graph.ActionID) {
	g = &graph.Graph{}
	for i := range n {
		want = append(want, g.Add(&graph.Action{Name: fmt.Sprint("n", i), Outputs: []string{fmt.Sprint("o", i)}}).ID)
	}
	return sealed(g), want
}

func (w *fakeRunner) mustRun(ctx context.Context, want ...graph.ActionID) Summary {
	w.t.Helper()
	sum, err := Run(ctx, w.g, want, w.opts, w, w)
	if err != nil {
		w.t.Fatal(err)
	}
	return sum
}

func TestNothingWanted(t *testing.T) {
	g, _ := independent(3)
	w := newFakeRunner(t, g, executing(3), Options{})
	if sum := w.mustRun(t.Context()); sum != (Summary{}) {
		t.Errorf("summary %+v, want all zero", sum)
	}
}

func TestCriticalPathFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := makeGraph([]string{"holder"}, []string{"b short"}, []string{"c wide"}, []string{"d long"}, []string{"e short"},
			[]string{"f after d", "d long"}, []string{"g after f", "f after d"}, []string{"h after b", "b short"})
		cost := []time.Duration{9, 1, 4, 2, 2, 2, 1, 1} // on the path to an end: 9, 2, 4, 5, 2, 3, 1, 1
		fates := executing(8)
		fates[0].takes = time.Hour
		for i := 1; i <= 4; i++ { // they are all queued when the holder ends
			fates[i].checks = time.Minute
		}
		for i := 5; i <= 7; i++ {
			fates[i] = fate{check: UpToDate}
		}
		w := newFakeRunner(t, g, fates, Options{Jobs: 1, Estimates: estimates{cost: func(a *graph.Action) time.Duration { return cost[a.ID] }}})
		w.mustRun(t.Context(), 0, 1, 2, 4, 6, 7)
		if diff := cmp.Diff([]graph.ActionID{0, 3, 2, 1, 4}, w.order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestPriorities(t *testing.T) {
	g := makeGraph([]string{"a"}, []string{"b", "a"}, []string{"c", "a"}, []string{"d", "b", "c"}, []string{"e"})
	cost := []time.Duration{1, 10, 3, 5, 7}
	c, err := newCore(g, []graph.ActionID{3, 4}, Options{Estimates: estimates{cost: func(a *graph.Action) time.Duration { return cost[a.ID] }}})
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, n := range c.nodes {
		got = append(got, n.priority)
	}
	if diff := cmp.Diff([]int64{16, 15, 8, 5, 7}, got); diff != "" {
		t.Errorf("priorities (-want +got):\n%s", diff)
	}
}

func TestIllegalTransition(t *testing.T) {
	g, want := independent(1)
	c, err := newCore(g, want, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.set(0, waiting)
	defer func() {
		if v := fmt.Sprint(recover()); v != "BUG: action 0 (n0) goes from ready to running" {
			t.Errorf("panic %q", v)
		}
	}()
	c.set(0, running)
}

func TestUnknownAction(t *testing.T) {
	g := makeGraph([]string{"a"})
	for _, id := range []graph.ActionID{1, -1} {
		w := newFakeRunner(t, g, executing(1), Options{})
		if _, err := Run(t.Context(), g, []graph.ActionID{id}, Options{}, w, w); err == nil || err.Error() != fmt.Sprint("there is no action ", id) {
			t.Errorf("action %d: error %v", id, err)
		}
	}
}

func TestReasonOfSkipped(t *testing.T) {
	g := makeGraph([]string{"a"}, []string{"b", "a"}, []string{"c", "b"})
	fates := make([]fate, 3)
	fates[0].execute = Failed
	r := &reasons{fakeRunner: newFakeRunner(t, g, fates, Options{})}
	if _, err := Run(t.Context(), g, []graph.ActionID{2}, Options{}, r, r); err != nil {
		t.Fatal(err)
	}
	const why = "it needs a, which failed"
	if diff := cmp.Diff([]string{"", why, why}, r.list); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

type reasons struct {
	*fakeRunner
	list []string
}

func (r *reasons) Finished(a *graph.Action, res Result, done, total int) {
	r.list = append(r.list, res.Reason)
	r.fakeRunner.Finished(a, res, done, total)
}

func TestChecksNeedNoSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(4)
		fates := executing(4)
		fates[0].takes = time.Hour // holds the only slot
		for i := range fates[1:] {
			fates[1+i] = fate{check: UpToDate, checks: time.Minute}
		}
		w := newFakeRunner(t, g, fates, Options{Jobs: 1})
		go Run(t.Context(), g, want, w.opts, w, w)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		w.mu.Lock()
		if len(w.ended) != 3 {
			t.Errorf("%d actions are settled while the slot is taken, want 3", len(w.ended))
		}
		w.mu.Unlock()
		time.Sleep(time.Hour)
	})
}

// Checks that wait for another machine go on beside each other, as many as are asked for.
func TestChecksAtOnce(t *testing.T) {
	for checks, want := range map[int]int{0: max(4, runtime.GOMAXPROCS(0)), 1: 1, 64: 64, 1000: 200} {
		bubble(t, func(t *testing.T) {
			g, all := independent(200)
			fates := make([]fate, 200)
			for i := range fates {
				fates[i] = fate{check: Cached, checks: time.Minute}
			}
			w := newFakeRunner(t, g, fates, Options{Jobs: 1, Checks: checks})
			ended := make(chan Summary)
			go func() { sum, _ := Run(t.Context(), g, all, w.opts, w, w); ended <- sum }()
			synctest.Wait()
			w.mu.Lock()
			if len(w.checked) != want {
				t.Errorf("%d checks: %d at once, want %d", checks, len(w.checked), want)
			}
			w.mu.Unlock()
			if sum := <-ended; sum.Cached != 200 {
				t.Errorf("%+v", sum)
			}
		})
	}
}

func TestPanicOfRunnerStopsTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(3)
		fates := executing(3)
		for i := range fates {
			fates[i].takes = time.Hour
		}
		srv := newServer(t, 2)
		w := newFakeRunner(t, g, fates, Options{Jobs: 3, Jobserver: srv})
		begin := time.Now()
		defer func() {
			if v := fmt.Sprint(recover()); !strings.Contains(v, "BUG: a test panics") || !strings.Contains(v, "panicking.Execute") {
				t.Errorf("panic %q, want the runner's with its stack", v)
			}
			if time.Since(begin) != time.Minute {
				t.Errorf("over after %v, want at once after the panic", time.Since(begin))
			}
			w.checkServer(2)
		}()
		Run(t.Context(), g, want, w.opts, panicking{w}, w)
	})
}

type panicking struct{ *fakeRunner }

func (p panicking) Execute(ctx context.Context, a *graph.Action, _ <-chan struct{}) Result {
	if a.ID == 1 {
		time.Sleep(time.Minute)
		panic("BUG: a test panics")
	}
	return p.fakeRunner.Execute(ctx, a, nil)
}

func TestLoadLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begin := time.Now()
		busy := func() float64 { // others keep the machine busy for 90 s
			if time.Since(begin) < 90*time.Second {
				return 9
			}
			return 0
		}
		g, want := independent(7)
		fates := executing(7)
		for i := range fates {
			fates[i].takes = time.Minute
		}
		w := newFakeRunner(t, g, fates, Options{Jobs: 6, MaxLoad: 4, Load: busy})
		w.mustRun(t.Context(), want...)
		// One from 0 s to 60 s, one from 60 s. At 90 s three more join it; one follows at 120 s,
		// the last at 150 s.
		if w.peak != 4 || time.Since(begin) != 210*time.Second {
			t.Errorf("at most %d at once, over after %v, want 4 and 3m30s", w.peak, time.Since(begin))
		}
	})
}

func TestLoadLimitDoesNotDelayTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begin := time.Now()
		g, want := independent(2)
		fates := executing(2)
		fates[0].takes, fates[1].takes = 10*time.Millisecond, 10*time.Millisecond
		w := newFakeRunner(t, g, fates, Options{Jobs: 2, MaxLoad: 1, Load: func() float64 { return 5 }})
		w.mustRun(t.Context(), want...)
		if d := time.Since(begin); d != 20*time.Millisecond {
			t.Errorf("two actions of 10ms took %v", d)
		}
	})
}

func TestJobserverGivesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(5)
		w := newFakeRunner(t, g, executing(5), Options{Jobs: 5, Jobserver: newServer(t, 0)})
		if sum := w.mustRun(t.Context(), want...); sum.Ran != 5 || w.peak != 1 {
			t.Errorf("%+v, %d at once, want 5 ran one by one", sum, w.peak)
		}
	})
}

func TestJobserverBreaks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(5)
		srv := newServer(t, 3)
		srv.err = errServer
		w := newFakeRunner(t, g, executing(5), Options{Jobs: 5, Jobserver: srv})
		if sum := w.mustRun(t.Context(), want...); sum.Ran != 5 || w.peak != 1 {
			t.Errorf("%+v, %d at once, want 5 ran one by one", sum, w.peak)
		}
	})
}

// A request that was withdrawn because nothing was left to start is no broken jobserver.
func TestJobserverIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := makeGraph([]string{"a"}, []string{"b"}, []string{"c", "a", "b"}, []string{"d", "a", "b"})
		srv := newServer(t, 1)
		theirs := <-srv.pool
		time.AfterFunc(1500*time.Millisecond, func() { srv.pool <- theirs })
		w := newFakeRunner(t, g, executing(4), Options{Jobs: 4, Jobserver: srv})
		begin := time.Now()
		w.mustRun(t.Context(), 2, 3)
		// a and b one by one, then c and d together.
		if d := time.Since(begin); d != 3*time.Second || w.peak != 2 {
			t.Errorf("%d at once, over after %v, want 2 and 3s", w.peak, d)
		}
		w.checkServer(1)
	})
}

// A token is held exactly while its process runs: not by the long last action, which has the free
// slot or its own token, and not by a run that waits for a pool.
func TestTokensAreNotHoarded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(4)
		fates := executing(4)
		fates[0].takes = time.Hour
		for _, a := range g.Actions[1:] {
			a.Pool = "link"
		}
		srv := newServer(t, 3)
		w := newFakeRunner(t, g, fates, Options{Jobs: 4, Pools: map[string]int{"link": 1}, Jobserver: srv})
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(t.Context(), g, want, w.opts, w, w)
		}()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if n := srv.taken(); n != 1 {
			t.Errorf("%d tokens are held by two processes, want 1", n)
		}
		time.Sleep(10 * time.Second) // the three of the pool are over
		synctest.Wait()
		if n := srv.taken(); n > 1 {
			t.Errorf("%d tokens are held by one process", n)
		}
		<-done
		w.checkServer(3)
	})
}

func TestCancelWhileWaitingForToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(2)
		fates := executing(2)
		fates[0].takes, fates[1].takes = time.Hour, time.Hour
		w := newFakeRunner(t, g, fates, Options{Jobs: 2, Jobserver: newServer(t, 0)})
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
	})
}

func TestCancelledBefore(t *testing.T) {
	g, want := independent(3)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w := newFakeRunner(t, g, executing(3), Options{Jobs: 3})
	if diff := cmp.Diff(Summary{Actions: 3, Skipped: 3, Interrupted: true}, w.mustRun(ctx, want...)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if len(w.checked) != 0 {
		t.Errorf("%d actions were checked", len(w.checked))
	}
}

// What ends for want of memory beside others runs once more, when nothing else is left to run;
// alone it would end so again.
func TestShortOfMemory(t *testing.T) {
	for _, c := range []struct {
		name    string
		jobs    int
		crowded bool
		want    Status
	}{
		{"beside another", 2, false, Ran},
		{"alone as it was", 1, false, Failed},
		{"beside other runs", 1, true, Ran},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := makeGraph([]string{"big"}, []string{"other"}, []string{"third"}, []string{"user", "big"})
				takes := 10 * time.Millisecond
				fates := []fate{{execute: Ran, takes: takes, short: true}, {execute: Ran, takes: takes}, {execute: Ran, takes: takes}, {execute: Ran}}
				w := newFakeRunner(t, g, fates, Options{Jobs: c.jobs, SharedMachine: c.crowded, Estimates: estimates{cost: func(*graph.Action) time.Duration { return 1 }}})
				if _, err := Run(t.Context(), g, []graph.ActionID{0, 1, 2, 3}, w.opts, w, w); err != nil {
					t.Fatal(err)
				}
				if w.ended[0] != c.want || (w.ended[3] == Ran) != (c.want == Ran) {
					t.Errorf("ends as %v, want %v", w.ended, c.want)
				}
				if n := w.executed[0]; (n == 2) != (c.want == Ran) {
					t.Errorf("executed %d times", n)
				}
			})
		})
	}
}

// A compile that is taken apart says what is wrong with its source once: passes that have not begun
// are not tried.
func TestPassesOfFailedCommand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := makeGraph([]string{"fails"}, []string{"at work"}, []string{"follows", "at work"}, []string{"queued"}, []string{"checked"}, []string{"uses", "queued"},
			[]string{"another"}, []string{"fails too"}, []string{"last"})
		for _, id := range []int{0, 1, 2, 3, 4, 7} { // in a part of a stored plan no two share a Driver
			g.Actions[id].Work.Driver = &graph.Driver{Argv: []string{"nvcc", "a.cu"}}
		}
		g.Actions[6].Work.Driver = &graph.Driver{Argv: []string{"nvcc", "b.cu"}}
		fates := executing(9)
		fates[0].execute, fates[7].execute = Failed, Failed
		fates[1].takes, fates[7].takes = time.Minute, time.Minute
		fates[3].checks, fates[4].checks, fates[6].checks, fates[8].checks = time.Millisecond, time.Hour, time.Millisecond, time.Millisecond
		w := newFakeRunner(t, g, fates, Options{Jobs: 3, Checks: 9, KeepGoing: 2, Estimates: estimates{cost: func(a *graph.Action) time.Duration { return time.Duration(9 - a.ID%7) }}})
		sum := w.mustRun(t.Context(), 0, 1, 2, 3, 4, 5, 6, 7, 8)
		want := Summary{Actions: 9, Ran: 3, Failed: 2, Skipped: 4}
		if sum != want || w.ended[1] != Ran || w.ended[6] != Ran || w.ended[8] != Ran {
			t.Errorf("%+v, want %+v; ends %v", sum, want, w.ended)
		}
	})
}
