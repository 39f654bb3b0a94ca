package sched

import "context"

// tokens manages the run's requests to a jobserver. The first slot is free; each further process
// needs a token. At most one request is pending, because only the best queued action can use its
// token. No token is kept that no process uses: make would wait for it, and this run, idle, for
// make.
type tokens struct {
	server    Jobserver
	implicit  bool // the free slot is taken
	asking    bool // a request is pending; its answer comes on arrived
	cancel    context.CancelFunc
	cancelled bool   // the pending request is not wanted any more
	broken    bool   // the server returned an error: there is only the free slot
	spare     []byte // tokens that arrived and are not used yet
	arrived   chan tokenAnswer
}

type tokenAnswer struct {
	token byte
	err   error
}

// take gives n the right to run a process: the free slot, or a token that has arrived. Otherwise it
// requests a token and returns false.
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

// unask withdraws the request. The answer still comes, and may still be a token.
func (t *tokens) unask() {
	if t.asking {
		t.cancelled = true
		t.cancel()
	}
}

// answer handles the answer to the request.
func (t *tokens) answer(a tokenAnswer) {
	t.asking = false
	t.cancel()
	if a.err == nil {
		t.spare = append(t.spare, a.token)
	} else if !t.cancelled {
		t.broken = true
	}
}

// free takes back the right of n when its process has ended.
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

// giveBack releases the tokens that no process could use.
func (t *tokens) giveBack() {
	for _, token := range t.spare {
		t.server.Release(token)
	}
	t.spare = t.spare[:0]
}
