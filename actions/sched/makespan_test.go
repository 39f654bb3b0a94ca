package sched

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

var (
	schedules = flag.Int("schedules", 0, "simulate graphs of so many actions and print tables, for example 100000")
	graphFile = flag.String("graph", "", "with -schedules: a project's graph as well, from kbuild graph --format json")
	graphTree = flag.String("tree", "", "the database of its build tree, tree.db")
)

// TestSchedules prints how long builds take beside what no scheduler can beat.
func TestSchedules(t *testing.T) {
	if *schedules == 0 {
		t.Skip("without -schedules")
	}
	shapes := []*shape{libraries(*schedules), programs(*schedules), layered(*schedules)}
	if *graphFile != "" {
		shapes = append(shapes, recordedShape(t, *graphFile, *graphTree))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	defer w.Flush()
	for _, s := range shapes {
		fmt.Fprintf(w, "\n%s, %d actions\n\n| workers | bound |\t recorded |\t blurred |\t unknown |\t in order |\n", s.name, len(s.takes))
		for _, n := range []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1000} {
			bound := s.bound(n, 0)
			fmt.Fprintf(w, "| %d |\t %v ", n, bound.Round(time.Second))
			for _, cost := range []func(*graph.Action) time.Duration{s.recorded, s.blurred(), nil, inOrder} {
				sim := s.simulation(t, Options{Jobs: n, Estimates: estimates{cost: cost}})
				fmt.Fprintf(w, "|\t %.3f ", float64(sim.run())/float64(bound))
			}
			fmt.Fprintln(w, "|")
		}
	}
	s := shapes[1]
	fmt.Fprintf(w, "\n%s within a budget\n\n| workers, GiB |\t bound |\t hold |\t all pass |\t none passes |\n", s.name)
	for _, n := range []int{8, 16, 64, 256} {
		for _, gib := range []int64{4, 8, 16, 32, 64} {
			bound := s.bound(n, gib<<30)
			fmt.Fprintf(w, "| %d, %d |\t %v ", n, gib, bound.Round(time.Second))
			for _, others := range []func(*simulation){nil, allPass, nonePasses} {
				sim := s.simulation(t, Options{Jobs: n, Estimates: estimates{cost: s.recorded}, Budget: gib << 30})
				if others != nil {
					others(sim)
				}
				fmt.Fprintf(w, "|\t %.3f ", float64(sim.run())/float64(bound))
			}
			fmt.Fprintln(w, "|")
		}
	}
}

// allPass starts the best that fits, whoever waits.
func allPass(s *simulation) {
	s.next = func() (int32, bool) { return s.placed(0, s.room()) }
}

// nonePasses starts the best or nobody.
func nonePasses(s *simulation) {
	s.next = func() (int32, bool) {
		i, ok := s.placed(0, all)
		return i, ok && s.nodes[i].memory <= s.room()
	}
}

// No schedule that starts what it can is worse than this (Graham 1969); one that leaves a worker
// idle is.
func TestGraham(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := newShape("random")
		for i := range 1 + rng.IntN(300) {
			var in []string
			for range min(i, rng.IntN(4)) {
				in = append(in, fmt.Sprint("a", rng.IntN(i)))
			}
			s.add(graph.Generate, s.around(time.Second, 1), 0, fmt.Sprint("a", i), in...)
		}
		workers := 1 + rng.IntN(20)
		chain, work := s.bound(1<<30, 0), s.bound(1, 0)
		for _, cost := range []func(*graph.Action) time.Duration{s.recorded, nil, inOrder} {
			limit := work/time.Duration(workers) + chain*time.Duration(workers-1)/time.Duration(workers)
			if took := s.simulation(t, Options{Jobs: workers, Estimates: estimates{cost: cost}}).run(); took > limit+time.Microsecond {
				t.Errorf("seed %d: %v with %d workers, want %v at most", seed, took, workers, limit)
			}
		}
	}
}

// With the times known, builds take what they must.
func TestRecordedTimes(t *testing.T) {
	for _, s := range []*shape{libraries(2000), programs(20_000), layered(2000)} {
		for _, n := range []int{2, 8, 32} {
			bound := s.bound(n, 0)
			if took := s.simulation(t, Options{Jobs: n, Estimates: estimates{cost: s.blurred()}}).run(); float64(took) > 1.02*float64(bound) {
				t.Errorf("%s, %d workers: %v, which is %.3f of what it must take", s.name, n, took, float64(took)/float64(bound))
			}
		}
	}
}

// What starts is the best that may: the best queued, or, if memory lacks for it, the best of the
// others that can run beside it.
func TestMemoryIsUsed(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 6))
		s := layered(1 + rng.IntN(400))
		for i := range s.memory {
			s.memory[i] = max(0, rng.Int64N(120)-10)
		}
		r := &referee{simulation: s.simulation(t, Options{Jobs: 1 + rng.IntN(20), Estimates: estimates{cost: s.recorded}, Budget: 100}), held: nobody}
		r.simulation.next = r.next
		r.run()
	}
}

// referee looks at every action to say which one may start.
type referee struct {
	*simulation
	held  int32          // the best queued, when it did not fit
	since map[int32]bool // what started since
}

func (r *referee) next() (int32, bool) {
	var sum, since int64
	for _, e := range r.ends {
		sum += r.nodes[e.node].memory
		if r.since[e.node] {
			since += r.nodes[e.node].memory
		}
	}
	best, pick := int32(nobody), int32(nobody)
	for _, i := range r.byRank {
		if r.nodes[i].state != queued || pick != nobody {
			continue
		}
		need := r.nodes[i].memory
		switch fits := sum == 0 || need == 0 || sum+need <= r.budget; {
		case best == nobody && fits:
			best, pick = i, i
		case best == nobody:
			if best = i; r.held != i {
				r.held, r.since, since = i, map[int32]bool{}, 0
			}
		case fits && (need == 0 || since+need+r.nodes[best].memory <= r.budget):
			pick = i
		}
	}
	i, ok := r.core.next()
	if ok != (pick != nobody) || ok && i != pick {
		r.t.Fatalf("%d bytes run, %d of them since memory is held for %d: %d starts, %v, want %d", sum, since, r.held, i, ok, pick)
	}
	if ok && r.since != nil {
		r.since[i] = true
	}
	return i, ok
}
