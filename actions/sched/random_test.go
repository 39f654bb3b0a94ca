package sched

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph"
)

const seeds = 400

func randomOptions(t *testing.T, rng *rand.Rand) Options {
	o := Options{Jobs: 1 + rng.IntN(6), Pools: map[string]int{"link": 1 + rng.IntN(2), "big": rng.IntN(2)}}
	if rng.IntN(2) == 0 {
		o.Jobserver = newServer(t, rng.IntN(4))
	}
	if o.Jobs%2 == 0 {
		o.Broker = newBroker(t, 1+o.Jobs/3)
	}
	if rng.IntN(4) == 0 {
		o.MaxLoad = 1 + 3*rng.Float64()
		o.Load = func() float64 { return float64(time.Now().UnixMilli() % 5) }
	}
	if rng.IntN(2) == 0 {
		o.Budget = 1 + rng.Int64N(100)
		seed := rng.Uint64()
		o.Estimates = estimates{memory: func(a *graph.Action) int64 { return int64((seed ^ uint64(a.ID)) * 0x9e3779b97f4a7c15 >> 56 % 70) }}
	}
	return o
}

// forEachSeed runs f in a bubble for many seeds; the name of a failing subtest is the seed.
func forEachSeed(t *testing.T, f func(t *testing.T, rng *rand.Rand)) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// sibling is another client of the jobserver, which takes and gives tokens as it likes.
func sibling(ctx context.Context, s *fakeServer, seed uint64, unit time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for {
		select {
		case b := <-s.pool:
			pause(ctx, time.Duration(rng.IntN(10))*unit)
			s.pool <- b
		case <-ctx.Done():
			return
		}
		if pause(ctx, time.Duration(rng.IntN(10))*unit) != nil {
			return
		}
	}
}

func (w *fakeRunner) checkServer(capacity int) {
	if w.srv != nil && (w.srv.taken() != 0 || len(w.srv.pool) != capacity) {
		w.t.Errorf("%d tokens are still held and %d of %d are in the pool", w.srv.taken(), len(w.srv.pool), capacity)
	}
}

func TestRandomGraphs(t *testing.T) {
	forEachSeed(t, func(t *testing.T, rng *rand.Rand) {
		g := randomGraph(rng)
		opts := randomOptions(t, rng)
		w := newFakeRunner(t, g, randomFates(rng, len(g.Actions), 0.1*float64(rng.IntN(2))), opts)
		ctx, stop := context.WithCancel(t.Context())
		if w.srv != nil {
			go sibling(ctx, w.srv, rng.Uint64(), time.Millisecond)
		}
		want := randomWant(rng, len(g.Actions))
		sum, err := Run(t.Context(), g, want, opts, w, w)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.predict(want), w.ended); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(w.counts(), sum); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
		stop()
		synctest.Wait()
		w.checkBroker()
		if w.srv != nil {
			w.checkServer(cap(w.srv.pool))
		}
	})
}

// TestRandomInRealTime has the goroutines really race, with actions of some microseconds, and stops
// half of the runs.
func TestRandomInRealTime(t *testing.T) {
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		g := randomGraph(rng)
		opts := randomOptions(t, rng)
		opts.MaxLoad = 0 // waits for seconds
		fates := randomFates(rng, len(g.Actions), 0.05)
		for i := range fates {
			fates[i].checks /= 1000
			fates[i].takes /= 1000
			fates[i].short = false // whether two were at work at once is not known to the microsecond
		}
		w := newFakeRunner(t, g, fates, opts)
		ctx, stop := context.WithCancel(t.Context())
		var siblings sync.WaitGroup
		if w.srv != nil {
			siblings.Go(func() { sibling(ctx, w.srv, seed, time.Microsecond) })
		}
		runCtx, cancel := context.WithCancel(t.Context())
		if rng.IntN(2) == 0 {
			time.AfterFunc(time.Duration(rng.IntN(500))*time.Microsecond, cancel)
		}
		want := randomWant(rng, len(g.Actions))
		sum, err := Run(runCtx, g, want, opts, w, w)
		if err != nil {
			t.Fatal(err)
		}
		predicted := w.predict(want)
		for id, status := range w.ended {
			if status != predicted[id] && (status != Skipped || !sum.Interrupted) {
				t.Errorf("seed %d: %s ends as %s, want %s", seed, g.Actions[id].Name, status, predicted[id])
			}
		}
		if len(w.ended) != len(predicted) {
			t.Errorf("seed %d: %d actions end, want %d", seed, len(w.ended), len(predicted))
		}
		cancel()
		stop()
		siblings.Wait()
		w.checkBroker()
		if w.srv != nil {
			w.checkServer(cap(w.srv.pool))
		}
	}
}

func TestRandomFailureLimit(t *testing.T) {
	forEachSeed(t, func(t *testing.T, rng *rand.Rand) {
		g := randomGraph(rng)
		opts := randomOptions(t, rng)
		opts.KeepGoing = 1 + rng.IntN(3)
		w := newFakeRunner(t, g, randomFates(rng, len(g.Actions), 0.25), opts)
		want := randomWant(rng, len(g.Actions))
		sum, err := Run(t.Context(), g, want, opts, w, w)
		if err != nil {
			t.Fatal(err)
		}
		predicted := w.predict(want)
		for id, status := range w.ended {
			gaveUp := w.fates[id].short && status == Failed // nothing starts after the last failure, not even again
			if status != predicted[id] && status != Skipped && !gaveUp {
				t.Errorf("%s ends as %s, want %s", g.Actions[id].Name, status, predicted[id])
			}
			if status == Skipped && predicted[id] != Skipped && w.failures < opts.KeepGoing {
				t.Errorf("%s is skipped after %d failures, %d are allowed", g.Actions[id].Name, w.failures, opts.KeepGoing-1)
			}
		}
		if diff := cmp.Diff(w.counts(), sum); diff != "" || sum.Actions != len(predicted) {
			t.Errorf("summary of %d actions (-want +got):\n%s", len(predicted), diff)
		}
		w.checkBroker()
		if w.srv != nil {
			w.checkServer(cap(w.srv.pool))
		}
	})
}

func TestRandomCancellation(t *testing.T) {
	forEachSeed(t, func(t *testing.T, rng *rand.Rand) {
		g := randomGraph(rng)
		opts := randomOptions(t, rng)
		w := newFakeRunner(t, g, randomFates(rng, len(g.Actions), 0.05), opts)
		ctx, stop := context.WithCancel(t.Context())
		after := time.Duration(rng.IntN(60)) * time.Millisecond
		time.AfterFunc(after, func() { w.cancel(stop) })
		want := randomWant(rng, len(g.Actions))
		begin := time.Now()
		sum, err := Run(ctx, g, want, opts, w, w)
		if err != nil {
			t.Fatal(err)
		}
		if sum.Interrupted && time.Since(begin) > after {
			t.Errorf("cancelled after %v, over after %v", after, time.Since(begin))
		}
		predicted := w.predict(want)
		for id, status := range w.ended {
			if status != predicted[id] && (status != Skipped || !sum.Interrupted) {
				t.Errorf("%s ends as %s, want %s or skipped", g.Actions[id].Name, status, predicted[id])
			}
		}
		counts := w.counts()
		counts.Interrupted = ctx.Err() != nil && sum.Interrupted
		if diff := cmp.Diff(counts, sum); diff != "" || sum.Actions != len(predicted) {
			t.Errorf("summary of %d actions (-want +got):\n%s", len(predicted), diff)
		}
		w.checkBroker()
		if w.srv != nil {
			w.checkServer(cap(w.srv.pool))
		}
		stop()
	})
}
