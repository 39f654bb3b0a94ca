package sched

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// Run builds want and everything it needs. g is sealed. The error reports an invalid ID; failures
// of actions are in the summary and were reported to o.
//
// One goroutine, the caller's, owns all state. Checks, commands and the waits for a jobserver token
// and a lease run in goroutines of their own and report to it by channel. So the state needs no
// lock and o is called in order. When ctx is cancelled nothing new starts, running checks and
// commands see ctx, and Run returns when the last of them has returned. No token of opts.Jobserver
// and no lease of opts.Broker is held when Run returns.
func Run(ctx context.Context, g *graph.Graph, want []graph.ActionID, opts Options, r Runner, o Observer) (Summary, error) {
	if opts.Remote == nil {
		opts.Elsewhere = 0
	}
	c, err := newCore(g, want, opts)
	if err != nil {
		return Summary{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &loop{core: c, ctx: ctx, cancel: cancel, opts: opts, runner: r, observer: o,
		events: make(chan event, 64), maxChecks: opts.Checks,
		grants: grants{server: opts.Jobserver, broker: opts.Broker, node: nobody,
			arrived: make(chan grant, 1)},
		onlyLocal: nobody,
		broken:    map[string]bool{},
		statuses:  map[Status]int{}}
	l.opts.Jobs = max(1, opts.Jobs)
	if c.distributed {
		l.raced, l.overdue = map[int32]chan struct{}{}, make(chan int32, 64)
	}
	if l.maxChecks <= 0 {
		l.maxChecks = max(4, runtime.GOMAXPROCS(0)) // more checks than processors help a little
	}
	if l.opts.Load == nil {
		l.opts.Load = systemLoad
	}
	o.Start(len(c.nodes))
	for i := range c.nodes {
		c.set(int32(i), waiting)
	}
	l.run()
	return Summary{Actions: len(l.nodes), Ran: l.statuses[Ran], Cached: l.statuses[Cached], UpToDate: l.statuses[UpToDate],
		Failed: l.statuses[Failed], Skipped: l.statuses[Skipped], Interrupted: l.interrupted}, nil
}

// event is the end of a check or of a command.
type event struct {
	node    int32
	settled bool
	result  Result
	crash   any // what the runner panicked with
}

// loop drives a core.
type loop struct {
	*core
	grants    grants
	ctx       context.Context
	cancel    context.CancelFunc
	opts      Options
	runner    Runner
	observer  Observer
	events    chan event
	maxChecks int // limit of concurrent checks

	// by node that runs remotely: closed when it has a local slot too
	raced   map[int32]chan struct{}
	overdue chan int32 // nodes that have run remotely for too long

	onlyLocal int32 // node that runs locally, and started when no other did; or nobody

	failures    int
	broken      map[string]bool    // commands with a failed pass, see graph.Action.PassOf
	passes      map[string][]int32 // nodes by command; made when the first pass fails
	stopping    bool               // start nothing more
	interrupted bool
	crash       any
	loadTimer   <-chan time.Time
	statuses    map[Status]int
}

// run is the core loop. If nothing runs and no request is pending, all slots are free, so start
// could have started what is queued. Then there is nothing left to start, or stopping is set.
func (l *loop) run() {
	cancelled := l.ctx.Done()
	var opened <-chan struct{}
	if l.distributed {
		opened = l.opts.Remote.Ready()
	}
	for {
		l.start()
		if l.count[checking]+l.count[running] == 0 && !l.grants.pending {
			break
		}
		select {
		case e := <-l.events:
			l.handle(e)
			l.drain()
		case a := <-l.grants.arrived:
			l.answered(a)
		case <-l.loadTimer:
			l.loadTimer = nil
		case i := <-l.overdue:
			l.isOverdue(i)
		case <-opened:
			opened = nil
		case <-cancelled:
			cancelled = nil
		}
	}
	if l.crash != nil {
		panic(l.crash)
	}
	l.skipRest()
}

// drain handles what else has ended by now, so that the best of all that is queued starts next.
func (l *loop) drain() {
	for {
		select {
		case e := <-l.events:
			l.handle(e)
		default:
			return
		}
	}
}

// start starts whatever may start now.
func (l *loop) start() {
	if l.ctx.Err() != nil {
		l.interrupted, l.stopping = true, true
	}
	if !l.stopping {
		l.startChecks()
		if l.queued.count > l.ports.count || l.ready.count+l.count[checking] > 0 {
			l.startRemote()
		}
		l.startCommands()
		l.startRemote()
		l.startExclusive()
		l.race()
	}
	if l.stopping || l.queued.count == 0 && !l.mayRace() {
		l.loadTimer = nil
	}
	l.withdrawUnused()
	l.grants.giveBack()
}

func (l *loop) startChecks() {
	for l.count[checking] < l.maxChecks {
		rank, ok := l.ready.first(0, all)
		if !ok {
			return
		}
		i := l.byRank[rank]
		l.set(i, checking)
		go l.check(i, l.nodes[i].action)
	}
}

// check runs in a goroutine of its own, as does execute. A panic of the runner is passed to the
// loop, which stops the others first: a dead process could give no token back and end no compiler.
func (l *loop) check(i int32, a *graph.Action) {
	e := event{node: i}
	defer l.send(&e)
	e.result, e.settled = l.runner.Check(l.ctx, a)
}

func (l *loop) execute(i int32, a *graph.Action, local <-chan struct{}) {
	e := event{node: i, settled: true}
	defer l.send(&e)
	e.result = l.runner.Execute(l.ctx, a, local)
}

func (l *loop) send(e *event) {
	if v := recover(); v != nil {
		e.crash = fmt.Sprintf("%v\n\n%s", v, debug.Stack())
	}
	l.events <- *e
}

// startCommands gives slots to queued actions, best first.
func (l *loop) startCommands() {
	for l.queued.count > 0 && l.local() < l.opts.Jobs && !l.overloaded() {
		if l.joinLate() {
			continue
		}
		i, ok := l.next()
		if !ok || !l.granted(i) {
			return
		}
		l.tellStarted(i)
		l.begin(i)
	}
}

// startExclusive starts an action that must run alone, when nothing else can start: all other
// actions need it, or another one like it. So the processors are not idle until then, and nothing
// can start beside it.
func (l *loop) startExclusive() {
	others := l.count[running] + l.count[checking] + l.queued.count
	if len(l.exclusive) > 0 && others == 0 && l.granted(l.exclusive[0]) {
		l.begin(l.exclusive[0])
	}
}

// tellStarted notifies the observer, once: an action that is lost remotely starts again.
func (l *loop) tellStarted(i int32) {
	if n := &l.nodes[i]; !n.started {
		n.started = true
		l.observer.Started(n.action)
	}
}

// begin runs node i locally.
func (l *loop) begin(i int32) {
	l.noteOverlap(i)
	l.nodes[i].place = here
	l.set(i, running)
	go l.execute(i, l.nodes[i].action, nil)
}

// noteOverlap records that node i starts to run locally, beside the nodes that run already.
func (l *loop) noteOverlap(i int32) {
	if l.local() == 0 {
		l.onlyLocal = i
		return
	}
	l.nodes[i].overlapped = true
	if l.onlyLocal != nobody {
		l.nodes[l.onlyLocal].overlapped = true
	}
}

// handle handles the end of a check or of a command.
func (l *loop) handle(e event) {
	n := &l.nodes[e.node]
	if n.state == running {
		l.vacate(e.node)
	}
	if e.crash != nil {
		l.crash = e.crash
		l.cancel()
		l.finish(e.node, Result{Status: Skipped})
		return
	}
	if !e.settled && len(l.broken) > 0 && l.broken[n.action.PassOf()] {
		l.skipPass(e.node)
		return
	}
	if !e.settled {
		n.portable = l.distributed && e.result.Portable
		l.set(e.node, queued)
		return
	}
	if e.result.Lost && !l.stopping {
		l.set(e.node, queued)
		return
	}
	if e.result.Status == Failed && (e.result.Lost || l.ctx.Err() != nil) {
		e.result.Status = Skipped // it was stopped, it did not fail
	}
	if e.result.Status == Failed && e.result.OutOfMemory && !n.exclusive && !l.stopping &&
		(n.overlapped || l.opts.SharedMachine) {
		n.exclusive = true
		l.set(e.node, queued)
		return
	}
	l.finish(e.node, e.result)
}

// finish ends node i with the status of its result.
func (l *loop) finish(i int32, r Result) {
	switch r.Status {
	case Ran, Cached, UpToDate:
		l.set(i, done)
	case Failed:
		l.set(i, failed)
	case Skipped:
		l.set(i, skipped)
	default:
		panic(fmt.Sprintf("BUG: action %d (%s) ends as %q", l.nodes[i].action.ID, l.nodes[i].action.Name, r.Status))
	}
	l.statuses[r.Status]++
	l.observer.Finished(l.nodes[i].action, r, l.ended(), len(l.nodes))
	if r.Status == Failed {
		l.fail(i)
	}
}

// fail skips what needs node i, and the other passes of its command that have not begun. Those
// would print the same errors, and an unsplit compiler stops at the first. After too many failures
// it stops the run. A command counts once, however many of its passes fail.
func (l *loop) fail(i int32) {
	l.skipUsers(i)
	if command := l.nodes[i].action.PassOf(); command != "" {
		if l.broken[command] {
			return
		}
		l.broken[command] = true
		if l.passes == nil {
			l.passes = map[string][]int32{}
			for u := range l.nodes {
				if of := l.nodes[u].action.PassOf(); of != "" {
					l.passes[of] = append(l.passes[of], int32(u))
				}
			}
		}
		for _, u := range l.passes[command] {
			switch l.nodes[u].state {
			case waiting, ready, queued:
				l.skipPass(u)
			}
		}
	}
	l.failures++
	if l.opts.KeepGoing > 0 && l.failures >= l.opts.KeepGoing {
		l.stopping = true
	}
}

// skipPass skips a pass of a command that failed.
func (l *loop) skipPass(i int32) {
	l.finish(i, Result{Status: Skipped, Reason: "another pass of " + l.nodes[i].action.Name + " failed"})
	l.skipUsers(i)
}

// skipUsers skips what needs node i.
func (l *loop) skipUsers(i int32) {
	reason := "it needs " + l.nodes[i].action.Name + ", which failed"
	for _, u := range l.poison(i) {
		if l.nodes[u].state == waiting {
			l.finish(u, Result{Status: Skipped, Reason: reason})
		}
	}
}

// skipRest skips what was never started.
func (l *loop) skipRest() {
	for i := range l.nodes {
		switch l.nodes[i].state {
		case waiting, ready, queued:
			l.finish(int32(i), Result{Status: Skipped})
		}
	}
}
