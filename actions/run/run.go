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

// Command is a process to run. No shell is involved, and its standard input is empty.
type Command struct {
	Argv []string
	Dir  string
	Env  []string // complete
	// Grace is how long a process group may take to end after SIGTERM before SIGKILL, and how long
	// what it left in the background may hold its output open; 0 is 5 seconds.
	Grace time.Duration

	wait func(time.Duration) // between tries to start a file that is busy; nil is time.Sleep
}

// Result is how a process ended.
type Result struct {
	Output          []byte // standard output and error, in the order written
	ExitCode        int    // -1 if it was ended by a signal
	Signal          syscall.Signal
	Elapsed         time.Duration
	UserCPU, SysCPU time.Duration // of the process and the children it waited for
	MaxRSS          int64         // bytes, of the largest process among them; 0 if it cannot be told, see peak
	OOM             bool          // it or a child was ended by SIGKILL that we did not send: most likely for memory
}

// Run starts c in a process group of its own and waits for it. A process that ends with a status
// other than 0 is no error. If ctx is cancelled the whole group is ended, and the error is ctx's. The
// process dies with this one, see EndOrphans.
func Run(ctx context.Context, c Command) (Result, error) {
	if len(c.Argv) == 0 {
		panic("BUG: a command without arguments")
	}
	path, err := LookPath(c.Argv[0], c.Dir, c.Env)
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	start := time.Now()
	var out bytes.Buffer
	cmd, err := c.start(ctx, path, &out)
	if err != nil {
		return Result{}, c.explain(err)
	}
	err = cmd.Wait()
	res := Result{Elapsed: time.Since(start)}
	if ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever of the group is left
	}
	res.Output = out.Bytes()
	res.account(cmd.ProcessState)
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		return res, nil
	}
	return res, fmt.Errorf("waiting for %s: %w", c.Argv[0], err)
}

// start starts the process. A program that was just written may be busy for a moment: when this
// process forks, the child holds every open file until it executes, so also a program that another
// goroutine is writing (golang.org/issue/22315).
func (c *Command) start(ctx context.Context, path string, out *bytes.Buffer) (*exec.Cmd, error) {
	wait := c.wait
	if wait == nil {
		wait = time.Sleep
	}
	for delay := time.Millisecond; ; delay *= 2 {
		cmd := c.prepare(ctx, path, out)
		err := cmd.Start()
		if !errors.Is(err, syscall.ETXTBSY) || delay > 500*time.Millisecond {
			return cmd, err
		}
		wait(delay)
	}
}

func (c *Command) prepare(ctx context.Context, path string, out *bytes.Buffer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Dir, cmd.Env = c.Argv, c.Dir, c.Env
	cmd.Stdout, cmd.Stderr = out, out // equal, so one pipe: the order is kept
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if cmd.WaitDelay = c.Grace; c.Grace == 0 {
		cmd.WaitDelay = 5 * time.Second
	}
	return cmd
}

// explain says in words why a process did not start.
func (c *Command) explain(err error) error {
	name := c.Argv[0]
	switch {
	case errors.Is(err, syscall.E2BIG):
		size := 0
		for _, a := range c.Argv {
			size += len(a) + 1
		}
		return fmt.Errorf("%s: the command line is longer than this system allows (%d arguments, %d bytes): %w", name, len(c.Argv), size, err)
	case errors.Is(err, syscall.ENOENT) && isFolder(c.Dir):
		return fmt.Errorf("starting %s: its interpreter (its first line, or the dynamic loader) is missing: %w", name, err)
	}
	return fmt.Errorf("starting %s: %w", name, err)
}

func isFolder(dir string) bool {
	info, err := os.Stat(dir)
	return dir == "" || err == nil && info.IsDir()
}

func (r *Result) account(s *os.ProcessState) {
	if s == nil {
		return
	}
	r.UserCPU, r.SysCPU = s.UserTime(), s.SystemTime()
	r.ExitCode = s.ExitCode()
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		r.MaxRSS = peak(u.Maxrss<<10, ownPeak()) // Linux counts KiB
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		r.Signal = w.Signal()
	}
	r.OOM = r.Signal == syscall.SIGKILL || r.ExitCode == 128+int(syscall.SIGKILL) || r.ExitCode > 0 && childKilled(r.Output)
}

// childKilled finds what drivers say of a sub-process that was ended by SIGKILL: gcc of a compiler,
// gcc of the linker, nvcc. They exit with 1 then; nvcc 11.8 says nothing and exits with 137.
func childKilled(output []byte) bool {
	for _, words := range []string{"Killed signal terminated program", "terminated with signal 9 ", "died due to signal 9 "} {
		if bytes.Contains(output, []byte(words)) {
			return true
		}
	}
	return false
}
