package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// job is an action of a test of memory. The better come first.
type job struct {
	arrives int // when it is queued
	takes   int
	memory  int64
	pool    string
	starts  int // wanted
}

// checkStarts simulates jobs with a budget of 100 and a pool "one" of one place, and compares when
// they start.
func checkStarts(t *testing.T, jobs []job) {
	t.Helper()
	g := &graph.Graph{}
	of := map[graph.ActionID]job{}
	for i, j := range jobs { // what passes until a job arrives is an action that takes nothing else
		out := fmt.Sprint("arrival ", i)
		of[g.Add(&graph.Action{Name: out, Outputs: []string{out}}).ID] = job{takes: j.arrives}
	}
	for i, j := range jobs {
		name := fmt.Sprint("job ", i)
		of[g.Add(&graph.Action{Name: name, Outputs: []string{name}, Inputs: []string{fmt.Sprint("arrival ", i)}, Pool: j.pool}).ID] = j
	}
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	s := newSimulation(t, g, Options{Jobs: len(g.Actions), Budget: 100, Pools: map[string]int{"one": 1},
		Estimates: estimates{
			memory: func(a *graph.Action) int64 { return of[a.ID].memory },
			cost:   func(a *graph.Action) time.Duration { return time.Duration(len(g.Actions) - int(a.ID)) },
		},
	}, func(a *graph.Action) time.Duration { return time.Duration(of[a.ID].takes) })
	s.run()
	for i, j := range jobs {
		if at := int(s.starts[len(jobs)+i]); at != j.starts {
			t.Errorf("job %d of %d bytes starts at %d, want %d", i, j.memory, at, j.starts)
		}
	}
}

func TestMemoryBoundsWhatRuns(t *testing.T) {
	checkStarts(t, []job{
		{takes: 10, memory: 50, starts: 0},
		{takes: 20, memory: 50, starts: 0},
		{takes: 10, memory: 50, starts: 10},
		{takes: 10, memory: 60, starts: 20},
	})
}

// What needs more than there is runs, and nothing that needs memory beside it.
func TestMoreThanAllRunsAlone(t *testing.T) {
	checkStarts(t, []job{
		{takes: 10, memory: 150, starts: 0},
		{takes: 10, memory: 101, starts: 10},
		{takes: 10, memory: 1, starts: 20},
		{takes: 10, memory: 0, starts: 0}, // in process
		{takes: 10, memory: 99, starts: 20},
	})
}

// There are always small ones to take what is given back.
func TestLargeIsNotOvertakenForEver(t *testing.T) {
	checkStarts(t, []job{
		{arrives: 5, takes: 10, memory: 90, starts: 14},
		{takes: 10, memory: 30, starts: 0},
		{takes: 12, memory: 30, starts: 0},
		{takes: 14, memory: 30, starts: 0},
		{takes: 99, memory: 30, starts: 24}, // the large one leaves no room
		{takes: 99, memory: 30, starts: 24},
		{arrives: 6, takes: 99, memory: 6, starts: 6}, // beside it is some
		{arrives: 6, takes: 99, memory: 6, starts: 24},
		{arrives: 7, takes: 99, memory: 4, starts: 7},
	})
}

// What has passed and ended makes room for others to pass.
func TestPassersEnd(t *testing.T) {
	checkStarts(t, []job{
		{arrives: 5, takes: 10, memory: 80, starts: 90},
		{takes: 90, memory: 60, starts: 0},
		{arrives: 6, takes: 10, memory: 20, starts: 6},
		{arrives: 7, takes: 10, memory: 20, starts: 16},
		{arrives: 8, takes: 10, memory: 20, starts: 26},
	})
}

// What passed the first hold does not count for the second, which begins while it runs.
func TestHoldAfterHold(t *testing.T) {
	checkStarts(t, []job{
		{arrives: 5, takes: 10, memory: 60, starts: 10},
		{takes: 10, memory: 60, starts: 0},
		{arrives: 6, takes: 40, memory: 30, starts: 6}, // passes job 0
		{arrives: 6, takes: 90, memory: 10, starts: 6}, // too
		{arrives: 15, takes: 10, memory: 80, starts: 86},
		{arrives: 17, takes: 66, memory: 20, starts: 20}, // passes job 4
		{arrives: 25, takes: 10, memory: 20, starts: 96},
	})
}

// A better one that comes later starts if it fits, and takes over the hold if it does not.
func TestBetterOnesComeFirst(t *testing.T) {
	checkStarts(t, []job{
		{arrives: 3, takes: 10, memory: 75, starts: 11},
		{arrives: 2, takes: 9, memory: 20, starts: 2},
		{arrives: 4, takes: 20, memory: 15, starts: 4}, // passes job 0
		{arrives: 5, takes: 10, memory: 5, starts: 5},  // too
		{arrives: 6, takes: 10, memory: 20, starts: 21},
		{arrives: 1, takes: 10, memory: 90, starts: 31},
		{takes: 10, memory: 60, starts: 0},
	})
}

// One that memory is held for keeps its place in the pool as well.
func TestHoldKeepsThePlaceInThePool(t *testing.T) {
	checkStarts(t, []job{
		{arrives: 5, takes: 10, memory: 60, pool: "one", starts: 10},
		{takes: 10, memory: 50, starts: 0},
		{arrives: 6, takes: 90, memory: 1, pool: "one", starts: 20},
		{arrives: 7, takes: 10, memory: 1, starts: 7},
	})
}

// No memory is held for what waits for a place in a pool.
func TestFullPoolHoldsNoMemory(t *testing.T) {
	checkStarts(t, []job{
		{takes: 50, memory: 10, pool: "one", starts: 0},
		{takes: 10, memory: 90, pool: "one", starts: 50},
		{takes: 10, memory: 50, starts: 0},
		{takes: 10, memory: 40, starts: 0},
	})
}

// Without a budget, or without expectations, memory bounds nothing.
func TestNoLimit(t *testing.T) {
	for _, opts := range []Options{{Jobs: 5, Estimates: estimates{memory: func(*graph.Action) int64 { return 1 << 62 }}}, {Jobs: 5, Budget: 1}} {
		bubble(t, func(t *testing.T) {
			g, want := independent(5)
			w := newFakeRunner(t, g, executing(5), opts)
			if sum := w.mustRun(t.Context(), want...); sum.Ran != 5 || w.peak != 5 {
				t.Errorf("budget %d: %+v, %d at once, want 5", opts.Budget, sum, w.peak)
			}
		})
	}
}

// No machine has what is expected here; it runs all the same.
func TestEnormousNeeds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, want := independent(5)
		w := newFakeRunner(t, g, executing(5), Options{Jobs: 5, Budget: 1 << 62, Estimates: estimates{memory: func(*graph.Action) int64 { return 1<<63 - 1 }}})
		if sum := w.mustRun(t.Context(), want...); sum.Ran != 5 || w.peak != 1 {
			t.Errorf("%+v, %d at once, want 5 ran one by one", sum, w.peak)
		}
	})
}
