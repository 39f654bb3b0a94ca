package sched

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// recorded is an action of a real build.
type recorded struct {
	cpu     time.Duration
	in, out int64 // bytes that it reads and writes
	travels bool
}

// readRecorded reads a build from lines of: kind, the numbers of the lines that it needs, CPU time
// in microseconds, bytes read, bytes written, whether it may run elsewhere.
func readRecorded(t *testing.T, name string) (*graph.Graph, []recorded) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, all := &graph.Graph{}, []recorded{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		field := strings.Split(s.Text(), "\t")
		a := &graph.Action{Kind: graph.Kind(field[0]), Name: fmt.Sprint(len(all)), Outputs: []string{fmt.Sprint("o", len(all))}}
		for _, d := range strings.Fields(field[1]) {
			a.Inputs = append(a.Inputs, "o"+d)
		}
		number := func(i int) int64 {
			n, err := strconv.ParseInt(field[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		all = append(all, recorded{time.Duration(number(2)) * time.Microsecond, number(3), number(4), field[5] == "true"})
		g.Add(a)
	}
	return sealed(g), all
}

// cluster plays a recorded build with other machines behind one line.
type cluster struct {
	build   []recorded
	workers chan struct{} // nil: they never answer
	rate    float64       // bytes a second, of the line
	trip    time.Duration // there and back
	line    chan struct{} // held by who moves something. (A mutex would stop fake time.)

	ran           [3]int // here, elsewhere, raced
	sent, fetched int64
}

func (c *cluster) Start(int)                                {}
func (c *cluster) Started(*graph.Action)                    {}
func (c *cluster) Finished(*graph.Action, Result, int, int) {}

func (c *cluster) Check(_ context.Context, a *graph.Action) (Result, bool) {
	b := c.build[a.ID]
	return Result{Portable: b.travels && b.cpu > 100*time.Millisecond+c.moves(b.in+b.out)}, false
}

func (c *cluster) Execute(ctx context.Context, a *graph.Action, here <-chan struct{}) Result {
	if here != nil {
		return c.executeRemote(ctx, a, here)
	}
	if pause(ctx, c.build[a.ID].cpu) != nil {
		return Result{Status: Failed}
	}
	return Result{Status: Ran}
}

func (c *cluster) Executes() bool         { return true }
func (c *cluster) Ready() <-chan struct{} { return nil }

func (c *cluster) moves(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / c.rate * float64(time.Second))
}

// away is what becomes of an action elsewhere: its files take the line one after another.
func (c *cluster) away(ctx context.Context, b recorded) error {
	if c.workers == nil {
		return pause(ctx, 24*time.Hour)
	}
	transfer := func(n int64) error {
		select {
		case c.line <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-c.line }()
		return pause(ctx, c.moves(n))
	}
	if err := transfer(b.in); err != nil {
		return err
	}
	select {
	case c.workers <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := pause(ctx, c.trip+b.cpu)
	<-c.workers
	if err != nil {
		return err
	}
	return transfer(b.out)
}

func (c *cluster) executeRemote(ctx context.Context, a *graph.Action, here <-chan struct{}) Result {
	b := c.build[a.ID]
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	there := make(chan error, 1)
	go func() { there <- c.away(ctx, b) }()
	select {
	case <-there:
		c.ran[1]++
		c.sent, c.fetched = c.sent+b.in, c.fetched+b.out
		return Result{Status: Ran}
	case <-here:
	}
	c.ran[2]++
	local := make(chan error, 1)
	go func() { local <- pause(ctx, b.cpu) }()
	select {
	case <-there:
	case <-local:
	}
	return Result{Status: Ran}
}

// play gives the time that the build takes.
func play(t *testing.T, g *graph.Graph, build []recorded, jobs, workers int, dead bool) (took time.Duration, c *cluster) {
	bubble(t, func(t *testing.T) {
		c = &cluster{build: build, rate: 100 << 20, trip: 20 * time.Millisecond, line: make(chan struct{}, 1)}
		if !dead {
			c.workers = make(chan struct{}, max(1, workers))
		}
		cost := func(a *graph.Action) time.Duration { return build[a.ID].cpu }
		opts := Options{Jobs: jobs, Remote: c, Elsewhere: workers, Estimates: estimates{cost: cost, overdue: func(a *graph.Action) time.Duration { return max(2*time.Second, 4*cost(a)) }}}
		want := make([]graph.ActionID, len(g.Actions))
		for i := range want {
			want[i] = graph.ActionID(i)
		}
		begun := time.Now()
		if sum, err := Run(t.Context(), g, want, opts, c, c); err != nil || sum.Ran != len(want) {
			t.Errorf("%+v, %v", sum, err)
		}
		took = time.Since(begun)
	})
	return took, c
}

// More machines never make a real build much slower, and those that are dead hardly do. The figures
// of docs/remote-exec.md are what this prints with -v.
func TestMachines(t *testing.T) {
	g, build := readRecorded(t, "testdata/lto40.tsv")
	for _, jobs := range []int{2, 8, 16} {
		alone, _ := play(t, g, build, jobs, 0, false)
		if alone == 0 {
			t.Skip("there is no fake time")
		}
		t.Logf("%2d slots here: %v", jobs, alone.Round(100*time.Millisecond))
		last := alone
		for _, workers := range []int{4, 8, 16, 32, 64, 128, 256} {
			took, c := play(t, g, build, jobs, workers, false)
			t.Logf("   and %3d elsewhere: %v (%.1fx), %d actions there, %d in both places, %d MiB sent, %d MiB back", workers, took.Round(100*time.Millisecond),
				alone.Seconds()/took.Seconds(), c.ran[1], c.ran[2], c.sent>>20, c.fetched>>20)
			if took > last+last/12 {
				t.Errorf("%d slots: %v with %d machines, %v with fewer", jobs, took, workers, last)
			}
			last = min(last, took)
		}
		if took, _ := play(t, g, build, jobs, 64, true); took > alone+2*time.Second {
			t.Errorf("%d slots: %v with dead machines, %v with none", jobs, took, alone)
		} else {
			t.Logf("   and dead machines: %v", took.Round(100*time.Millisecond))
		}
	}
}
