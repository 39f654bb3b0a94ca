package sched

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// fate is what the fake runner does with an action.
type fate struct {
	check   Status // settled by Check as this; "" is to be executed
	execute Status
	checks  time.Duration // how long Check takes
	takes   time.Duration // how long Execute takes
	short   bool          // memory is short the first time
}

// fakeRunner is a fake runner, observer and referee. Used inside a synctest bubble, time is free and
// the seed decides in which order actions end.
type fakeRunner struct {
	t     *testing.T
	g     *graph.Graph
	fates []fate
	opts  Options
	srv   *fakeServer // nil if none

	mu         sync.Mutex
	total      int
	checked    map[graph.ActionID]bool
	executed   map[graph.ActionID]int
	active     map[graph.ActionID]bool // executed now
	beside     map[graph.ActionID]bool // was executed while another was
	stopped    map[graph.ActionID]time.Time
	touched    map[graph.ActionID]bool // another began in the instant in which it ended, or the other way round
	ended      map[graph.ActionID]Status
	good       map[graph.ActionID]bool // Check or Execute gave a good end, perhaps not reported yet
	order      []graph.ActionID        // as started
	running    int
	peak       int
	pools      map[string]int
	memory     int64 // expected of what runs
	needy      int   // how many of those need memory
	failures   int
	cancelled  time.Time // when ctx was; zero if it was not
	reportedAt int
}

func newFakeRunner(t *testing.T, g *graph.Graph, fates []fate, opts Options) *fakeRunner {
	w := &fakeRunner{t: t, g: g, fates: fates, opts: opts, pools: map[string]int{},
		checked: map[graph.ActionID]bool{}, executed: map[graph.ActionID]int{}, active: map[graph.ActionID]bool{}, beside: map[graph.ActionID]bool{},
		stopped: map[graph.ActionID]time.Time{}, touched: map[graph.ActionID]bool{}, ended: map[graph.ActionID]Status{}, good: map[graph.ActionID]bool{}}
	w.opts.Jobs = max(1, opts.Jobs) // as Run takes it
	if s, ok := opts.Jobserver.(*fakeServer); ok {
		w.srv = s
	}
	return w
}

func (w *fakeRunner) Check(ctx context.Context, a *graph.Action) (Result, bool) {
	w.mu.Lock()
	if w.checked[a.ID] {
		w.t.Errorf("%s is checked twice", a.Name)
	}
	w.checked[a.ID] = true
	for _, d := range w.g.Deps(a.ID) {
		if !w.good[d] {
			w.t.Errorf("%s is checked before %s has ended well", a.Name, w.g.Actions[d].Name)
		}
	}
	w.mu.Unlock()
	f := w.fates[a.ID]
	if err := pause(ctx, f.checks); err != nil {
		return Result{Status: Failed, Err: err}, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.good[a.ID] = f.check == UpToDate || f.check == Cached
	return Result{Status: f.check}, f.check != ""
}

func (w *fakeRunner) Execute(ctx context.Context, a *graph.Action, _ <-chan struct{}) Result {
	w.begin(a)
	f := w.fates[a.ID]
	err := pause(ctx, f.takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.pools[a.Pool]--
	w.memory -= w.need(a)
	if w.need(a) > 0 {
		w.needy--
	}
	delete(w.active, a.ID)
	w.stopped[a.ID] = time.Now()
	if err != nil {
		return Result{Status: Failed, Err: err}
	}
	if f.short && w.executed[a.ID] == 1 {
		return Result{Status: Failed, OutOfMemory: true}
	}
	w.good[a.ID] = f.execute == Ran
	return Result{Status: f.execute}
}

func (w *fakeRunner) begin(a *graph.Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.executed[a.ID]++
	again := w.fates[a.ID].short && (w.beside[a.ID] || w.touched[a.ID])
	if !w.checked[a.ID] || w.executed[a.ID] > 1 && !again || w.executed[a.ID] > 2 || w.fates[a.ID].check != "" {
		w.t.Errorf("%s is executed twice, unchecked or although settled", a.Name)
	}
	w.meet(a)
	w.running++
	w.peak = max(w.peak, w.running)
	if w.running > w.opts.Jobs {
		w.t.Errorf("%d processes run, %d are allowed", w.running, w.opts.Jobs)
	}
	w.pools[a.Pool]++
	if depth := w.opts.Pools[a.Pool]; depth > 0 && w.pools[a.Pool] > depth {
		w.t.Errorf("%d processes run in pool %s, %d are allowed", w.pools[a.Pool], a.Pool, depth)
	}
	w.memory += w.need(a)
	if w.need(a) > 0 {
		w.needy++
	}
	if w.opts.Budget > 0 && w.memory > w.opts.Budget && w.needy > 1 {
		w.t.Errorf("%d processes need %d bytes, %d are allowed", w.needy, w.memory, w.opts.Budget)
	}
	if w.srv != nil && w.running > 1+w.srv.taken() {
		w.t.Errorf("%d processes run with %d tokens", w.running, w.srv.taken())
	}
	if b, ok := w.opts.Broker.(*fakeBroker); ok && b.err == nil && b.taken() < w.running {
		w.t.Errorf("%d processes run with %d leases", w.running, b.taken())
	}
	if !w.cancelled.IsZero() && time.Now().After(w.cancelled) {
		w.t.Errorf("%s is started %v after the cancellation", a.Name, time.Since(w.cancelled))
	}
}

// meet notes who is executed beside whom. Nobody may be beside one whose memory was short. Of one
// that ends and one that begins in the same instant of fake time nobody can say whether they were:
// the loop may hear of the end before or after.
func (w *fakeRunner) meet(a *graph.Action) {
	for id, at := range w.stopped {
		if id != a.ID && at.Equal(time.Now()) {
			w.touched[id], w.touched[a.ID] = true, true
		}
	}
	w.active[a.ID] = true
	if len(w.active) == 1 {
		return
	}
	for id := range w.active {
		w.beside[id] = true
		if w.executed[id] == 2 {
			w.t.Errorf("%s is executed again beside others", w.g.Actions[id].Name)
		}
	}
}

// estimates of tests. Without a function all actions cost the same, need no memory and are never
// overdue.
type estimates struct {
	cost, overdue func(*graph.Action) time.Duration
	memory        func(*graph.Action) int64
}

func (e estimates) Cost(a *graph.Action) time.Duration {
	if e.cost == nil {
		return 1
	}
	return e.cost(a)
}

func (e estimates) Memory(a *graph.Action) int64 {
	if e.memory == nil {
		return 0
	}
	return e.memory(a)
}

func (e estimates) Overdue(a *graph.Action) time.Duration {
	if e.overdue == nil {
		return math.MaxInt64
	}
	return e.overdue(a)
}

func (w *fakeRunner) need(a *graph.Action) int64 {
	if w.opts.Estimates == nil {
		return 0
	}
	return w.opts.Estimates.Memory(a)
}

// pause passes fake time, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *fakeRunner) Start(total int) { w.total = total }

func (w *fakeRunner) Started(a *graph.Action) {
	w.order = append(w.order, a.ID)
	if w.opts.KeepGoing > 0 && w.failures >= w.opts.KeepGoing {
		w.t.Errorf("%s is started after %d failures", a.Name, w.failures)
	}
}

func (w *fakeRunner) Finished(a *graph.Action, r Result, done, total int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, twice := w.ended[a.ID]; twice {
		w.t.Errorf("%s ends twice", a.Name)
	}
	w.ended[a.ID] = r.Status
	if r.Status == Failed {
		w.failures++
	}
	if w.reportedAt++; done != w.reportedAt || total != w.total {
		w.t.Errorf("%s ends as number %d of %d, want %d of %d", a.Name, done, total, w.reportedAt, w.total)
	}
}

func (w *fakeRunner) cancel(stop context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancelled = time.Now()
	stop()
}

// predict says how every action of closure(want) must end if nothing stops the run.
func (w *fakeRunner) predict(want []graph.ActionID) map[graph.ActionID]Status {
	out := map[graph.ActionID]Status{}
	for _, id := range w.g.Closure(want) { // sorted, which is a valid order here
		f := w.fates[id]
		out[id] = f.check
		if f.check == "" {
			out[id] = f.execute
			if f.short && !w.beside[id] && w.executed[id] < 2 {
				out[id] = Failed // it was alone as it was
			}
		}
		for _, d := range w.g.Deps(id) {
			if out[d] == Failed || out[d] == Skipped {
				out[id] = Skipped
			}
		}
	}
	return out
}

// counts makes the summary that the reported ends add up to.
func (w *fakeRunner) counts() Summary {
	s := Summary{Actions: len(w.ended)}
	for _, status := range w.ended {
		switch status {
		case Ran:
			s.Ran++
		case Cached:
			s.Cached++
		case UpToDate:
			s.UpToDate++
		case Failed:
			s.Failed++
		case Skipped:
			s.Skipped++
		}
	}
	return s
}

// fakeServer is a jobserver that counts. Each token is a different byte, as no make promises that
// they are alike.
type fakeServer struct {
	pool chan byte
	mu   sync.Mutex
	held map[byte]bool
	t    *testing.T
	err  error // what Acquire says at once
}

func newServer(t *testing.T, n int) *fakeServer {
	s := &fakeServer{pool: make(chan byte, n), held: map[byte]bool{}, t: t}
	for i := range n {
		s.pool <- byte('a' + i)
	}
	return s
}

func (s *fakeServer) Acquire(ctx context.Context) (byte, error) {
	if s.err != nil {
		return 0, s.err
	}
	select {
	case b := <-s.pool:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held[b] = true
		return b, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *fakeServer) Release(b byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held[b] {
		s.t.Errorf("token %q is given back and was not held", b)
	}
	delete(s.held, b)
	s.pool <- b
}

func (s *fakeServer) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// makeGraph makes an action of each line: its output, then its inputs.
func makeGraph(lines ...[]string) *graph.Graph {
	g := &graph.Graph{}
	for _, l := range lines {
		g.Add(&graph.Action{Name: l[0], Outputs: l[:1], Inputs: l[1:]})
	}
	return sealed(g)
}

func sealed(g *graph.Graph) *graph.Graph {
	if err := g.Seal(); err != nil {
		panic(err)
	}
	return g
}

// randomGraph makes up to 60 actions with edges to earlier ones, in up to three pools.
func randomGraph(rng *rand.Rand) *graph.Graph {
	g := &graph.Graph{}
	for i := range 1 + rng.IntN(60) {
		a := &graph.Action{Name: fmt.Sprintf("n%d", i), Outputs: []string{fmt.Sprintf("o%d", i), fmt.Sprintf("side%d", i)}, Inputs: []string{"source"}}
		for range rng.IntN(4) {
			if i == 0 {
				break
			}
			in := fmt.Sprintf([]string{"o%d", "side%d"}[rng.IntN(2)], rng.IntN(i))
			if rng.IntN(4) == 0 {
				a.OrderOnly = append(a.OrderOnly, in)
			} else {
				a.Inputs = append(a.Inputs, in)
			}
		}
		if rng.IntN(3) == 0 {
			a.Pool = []string{"link", "big"}[rng.IntN(2)]
		}
		g.Add(a)
	}
	return sealed(g)
}

func randomFates(rng *rand.Rand, n int, failing float64) []fate {
	fates := make([]fate, n)
	for i := range fates {
		f := &fates[i]
		f.checks = time.Duration(rng.IntN(3)) * time.Millisecond
		f.takes = time.Duration(rng.IntN(20)) * time.Millisecond
		f.execute = Ran
		f.short = rng.IntN(10) == 0
		switch p := rng.Float64(); {
		case p < failing/2:
			f.check = Failed
		case p < failing:
			f.execute = Failed
		case p < 0.3:
			f.check = UpToDate
		case p < 0.5:
			f.check = Cached
		}
	}
	return fates
}

func randomWant(rng *rand.Rand, n int) []graph.ActionID {
	want := []graph.ActionID{graph.ActionID(n - 1)}
	for range rng.IntN(5) {
		want = append(want, graph.ActionID(rng.IntN(n))) // also twice the same
	}
	return want
}

var errServer = errors.New("the jobserver went away")
