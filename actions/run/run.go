// Package run starts one process and gives back what it said and what it cost; it chooses a
// command's environment and locks a build tree. It knows nothing of graphs or keys.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
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
	// Stdout gets standard output by itself; nil is among Result.Output.
	Stdout *os.File
	// MaxOutput is how much of what it says is kept, in bytes; 0 is DefaultOutput.
	MaxOutput int

	wait func(time.Duration) // between tries to start a file that is busy; nil is time.Sleep
}

// Result is how a process ended.
type Result struct {
	Output          []byte // standard output and error, in the order written
	LeftOut         int64  // bytes in the middle of it that were more than is kept; a line in Output says so
	ExitCode        int    // -1 if it was ended by a signal
	Signal          syscall.Signal
	Elapsed         time.Duration
	UserCPU, SysCPU time.Duration // of the process and the children it waited for
	MaxRSS          int64         // bytes, of the largest process among them; 0 if it cannot be told, see peak
	OOM             bool          // it or a child was ended by SIGKILL that we did not send: most likely for memory
	NoMemory        bool          // it or a child said that it got no memory
	Killed          bool          // it or a child was ended by a signal
	Worker          string        // the other machine that it ran on; "" is this one
}

// Run starts c in a process group of its own and waits for it. A process that ends with a status
// other than 0 is no error. If ctx is cancelled the whole group is ended, and the error is ctx's.
// The process dies with this one, see EndOrphans.
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
	out := output{half: cmp.Or(c.MaxOutput, DefaultOutput) / 2}
	cmd, err := c.start(ctx, path, &out)
	if err != nil {
		return Result{}, c.explain(err)
	}
	err = cmd.Wait()
	res := Result{Elapsed: time.Since(start)}
	if ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever of the group is left
	}
	res.Output, res.LeftOut = out.bytes()
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
func (c *Command) start(ctx context.Context, path string, out *output) (*exec.Cmd, error) {
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

func (c *Command) prepare(ctx context.Context, path string, out *output) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Dir, cmd.Env = c.Argv, c.Dir, c.Env
	cmd.Stdout, cmd.Stderr = out, out // equal, so one pipe: the order is kept
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
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
		r.MaxRSS = peak(u.Maxrss << 10) // Linux counts KiB
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		r.Signal = w.Signal()
	}
	r.judge()
}

// judge tells from how a process ended, and what it said, whether it was ended.
func (r *Result) judge() {
	bad := r.ExitCode > 0
	r.OOM = r.Signal == syscall.SIGKILL || r.ExitCode == 128+int(syscall.SIGKILL) || bad && childKilled().Match(r.Output)
	r.NoMemory = (bad || r.Signal != 0) && saysNoMemory().Match(r.Output)
	r.Killed = r.OOM || r.Signal != 0 || r.ExitCode > 128 && r.ExitCode <= 128+lastSignal || bad && childEnded().Match(r.Output)
}

// lastSignal is the highest number of a signal: a shell, and nvcc 11.8, which says nothing, exit
// with 128 and the number of what ended their child. nvlink's own 255 is none.
const lastSignal = 64

// What drivers say of a sub-process that a signal ended: gcc of a compiler, gcc of the linker, nvcc
// and nvlink, hipcc, clang. They exit with a status of their own then.
var (
	childKilled = expression(`Killed signal terminated program|terminated with signal 9 |(?:died due to|child died with) signal 9\b|unable to execute command: Killed`)
	childEnded  = expression(`signal terminated program|terminated with signal \d|(?:died due to|child died with) signal \d|command failed due to signal|unable to execute command: `)
)

// saysNoMemory finds the words in which tools end that got no memory: EDG's front ends (cicc,
// cudafe++), gcc, LLVM's, GNU ld's, ptxas and nvlink, whatever is written in C++, and who cannot
// start a process. (Tried with ulimit -v, but for ld.)
var saysNoMemory = expression(`catastrophic error: out of memory|: out of memory allocating \d+ bytes|(?m:^virtual memory exhausted)|LLVM ERROR: out of memory` +
	`|: memory exhausted|fatal\s+: Memory allocation failure|heap memory may be exhausted|instance of 'std::bad_alloc'|(?m:: Cannot allocate memory$)`)

// expression is compiled when it is first needed: after a failure.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
