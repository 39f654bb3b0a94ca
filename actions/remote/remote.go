// Package remote runs commands of actions on other machines, and locally as well if a slot is free
// (see sched.Runner). It knows which commands can run remotely, and which files and arguments
// they have there. It does not know the server's protocol (cache/remote), or what becomes of the
// outputs (actions/execute).
package remote

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/run"
	server "github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
)

// Server runs commands remotely.
type Server interface {
	// Overhead returns how much longer a command takes remotely, by the bytes that are transferred
	// for it.
	Overhead(bytes int64) time.Duration
	Execute(ctx context.Context, cmd server.Command) (*server.Outcome, error)
	// Judge records whether a command that failed remotely succeeded locally.
	Judge(out *server.Outcome, well bool)
	// Used records that the outputs of a command were used.
	Used()
}

// Estimates are what an action is expected to take locally. Memory is 0 if it is unknown.
type Estimates interface {
	Cost(a *graph.Action) time.Duration
	Memory(a *graph.Action) int64
}

// Executor implements execute.Remote.
type Executor struct {
	Server Server
	// platform properties that workers must have, in the server's words; {memory} stands for bytes
	Platform  [][2]string
	Estimates Estimates

	texts    sync.Mutex // locked while a text is written: see addText
	programs sync.Map   // see once
}

// failedRemotely is the error of a command that failed remotely. That says nothing about its action
// before the command has run locally.
type failedRemotely struct{ out *server.Outcome }

func (f *failedRemotely) Error() string { return "it failed on another machine" }

// Unwrap returns execute.ErrLost, since the remote result is lost.
func (f *failedRemotely) Unwrap() error { return execute.ErrLost }

// Judge implements execute.Remote.
func (x *Executor) Judge(err error, well bool) {
	var f *failedRemotely
	if errors.As(err, &f) {
		x.Server.Judge(f.out, well)
	}
}

// Portable implements execute.Remote. It returns false if a takes less time locally than its files
// take to transfer.
func (x *Executor) Portable(a *graph.Action, in, out int64) bool {
	if !canRunRemotely(a) {
		return false
	}
	if hasText(a) {
		in += usualText
	}
	if out < 0 {
		out = in // the estimate without a record
	}
	return x.Estimates.Cost(a) > x.Server.Overhead(in+out)
}

// canRunRemotely reports whether kbuild knows all that the command of a reads, and its outputs do
// not depend on the machine.
func canRunRemotely(a *graph.Action) bool {
	switch {
	case !a.Kind.Info().Portable, a.CwdInKey, a.Pass().StageInKey, a.InPlace, a.Work.Keep != nil:
		return false
	// a clang that starts an lld of its own
	case a.Kind.Info().Linker == graph.LinkerLLD && !slices.Contains(a.Argv, "-flavor"):
		return false
	case a.Kind.Info().Writes == graph.FormObject, a.Depfile != "":
		return hasText(a)
	}
	return true
}

// outcome is the result of one of two runs of a command.
type outcome struct {
	run.Result
	err error
}

// Run implements execute.Remote. It runs c remotely. Once local is closed, it runs c on this
// machine, too. The first run to end counts, unless it is a remote failure.
func (x *Executor) Run(
	ctx context.Context, c *execute.Command, local <-chan struct{},
) (run.Result, error) {
	p, err := x.pack(ctx, c)
	if err != nil {
		return run.Result{}, execute.ErrLost
	}
	there, here := make(chan outcome, 1), make(chan outcome, 1)
	remotely, beaten := context.WithCancelCause(ctx)
	defer beaten(nil)
	go func() {
		res, err := x.execute(remotely, p)
		there <- outcome{res, err}
	}()
	select {
	case o := <-there:
		if o.err == nil {
			o.err = x.accept(p)
		}
		return o.Result, o.err
	case <-local:
	}
	locally, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		res, err := c.Run(locally)
		here <- outcome{res, err}
	}()
	select {
	case o := <-here:
		beaten(server.ErrBeaten)
		// the remote run may have ended too
		go func() { x.Judge((<-there).err, o.err == nil && o.ExitCode == 0) }()
		return o.Result, o.err
	case o := <-there:
		if o.err == nil {
			stop()
			if l := <-here; ctx.Err() != nil {
				return l.Result, l.err
			}
			return o.Result, x.accept(p)
		}
		l := <-here
		x.Judge(o.err, l.err == nil && l.ExitCode == 0)
		return l.Result, l.err
	}
}

// execute runs a packed command remotely, and then its local rest.
func (x *Executor) execute(ctx context.Context, p *request) (run.Result, error) {
	begun := time.Now()
	out, err := x.Server.Execute(ctx, p.cmd)
	switch {
	case err == nil && out.ExitCode != 0:
		return run.Result{}, &failedRemotely{out}
	case err != nil, p.silent && len(out.Stdout)+len(out.Stderr) > 0:
		return run.Result{}, execute.ErrLost
	case len(out.Stdout) > 0 && len(out.Stderr) > 0: // their order is unknown
		return run.Result{}, execute.ErrLost
	}
	res := run.Result{Output: append(out.Stdout, out.Stderr...), Elapsed: out.Elapsed,
		UserCPU: out.Elapsed, Worker: cmp.Or(out.Worker, "another machine")}
	if p.then != nil {
		last, err := p.then.Run(ctx)
		if err != nil || last.ExitCode != 0 || len(last.Output) > 0 {
			return run.Result{}, execute.ErrLost
		}
		res.UserCPU += last.UserCPU + last.SysCPU
	}
	if res.Elapsed <= 0 {
		res.Elapsed = time.Since(begun)
	}
	return res, nil
}

// accept moves the returned files to where the command would have written them locally.
func (x *Executor) accept(p *request) error {
	for from, to := range p.moves {
		if err := os.Rename(from, to); err != nil {
			return execute.ErrLost
		}
	}
	x.Server.Used()
	return nil
}
