package execute

import (
	"context"
	"errors"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
)

// Remote runs commands on other machines: see actions/remote and sched.Distributor.
type Remote interface {
	// Open reports whether remote machines take commands now. Opened returns a channel that is
	// closed when that is first known.
	Open() bool
	Opened() <-chan struct{}
	// Portable reports whether a can run remotely and is worth the transfer of its inputs and
	// outputs. They have about so many bytes; out is -1 if that is unknown.
	Portable(a *graph.Action, in, out int64) bool
	// Run runs a command remotely, and locally as well once local is closed. The error is ErrLost
	// if the remote result says nothing about the action.
	Run(ctx context.Context, c *Command, local <-chan struct{}) (run.Result, error)
	// Judge records whether a command succeeded locally after Run had ended with err.
	Judge(err error, succeeded bool)
}

// ErrLost is the error of a remote command whose end says nothing about its action.
var ErrLost = errors.New("it was lost on another machine")

// Portable implements sched.Distributor.
func (r *Runner) Portable(a *graph.Action) bool {
	if r.Remote == nil {
		return false
	}
	in, out := int64(0), int64(-1)
	reads := commandReads(a, a.Argv)
	for _, file := range a.Reads() {
		if reads.has(file) {
			in += r.tree.size(file)
		}
	}
	if rec := r.Records.Last(a.Outputs[0]); rec != nil {
		out = 0
		for _, o := range rec.Outputs {
			out += o.Size
		}
	}
	return r.Remote.Portable(a, in, out)
}

// Open implements sched.Distributor.
func (r *Runner) Open() bool { return r.Remote != nil && r.Remote.Open() }

// Opened implements sched.Distributor.
func (r *Runner) Opened() <-chan struct{} {
	if r.Remote == nil {
		return nil
	}
	return r.Remote.Opened()
}
