// Package run starts one process and gives back what it said and what it cost; it reads dependency
// files, chooses a command's environment and locks a build tree. It knows nothing of graphs or keys.
package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command is a process to run. No shell is involved.
type Command struct {
	Argv []string
	Dir  string
	Env  []string // complete
	// Grace is how long a process group may take to end after SIGTERM before SIGKILL; 0 is 5 seconds.
	Grace time.Duration
}

// Result is how a process ended.
type Result struct {
	Output          []byte // standard output and error, in the order written
	ExitCode        int    // -1 if it was ended by a signal
	Signal          syscall.Signal
	Elapsed         time.Duration
	UserCPU, SysCPU time.Duration // of the process and the children it waited for
	MaxRSS          int64         // bytes, of the largest process among them
	OOM             bool          // ended by SIGKILL that we did not send: most likely for memory
}

// Run starts c in a process group of its own and waits for it. A process that ends with a status
// other than 0 is no error. If ctx is cancelled the whole group is ended, and the error is ctx's.
func Run(ctx context.Context, c Command) (Result, error) {
	if len(c.Argv) == 0 {
		panic("BUG: a command without arguments")
	}
	grace := c.Grace
	if grace == 0 {
		grace = 5 * time.Second
	}
	path, err := LookPath(c.Argv[0], c.Dir, c.Env)
	if err != nil {
		return Result{}, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Dir, cmd.Env = c.Argv, c.Dir, c.Env
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace // a grandchild that keeps the pipe open does not hold us
	start := time.Now()
	err = cmd.Run()
	res := Result{Output: out.Bytes(), Elapsed: time.Since(start)}
	if cmd.Process != nil && (ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay)) {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever of the group is left
	}
	res.account(cmd.ProcessState)
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.As(err, &exit), errors.Is(err, exec.ErrWaitDelay):
		return res, nil
	case errors.Is(err, syscall.E2BIG):
		return res, fmt.Errorf("%s: the command line is longer than this system allows (%d arguments): %w", c.Argv[0], len(c.Argv), err)
	}
	return res, fmt.Errorf("starting %s: %w", c.Argv[0], err)
}

func (r *Result) account(s *os.ProcessState) {
	if s == nil {
		return
	}
	r.UserCPU, r.SysCPU = s.UserTime(), s.SystemTime()
	r.ExitCode = s.ExitCode()
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		r.MaxRSS = u.Maxrss << 10 // Linux counts KiB
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		r.Signal = w.Signal()
	}
	r.OOM = r.Signal == syscall.SIGKILL || r.ExitCode == 128+int(syscall.SIGKILL)
}
