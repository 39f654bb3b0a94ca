package sched

import "context"

// tokens is the run's dealing with a jobserver. The first slot is free; each further process needs
// a token. At most one request is out, because only the best queued action can use what it brings,
// and no token is kept that no process uses: make would wait for it, and this run, idle, for make.
type tokens struct {
	server    Jobserver
	implicit  bool // the free slot is taken
	asking    bool // a request is out; its answer comes by arrived
	cancel    context.CancelFunc
	cancelled bool   // the request out is not wanted any more
	broken    bool   // the server answered with an error: there is only the free slot
	spare     []byte // arrived and not used yet
	arrived   chan tokenAnswer
}

type tokenAnswer struct {
	token byte
	err   error
}

// take gives n the right to run a process: the free slot or a token that just came. Otherwise it
// asks for one and answers false.
func (t *tokens) take(ctx context.Context, n *node) bool {
	if t.server == nil {
		return true
	}
	if !t.implicit {
		t.implicit = true
		return true
	}
	if last := len(t.spare) - 1; last >= 0 {
		n.token, n.hasToken = t.spare[last], true
		t.spare = t.spare[:last]
		return true
	}
	if !t.asking && !t.broken {
		t.ask(ctx)
	}
	return false
}

func (t *tokens) ask(ctx context.Context) {
	ctx, t.cancel = context.WithCancel(ctx)
	t.asking, t.cancelled = true, false
	go func() {
		token, err := t.server.Acquire(ctx)
		t.arrived <- tokenAnswer{token, err}
	}()
}

// unask withdraws the request. Its answer still comes, and may still be a token.
func (t *tokens) unask() {
	if t.asking {
		t.cancelled = true
		t.cancel()
	}
}

// answer notes what came of the request.
func (t *tokens) answer(a tokenAnswer) {
	t.asking = false
	t.cancel()
	if a.err == nil {
		t.spare = append(t.spare, a.token)
	} else if !t.cancelled {
		t.broken = true
	}
}

// free takes back the right of n at the moment its process has ended.
func (t *tokens) free(n *node) {
	switch {
	case t.server == nil:
	case n.hasToken:
		n.hasToken = false
		t.server.Release(n.token)
	default:
		t.implicit = false
	}
}

// giveBack returns the tokens that nobody could use.
func (t *tokens) giveBack() {
	for _, token := range t.spare {
		t.server.Release(token)
	}
	t.spare = t.spare[:0]
}
