package sched

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// Run builds want and everything it needs. g is sealed. The error is about an id that is none;
// failures of actions are in the summary and went to o.
//
// One goroutine, the caller's, owns all state. Checks, commands and the wait for a jobserver token run
// in goroutines of their own and report to it by channel, so the state needs no lock and o is called
// in order. When ctx is cancelled nothing new starts, those at work see ctx, and Run returns when the
// last of them has. No token of opts.Jobserver is held when Run returns.
func Run(ctx context.Context, g *graph.Graph, want []graph.ActionID, opts Options, r Runner, o Observer) (Summary, error) {
	c, err := newCore(g, want, opts)
	if err != nil {
		return Summary{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &loop{core: c, ctx: ctx, cancel: cancel, opts: opts, runner: r, observer: o,
		events: make(chan event, 64), maxChecks: opts.Checks,
		tokens:   tokens{server: opts.Jobserver, arrived: make(chan tokenAnswer, 1)},
		solo:     nobody,
		statuses: map[Status]int{}}
	l.opts.Jobs = max(1, opts.Jobs)
	if l.maxChecks <= 0 {
		l.maxChecks = max(4, runtime.GOMAXPROCS(0)) // more than there are processors helps a little
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
	tokens    tokens
	ctx       context.Context
	cancel    context.CancelFunc
	opts      Options
	runner    Runner
	observer  Observer
	events    chan event
	maxChecks int // at once

	solo int32 // runs, and began when nothing else ran; or nobody

	failures    int
	stopping    bool // start nothing more
	interrupted bool
	crash       any
	loadTimer   <-chan time.Time
	statuses    map[Status]int
}

// run is the core loop. Whenever nothing is at work the slots are all free, so start could have started
// what is queued: there is nothing left to start, or stopping is set.
func (l *loop) run() {
	cancelled := l.ctx.Done()
	for {
		l.start()
		if l.count[checking]+l.count[running] == 0 && !l.tokens.asking {
			break
		}
		select {
		case e := <-l.events:
			l.handle(e)
			l.drain()
		case a := <-l.tokens.arrived:
			l.tokens.answer(a)
		case <-l.loadTimer:
			l.loadTimer = nil
		case <-cancelled:
			cancelled = nil
		}
	}
	if l.crash != nil {
		panic(l.crash)
	}
	l.skipRest()
}

// drain takes what else has ended by now, so that the best of all that is queued starts next.
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

// start begins whatever may begin now.
func (l *loop) start() {
	if l.ctx.Err() != nil {
		l.interrupted, l.stopping = true, true
	}
	if !l.stopping {
		l.startChecks()
		l.startCommands()
		l.startAlone()
	}
	if l.stopping || l.queued.count == 0 {
		l.loadTimer = nil
		l.tokens.unask()
	}
	l.tokens.giveBack()
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

// check runs in a goroutine of its own, as does execute. A panic of the runner is taken to the loop,
// which stops the others first: a dead process could give no token back and end no compiler.
func (l *loop) check(i int32, a *graph.Action) {
	e := event{node: i}
	defer l.send(&e)
	e.result, e.settled = l.runner.Check(l.ctx, a)
}

func (l *loop) execute(i int32, a *graph.Action) {
	e := event{node: i, settled: true}
	defer l.send(&e)
	e.result = l.runner.Execute(l.ctx, a)
}

func (l *loop) send(e *event) {
	if v := recover(); v != nil {
		e.crash = fmt.Sprintf("%v\n\n%s", v, debug.Stack())
	}
	l.events <- *e
}

// startCommands gives slots to queued actions, best first.
func (l *loop) startCommands() {
	for l.queued.count > 0 && l.count[running] < l.opts.Jobs && !l.overloaded() {
		i, ok := l.next()
		if !ok || !l.tokens.take(l.ctx, &l.nodes[i]) {
			return
		}
		l.observer.Started(l.nodes[i].action)
		l.begin(i)
	}
}

// startAlone starts what must run alone when there is nothing else to start: all that is left needs it, or another like it. So the
// processors are not idle until then, and nothing can start beside it.
func (l *loop) startAlone() {
	if len(l.alone) == 0 || l.count[running]+l.count[checking]+l.queued.count > 0 || !l.tokens.take(l.ctx, &l.nodes[l.alone[0]]) {
		return
	}
	l.begin(l.alone[0])
}

// begin runs node i, and notes who runs beside another.
func (l *loop) begin(i int32) {
	if l.count[running] == 0 {
		l.solo = i
	} else {
		l.nodes[i].beside = true
		if l.solo != nobody {
			l.nodes[l.solo].beside = true
		}
	}
	l.set(i, running)
	go l.execute(i, l.nodes[i].action)
}

// handle takes the end of a check or of a command.
func (l *loop) handle(e event) {
	n := &l.nodes[e.node]
	if n.state == running {
		l.tokens.free(n)
		if l.solo == e.node {
			l.solo = nobody
		}
	}
	if e.crash != nil {
		l.crash = e.crash
		l.cancel()
		l.finish(e.node, Result{Status: Skipped})
		return
	}
	if !e.settled {
		l.set(e.node, queued)
		return
	}
	if e.result.Status == Failed && l.ctx.Err() != nil {
		e.result.Status = Skipped // it was stopped, it did not fail
	}
	if e.result.Status == Failed && e.result.Short && n.beside && !n.alone && !l.stopping {
		n.alone = true
		l.set(e.node, queued)
		return
	}
	l.finish(e.node, e.result)
}

// finish ends node i as its result says.
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

// fail skips what needs node i, and stops the run after too many failures.
func (l *loop) fail(i int32) {
	l.failures++
	reason := "it needs " + l.nodes[i].action.Name + ", which failed"
	for _, u := range l.poison(i) {
		l.finish(u, Result{Status: Skipped, Reason: reason})
	}
	if l.opts.KeepGoing > 0 && l.failures >= l.opts.KeepGoing {
		l.stopping = true
	}
}

// skipRest accounts for what was never started.
func (l *loop) skipRest() {
	for i := range l.nodes {
		switch l.nodes[i].state {
		case waiting, ready, queued:
			l.finish(int32(i), Result{Status: Skipped})
		}
	}
}
