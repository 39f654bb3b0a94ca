package sched

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// A shape is a graph with the time and the memory that each action takes. Those of the shapes that
// are made here are drawn, with a fixed seed, around what was measured with nvcc 11.8.
type shape struct {
	name   string
	graph  *graph.Graph
	takes  []time.Duration
	memory []int64
	rng    *rand.Rand
}

func newShape(name string) *shape {
	return &shape{name: name, graph: &graph.Graph{}, rng: rand.New(rand.NewPCG(1, 2))}
}

// around draws from a log-normal distribution: within a factor of e^spread in two of three cases.
func (s *shape) around(median time.Duration, spread float64) time.Duration {
	return time.Duration(float64(median) * math.Exp(spread*s.rng.NormFloat64()))
}

// add makes an action with one output, its name.
func (s *shape) add(kind graph.Kind, takes time.Duration, mib int64, out string, in ...string) string {
	s.graph.Add(&graph.Action{Kind: kind, Name: out, Outputs: []string{out}, Inputs: in})
	s.takes, s.memory = append(s.takes, takes), append(s.memory, mib<<20)
	return out
}

// libraries are compiles of a source each and an archive for each hundred of them, as kbench -trees
// makes.
func libraries(compiles int) *shape {
	s := newShape("libraries")
	for from := 0; from < compiles; from += 100 {
		var objects []string
		for i := from; i < min(compiles, from+100); i++ {
			objects = append(objects, s.add(graph.Compile, s.around(4800*time.Millisecond, 0.6), 400, fmt.Sprint(i, ".o")))
		}
		s.add(graph.Archive, 50*time.Millisecond, 20, fmt.Sprint(from, ".a"), objects...)
	}
	return s
}

// programs are LTO programs of very different sizes for three architectures, taken apart into
// passes: 14 actions a source, and a device link for each program and architecture, which grows
// with the program.
func programs(actions int) *shape {
	s := newShape("LTO programs")
	for n := 0; len(s.graph.Actions) < actions; n++ {
		s.program(n, 1+min(400, int(s.around(60, 1.2))))
	}
	return s
}

var archs = []string{"sm_80", "sm_86", "sm_90"}

func (s *shape) program(n, sources int) {
	slices, objects := map[string][]string{}, []string{}
	for i := range sources {
		o := s.source(fmt.Sprintf("p%d/s%d", n, i))
		objects = append(objects, o)
		for _, arch := range archs {
			slices[arch] = append(slices[arch], s.add(graph.Slice, time.Millisecond, 0, o+"."+arch, o))
		}
	}
	perSource := s.around(300*time.Millisecond, 0.7) // 0.12 s to 0.7 s were measured
	var linked []string
	for _, arch := range archs {
		takes := s.around(perSource*time.Duration(sources), 0.1)
		linked = append(linked, s.add(graph.NVLink, takes, int64(100+15*sources), fmt.Sprintf("p%d.%s", n, arch), slices[arch]...))
	}
	fatbin := s.add(graph.Fatbinary, 10*time.Millisecond, 70, fmt.Sprintf("p%d.fatbin", n), linked...)
	stub := s.add(graph.HostPart, 500*time.Millisecond, 70, fmt.Sprintf("p%d.stub", n), fatbin)
	s.add(graph.HostLink, 100*time.Millisecond, 75, fmt.Sprintf("p%d", n), append(objects, stub)...)
}

// source is what nvcc does for one source, which is large or small in all passes.
func (s *shape) source(name string) (object string) {
	size := math.Exp(0.8 * s.rng.NormFloat64())
	pass := func(kind graph.Kind, median time.Duration, mib int64, out string, in ...string) string {
		return s.add(kind, s.around(time.Duration(size*float64(median)), 0.2), mib, name+out, in...)
	}
	var ir []string
	for _, arch := range archs {
		text := pass(graph.Preprocess, 80*time.Millisecond, 70, "."+arch+".ii", name+".cu")
		ir = append(ir, pass(graph.CICC, 350*time.Millisecond, int64(120+60*size), "."+arch+".ltoir", text))
	}
	text := pass(graph.Preprocess, 80*time.Millisecond, 70, ".ii", name+".cu")
	host := pass(graph.Cudafe, 400*time.Millisecond, int64(200+50*size), ".cudafe", text)
	fatbin := pass(graph.Fatbinary, 8*time.Millisecond, 70, ".fatbin", ir...)
	part := pass(graph.HostPart, 600*time.Millisecond, int64(75+30*size), ".host.o", host)
	return s.add(graph.Join, time.Millisecond, 0, name+".o", part, fatbin)
}

// layered is a random graph of 50 layers, each action with up to three needs in the layer before.
func layered(actions int) *shape {
	s := newShape("random layers")
	width := max(1, actions/50)
	for i := range actions {
		var in []string
		if layer := i / width; layer > 0 {
			for range 1 + s.rng.IntN(3) {
				in = append(in, fmt.Sprint("a", (layer-1)*width+s.rng.IntN(width)))
			}
		}
		s.add(graph.Generate, s.around(time.Second, 1), 100+s.rng.Int64N(400), fmt.Sprint("a", i), in...)
	}
	return s
}

// recordedShape is the graph of a project, by kbuild graph --format json, with the times and peaks
// of the database of its build tree.
func recordedShape(t *testing.T, graphFile, database string) *shape {
	text, err := os.ReadFile(graphFile)
	if err != nil {
		t.Fatal(err)
	}
	var g graph.Graph
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	j, err := tree.Open(database)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	s := newShape(graphFile)
	for _, a := range g.Actions {
		takes, peak := time.Millisecond, int64(0)
		if rec := j.Last(a.Outputs[0]); rec != nil {
			takes, peak = max(takes, rec.Elapsed), rec.MaxRSS
		}
		s.graph.Add(a)
		s.takes, s.memory = append(s.takes, takes), append(s.memory, peak)
	}
	return s
}

// simulation of a build of all.
func (s *shape) simulation(t testing.TB, opts Options) *simulation {
	t.Helper()
	sealed(s.graph)
	e, _ := opts.Estimates.(estimates)
	e.memory = func(a *graph.Action) int64 { return s.memory[a.ID] }
	opts.Estimates = e
	return newSimulation(t, s.graph, opts, func(a *graph.Action) time.Duration { return s.takes[a.ID] })
}

// bound is what no order can beat: the longest chain, all the work on all workers, and all memory,
// each for its time, in the budget.
func (s *shape) bound(workers int, budget int64) time.Duration {
	var longest, work time.Duration
	var memory float64
	ends := make([]time.Duration, len(s.takes))
	sealed(s.graph)
	for id, takes := range s.takes {
		for _, d := range s.graph.Deps(graph.ActionID(id)) {
			ends[id] = max(ends[id], ends[d])
		}
		ends[id] += takes
		longest = max(longest, ends[id])
		work += takes
		if budget > 0 {
			memory += float64(takes) * float64(min(budget, s.memory[id])) / float64(budget)
		}
	}
	return max(longest, work/time.Duration(workers), time.Duration(memory))
}

// recorded expects the true times.
func (s *shape) recorded(a *graph.Action) time.Duration { return s.takes[a.ID] }

// blurred expects times as another day had them: a quarter more or less.
func (s *shape) blurred() func(*graph.Action) time.Duration {
	rng := rand.New(rand.NewPCG(3, 4))
	cost := make([]time.Duration, len(s.takes))
	for i, d := range s.takes {
		cost[i] = time.Duration(float64(d) * math.Exp(0.25*rng.NormFloat64()))
	}
	return func(a *graph.Action) time.Duration { return cost[a.ID] }
}

// inOrder expects nothing, so that only the order of the plan counts.
func inOrder(*graph.Action) time.Duration { return 0 }
