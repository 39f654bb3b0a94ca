package sched

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// Run builds want and everything it needs. The error is about the graph; failures of actions are in
// the summary and went to o.
//
// One goroutine owns all state. Checks, commands and the wait for a jobserver token run in goroutines
// of their own and report to it by channel, so the state needs no lock and o is called in order.
func Run(ctx context.Context, g *graph.Graph, want []graph.ActionID, opts Options, r Runner, o Observer) (Summary, error) {
	c, err := newCore(g, want, opts.Cost)
	if err != nil {
		return Summary{}, err
	}
	l := &loop{core: c, ctx: ctx, opts: opts, runner: r, observer: o,
		events: make(chan event, 64), tokens: make(chan tokenEvent, 1), maxChecks: max(2, runtime.GOMAXPROCS(0))}
	l.opts.Jobs = max(1, opts.Jobs)
	if l.opts.Load == nil {
		l.opts.Load = systemLoad
	}
	o.Start(len(c.nodes))
	l.run()
	return l.summary(), nil
}

// newCore makes the nodes of a run, with their order and priorities.
func newCore(g *graph.Graph, want []graph.ActionID, cost func(*graph.Action) time.Duration) (*core, error) {
	for _, id := range want {
		if id < 0 || int(id) >= len(g.Actions) {
			return nil, fmt.Errorf("there is no action %d", id)
		}
	}
	ids := g.Closure(want)
	c := &core{nodes: make([]node, len(ids)), pools: map[string]int{}, poison: make([]bool, len(ids))}
	at := make(map[graph.ActionID]int, len(ids))
	for i, id := range ids {
		at[id] = i
		c.nodes[i].action = g.Actions[id]
	}
	for i, id := range ids {
		for _, d := range g.Deps(id) {
			c.nodes[at[d]].users = append(c.nodes[at[d]].users, i)
			c.nodes[i].blockers++
		}
	}
	if err := c.prioritise(cost); err != nil {
		return nil, err
	}
	for i := range c.nodes {
		c.set(i, waiting)
	}
	return c, nil
}

// prioritise walks the nodes users first, and finds cycles on the way.
func (c *core) prioritise(cost func(*graph.Action) time.Duration) error {
	blockers := make([]int, len(c.nodes))
	var order []int
	for i := range c.nodes {
		blockers[i] = c.nodes[i].blockers
		if blockers[i] == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, u := range c.nodes[order[k]].users {
			if blockers[u]--; blockers[u] == 0 {
				order = append(order, u)
			}
		}
	}
	if len(order) < len(c.nodes) {
		for i, b := range blockers {
			if b > 0 {
				return fmt.Errorf("the graph has a cycle through %s", c.nodes[i].action.Name)
			}
		}
	}
	for k := len(order) - 1; k >= 0; k-- {
		n := &c.nodes[order[k]]
		for _, u := range n.users {
			n.priority = max(n.priority, c.nodes[u].priority)
		}
		own := int64(1)
		if cost != nil {
			own = int64(cost(n.action))
		}
		n.priority += own
	}
	return nil
}

// event is the end of a check or of a command.
type event struct {
	node    int
	result  Result
	settled bool
}

type tokenEvent struct {
	token byte
	err   error
}

// loop drives a core.
type loop struct {
	*core
	ctx       context.Context
	opts      Options
	runner    Runner
	observer  Observer
	events    chan event
	tokens    chan tokenEvent
	maxChecks int

	checks      map[int]bool // nodes being checked
	failures    int
	stopping    bool // start nothing more
	implicit    bool // the free slot of the jobserver is taken
	asking      bool // a goroutine waits for a token
	cancelAsk   context.CancelFunc
	spare       []byte // tokens held by nobody, given back at once
	loadTimer   <-chan time.Time
	statuses    map[Status]int
	interrupted bool
}

func (l *loop) run() {
	l.statuses, l.checks = map[Status]int{}, map[int]bool{}
	cancelled := l.ctx.Done()
	for {
		l.start()
		if l.count[checking]+l.count[running] == 0 && !l.asking && l.loadTimer == nil {
			break
		}
		select {
		case e := <-l.events:
			l.ended(e)
		case t := <-l.tokens:
			l.gotToken(t)
		case <-l.loadTimer:
			l.loadTimer = nil
		case <-cancelled:
			cancelled = nil
			l.interrupted, l.stopping = true, true
		}
	}
	l.skipRest()
}

// start begins whatever may begin now.
func (l *loop) start() {
	if l.ctx.Err() != nil {
		l.interrupted, l.stopping = true, true
	}
	if l.stopping {
		l.loadTimer = nil
		if l.asking {
			l.cancelAsk()
		}
		return
	}
	for len(l.ready.items) > 0 && l.count[checking] < l.maxChecks {
		i := l.ready.pop(l.core)
		l.set(i, checking)
		l.checks[i] = true
		go func() {
			res, ok := l.runner.Check(l.ctx, l.nodes[i].action)
			l.events <- event{i, res, ok}
		}()
	}
	l.startCommands()
	if l.asking && len(l.toRun.items) == 0 {
		l.cancelAsk()
	}
}

// startCommands gives slots to queued actions, best first. An action whose pool is full lets others
// pass.
func (l *loop) startCommands() {
	var passed []int
	for len(l.toRun.items) > 0 && l.count[running] < l.opts.Jobs && !l.betterInCheck() && !l.overloaded() {
		i := l.toRun.pop(l.core)
		if l.poolFull(l.nodes[i].action.Pool) {
			passed = append(passed, i)
			continue
		}
		if !l.takeSlot(i) {
			passed = append(passed, i)
			break
		}
		l.set(i, running)
		l.observer.Started(l.nodes[i].action)
		go func() {
			l.events <- event{i, l.runner.Execute(l.ctx, l.nodes[i].action), true}
		}()
	}
	for _, i := range passed {
		l.toRun.push(l.core, i)
	}
}

// betterInCheck reports that something more urgent than the best queued action is being checked: a check
// takes milliseconds, a command in the wrong order costs its whole length.
func (l *loop) betterInCheck() bool {
	for i := range l.checks {
		if l.toRun.less(l.core, i, l.toRun.items[0]) {
			return true
		}
	}
	return false
}

func (l *loop) poolFull(pool string) bool {
	depth := l.opts.Pools[pool]
	return pool != "" && depth > 0 && l.pools[pool] >= depth
}

// overloaded reports that the load average forbids another process. One may always run. The load is
// asked again when something ends, or after a second.
func (l *loop) overloaded() bool {
	if l.opts.MaxLoad <= 0 || l.count[running] == 0 || l.opts.Load() < l.opts.MaxLoad {
		return false
	}
	if l.loadTimer == nil {
		l.loadTimer = time.After(time.Second)
	}
	return true
}

// takeSlot gives node i the right to run a process: the free slot, a token that just came, or else it
// asks for a token and answers false.
func (l *loop) takeSlot(i int) bool {
	if l.opts.Jobserver == nil {
		return true
	}
	if !l.implicit {
		l.implicit = true
		return true
	}
	if len(l.spare) > 0 {
		n := &l.nodes[i]
		n.token, n.hasToken = l.spare[0], true
		l.spare = l.spare[1:]
		return true
	}
	if !l.asking {
		l.asking = true
		var ctx context.Context
		ctx, l.cancelAsk = context.WithCancel(l.ctx)
		go func() {
			t, err := l.opts.Jobserver.Acquire(ctx)
			l.tokens <- tokenEvent{t, err}
		}()
	}
	return false
}

// gotToken uses a token for the best queued action, or gives it back: an idle client that holds a
// token takes it from make's other jobs.
func (l *loop) gotToken(t tokenEvent) {
	l.asking = false
	l.cancelAsk()
	if t.err != nil {
		return
	}
	l.spare = append(l.spare, t.token)
	if !l.stopping {
		l.startCommands()
	}
	for _, token := range l.spare {
		l.opts.Jobserver.Release(token)
	}
	l.spare = l.spare[:0]
}

func (l *loop) ended(e event) {
	n := &l.nodes[e.node]
	delete(l.checks, e.node)
	if n.state == checking && !e.settled {
		l.set(e.node, queued)
		return
	}
	if n.state == running {
		l.freeSlot(n)
	}
	if e.result.Status == Failed && l.ctx.Err() != nil {
		e.result.Status = Skipped // it was stopped, it did not fail
	}
	switch e.result.Status {
	case Failed:
		l.set(e.node, failed)
		l.report(e.node, e.result)
		l.fail(e.node)
	case Skipped:
		l.set(e.node, skipped)
		l.report(e.node, e.result)
	default:
		l.set(e.node, done)
		l.report(e.node, e.result)
	}
}

func (l *loop) freeSlot(n *node) {
	if l.opts.Jobserver == nil {
		return
	}
	if n.hasToken {
		n.hasToken = false
		l.opts.Jobserver.Release(n.token)
		return
	}
	l.implicit = false
}

// fail skips what needs node i, and stops the run after too many failures.
func (l *loop) fail(i int) {
	l.failures++
	for _, u := range l.poisoned(i) {
		l.set(u, skipped)
		l.report(u, Result{Status: Skipped, Reason: "it needs " + l.nodes[i].action.Name + ", which failed"})
	}
	if l.opts.KeepGoing > 0 && l.failures >= l.opts.KeepGoing {
		l.stopping = true
	}
}

// skipRest accounts for what was never started.
func (l *loop) skipRest() {
	for i := range l.nodes {
		switch l.nodes[i].state {
		case waiting, queued:
			l.set(i, skipped)
			l.report(i, Result{Status: Skipped})
		}
	}
}

func (l *loop) report(i int, r Result) {
	l.statuses[r.Status]++
	l.observer.Finished(l.nodes[i].action, r, l.finished(), len(l.nodes))
}

func (l *loop) summary() Summary {
	return Summary{Actions: len(l.nodes), Ran: l.statuses[Ran], Cached: l.statuses[Cached], UpToDate: l.statuses[UpToDate],
		Failed: l.statuses[Failed], Skipped: l.statuses[Skipped], Interrupted: l.interrupted}
}
