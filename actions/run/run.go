// Package run starts one process and returns its output and its cost. It chooses a command's
// environment and locks a build tree. It knows nothing of graphs or keys.
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
	// Grace is how long a process group may take to end after SIGTERM before SIGKILL. It is also
	// how long background processes may hold the output open. 0 means 5 seconds.
	Grace time.Duration
	// Stdout receives standard output by itself; if it is nil, standard output is part of
	// Result.Output.
	Stdout *os.File
	// MaxOutput is how much of the output is kept, in bytes; 0 means DefaultOutput.
	MaxOutput int
}

// Result describes how a process ended.
type Result struct {
	Output []byte // standard output and error, in the order written
	// bytes that are left out of the middle of Output, where a line reports them
	LeftOut         int64
	ExitCode        int // -1 if a signal ended it
	Signal          syscall.Signal
	Elapsed         time.Duration
	UserCPU, SysCPU time.Duration // of the process and the children it waited for
	// bytes, of the largest process among them; 0 if it is not known, see peak
	MaxRSS   int64
	OOM      bool   // a SIGKILL that we did not send ended it or a child: most likely for memory
	NoMemory bool   // it or a child printed that it got no memory
	Killed   bool   // a signal ended it or a child
	Worker   string // the remote worker that it ran on; "" if it ran locally
}

// Run starts c in a process group of its own and waits for it. A process that exits with a status
// other than 0 is not an error. If ctx is cancelled, Run ends the whole group and returns ctx's
// error. The process dies with this one, see EndOrphans.
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
	var cmd *exec.Cmd
	for delay := time.Millisecond; ; delay *= 2 {
		cmd = exec.CommandContext(ctx, path)
		cmd.Args, cmd.Dir, cmd.Env = c.Argv, c.Dir, c.Env
		cmd.Stdout, cmd.Stderr = &out, &out // equal, so one pipe: the order is kept
		if c.Stdout != nil {
			cmd.Stdout = c.Stdout
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		cmd.WaitDelay = cmp.Or(c.Grace, 5*time.Second)
		// A program that was just written may be busy for a moment. When this process forks, the
		// child holds every open file until it executes a program, even a program that another
		// goroutine is writing (golang.org/issue/22315).
		err = cmd.Start()
		if !errors.Is(err, syscall.ETXTBSY) || delay > 500*time.Millisecond {
			break
		}
		time.Sleep(delay)
	}
	if err != nil {
		return Result{}, c.explain(err)
	}
	err = cmd.Wait()
	res := Result{Elapsed: time.Since(start)}
	if ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the rest of the group
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

// explain returns an error that explains why a process did not start.
func (c *Command) explain(err error) error {
	name := c.Argv[0]
	switch {
	case errors.Is(err, syscall.E2BIG):
		size := 0
		for _, a := range c.Argv {
			size += len(a) + 1
		}
		return fmt.Errorf("%s: the command line is longer than this system allows (%d arguments, %d bytes): %w", name, len(c.Argv), size, err)
	case errors.Is(err, syscall.ENOENT):
		if info, dirErr := os.Stat(cmp.Or(c.Dir, ".")); dirErr == nil && info.IsDir() {
			return fmt.Errorf("starting %s: its interpreter (its first line, or the dynamic "+
				"loader) is missing: %w", name, err)
		}
	}
	return fmt.Errorf("starting %s: %w", name, err)
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

// judge decides from the status and the output of a process whether a signal or a lack of memory
// ended it.
func (r *Result) judge() {
	bad := r.ExitCode > 0
	r.OOM = r.Signal == syscall.SIGKILL || r.ExitCode == 128+int(syscall.SIGKILL) || bad && childKilled().Match(r.Output)
	r.NoMemory = (bad || r.Signal != 0) && saysNoMemory().Match(r.Output)
	r.Killed = r.OOM || r.Signal != 0 || r.ExitCode > 128 && r.ExitCode <= 128+lastSignal || bad && childEnded().Match(r.Output)
}

// lastSignal is the highest number of a signal. A shell, and nvcc 11.8, which prints nothing, exit
// with 128 and the number of the signal that ended their child. nvlink's own 255 is not such a
// status.
const lastSignal = 64

// childKilled and childEnded match what drivers print about a sub-process that a signal ended: gcc
// of a compiler, gcc of the linker, nvcc and nvlink, hipcc, clang. They exit with a status of their
// own then.
var (
	childKilled = expression(`Killed signal terminated program|terminated with signal 9 |(?:died due to|child died with) signal 9\b|unable to execute command: Killed`)
	childEnded  = expression(`signal terminated program|terminated with signal \d|(?:died due to|child died with) signal \d|command failed due to signal|unable to execute command: `)
)

// saysNoMemory matches the messages of tools that got no memory: EDG's front ends (cicc, cudafe++),
// gcc, LLVM's, GNU ld's, ptxas and nvlink, programs in C++, and programs that cannot start a
// process. (Tried with ulimit -v, but for ld.)
var saysNoMemory = expression(`catastrophic error: out of memory|: out of memory allocating \d+ bytes|(?m:^virtual memory exhausted)|LLVM ERROR: out of memory` +
	`|: memory exhausted|fatal\s+: Memory allocation failure|heap memory may be exhausted|instance of 'std::bad_alloc'|(?m:: Cannot allocate memory$)`)

// expression compiles text when it is first needed: after a failure.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
