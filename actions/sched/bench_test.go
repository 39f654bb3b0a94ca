package sched

import (
	"context"
	"fmt"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

// settledRunner finds everything up to date.
type settledRunner struct{}

func (settledRunner) Check(context.Context, *graph.Action) (Result, bool) {
	return Result{Status: UpToDate}, true
}

func (settledRunner) Execute(context.Context, *graph.Action, <-chan struct{}) Result {
	panic("BUG: executed what was up to date")
}

// silent observes nothing.
type silent struct{}

func (silent) Start(int)                                {}
func (silent) Started(*graph.Action)                    {}
func (silent) Finished(*graph.Action, Result, int, int) {}

// BenchmarkSettled is the scheduler's part of a build in which nothing is to be done: 100,000
// actions in the shape of 100 libraries of 999 objects.
func BenchmarkSettled(b *testing.B) {
	g := &graph.Graph{}
	var want []graph.ActionID
	for lib := range 100 {
		link := &graph.Action{Name: "link", Outputs: []string{fmt.Sprintf("lib%d.a", lib)}}
		for src := range 999 {
			out := fmt.Sprintf("lib%d/%d.o", lib, src)
			g.Add(&graph.Action{Name: out, Inputs: []string{out + ".cu", "common.h"}, Outputs: []string{out}})
			link.Inputs = append(link.Inputs, out)
		}
		want = append(want, g.Add(link).ID)
	}
	if err := g.Seal(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		sum, err := Run(b.Context(), g, want, Options{Jobs: 2}, settledRunner{}, silent{})
		if err != nil || sum.UpToDate != len(g.Actions) {
			b.Fatalf("%+v, %v", sum, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(g.Actions)), "ns/action")
}

// BenchmarkScheduled is the scheduler's part of a build in which everything is to be done: LTO
// programs, on 64 workers, within a memory of which there is too little for all.
func BenchmarkScheduled(b *testing.B) {
	s := programs(100_000)
	for b.Loop() {
		s.simulation(b, Options{Jobs: 64, Estimates: estimates{cost: s.recorded}, Budget: 32 << 30}).run()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.takes)), "ns/action")
}
