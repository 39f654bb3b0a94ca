// Package run starts one process and returns its output and its cost. It chooses a command's
// environment and locks a build tree. It knows nothing of graphs or keys.
package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Command is a process to run. No shell is involved, and its standard input is empty.
type Command struct {
	Argv []string
	Dir  string
	Env  []string // complete
	// grace is how long a process group may take to end after SIGTERM before SIGKILL. It is also
	// how long background processes may hold the output open. 0 means 5 seconds.
	grace time.Duration
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
		cmd.WaitDelay = cmp.Or(c.grace, 5*time.Second)
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

// The output of a command is kept whole up to a limit. Beyond it, only its beginning and its end
// are kept, cut at lines: the first error of a compiler matters, and the last words of a driver. A
// record, the cache, a terminal and JSON each hold another copy of the output: 100 MB took 1 to 1.9
// GB. The command is not stopped, and never waits.

// DefaultOutput is how much of a command's output is kept, in bytes.
const DefaultOutput = 1 << 20

// output keeps the first and the last half of what is written to it.
type output struct {
	half int
	head []byte
	tail []byte // cut to half when it is twice as long
	left int64  // bytes that were cut off
}

// Write implements io.Writer. It never fails.
func (o *output) Write(b []byte) (int, error) {
	k := min(len(b), o.half-len(o.head))
	o.head = append(o.head, b[:k]...)
	o.tail = append(o.tail, b[k:]...)
	if len(o.tail) >= 2*o.half {
		o.cut()
	}
	return len(b), nil
}

func (o *output) cut() {
	if over := len(o.tail) - o.half; over > 0 {
		o.left += int64(over)
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
}

// ReadFrom implements io.ReaderFrom, which io.Copy prefers to a buffer of its own: most commands
// print nothing, and there may be 100,000.
func (o *output) ReadFrom(r io.Reader) (n int64, err error) {
	buf := outputBuffers.Get().(*[4 << 10]byte)
	defer outputBuffers.Put(buf)
	for {
		k, err := r.Read(buf[:])
		o.Write(buf[:k])
		if n += int64(k); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

var outputBuffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// bytes returns the output that is kept, and how many bytes are left out.
func (o *output) bytes() (printed []byte, left int64) {
	o.cut()
	head, tail := o.head, o.tail
	if o.left == 0 {
		return append(head, tail...), 0
	}
	if end := bytes.LastIndexByte(head, '\n'); end >= 0 {
		head = head[:end+1]
	}
	if end := bytes.IndexByte(tail, '\n'); end >= 0 {
		tail = tail[end+1:]
	}
	left = o.left + int64(len(o.head)-len(head)) + int64(len(o.tail)-len(tail))
	printed = fmt.Appendf(bytes.Clone(head), "kbuild: %d bytes of output are left out here\n", left)
	return append(printed, tail...), left
}

// Shorten keeps the first and the last half of at most so many bytes of text.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	o := output{half: most / 2}
	o.Write([]byte(text))
	printed, _ := o.bytes()
	return string(printed)
}

// DropRelativePath removes relative and empty entries from this process's PATH, for itself and for
// all that it starts. They would name programs in a process's working directory, which is not the
// folder that the user sees.
func DropRelativePath() {
	path := os.Getenv("PATH")
	dirs := filepath.SplitList(path)
	absolute := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return !filepath.IsAbs(d) })
	switch {
	case len(absolute) == len(dirs):
	case len(absolute) == 0:
		os.Unsetenv("PATH") // an empty PATH means the current folder
	default:
		os.Setenv("PATH", strings.Join(absolute, string(os.PathListSeparator)))
	}
}

// LookPath finds a program. A name with a slash is relative to dir. Other names are searched in the
// absolute folders of env's PATH.
func LookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		p := name
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if err := executable(p); err != nil {
			return "", fmt.Errorf("%s cannot be run: %w", name, err)
		}
		return p, nil
	}
	path := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		if p := filepath.Join(d, name); filepath.IsAbs(d) && executable(p) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s was not found in PATH (%s)", name, path)
}

func executable(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is no executable file", p)
	}
	return nil
}

// peak returns the peak memory of a process, which rusage reports, or 0 if that is no more than
// what this process had.
//
// A child begins with the peak of its parent: it shares the parent's memory, or a copy, until it
// executes a program, and Linux counts that (exec_mmap in fs/exec.c). /bin/true started by a kbuild
// of 1.3 GB has a peak of 1.3 GB. If that counted as the need of every small compile of a large
// project, the next build could run only a few concurrently.
//
// rusage counts the largest process of the tree, not the sum of those that run together. The passes
// of nvcc and of g++ run one after another, so for them it is the peak of the tree. For a script
// that runs four compilers it is not.
func peak(rusage int64) int64 {
	// for most processes this saves a query to the kernel, which costs as much as a small file
	if !beyond(rusage, earlierPeak.Load()) {
		return 0
	}
	own := ownPeak()
	earlierPeak.Store(own)
	if !beyond(rusage, own) {
		return 0
	}
	return rusage
}

// earlierPeak is the last result of ownPeak; it never falls.
var earlierPeak atomic.Int64

// beyond reports whether rusage is more than the memory of this process. The kernel's counters are
// not exact to the page.
func beyond(rusage, own int64) bool { return rusage > own+own/16 }

// ownPeak returns the peak of this process's memory. Rusage would not do: it has the peak of the
// process that started kbuild, if that is larger.
func ownPeak() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "\nVmHWM:")
	kib, _, _ := strings.Cut(after, "kB")
	n, _ := strconv.ParseInt(strings.TrimSpace(kib), 10, 64)
	return n << 10
}

// HugePages returns the variables that make malloc of a program use huge pages. cudafe++ 11.8
// clears 128 MiB of tables for any source, and cicc grows by as much: that is 45,000 page faults,
// or 64 with huge pages. They save 43 % of the CPU time of cudafe++ and 25 % of that of cicc. If
// the kernel must first compact memory, the same costs up to 50 % more. So HugePages requests them
// only while the kernel has need bytes of free memory in blocks of that size (docs/nvcc.md).
//
// The variables do nothing, and no harm, without glibc 2.35. HugePages returns none if huge pages
// are off, or on for all processes.
func HugePages(need int64) []string {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || !strings.Contains(string(mode), "[madvise]") || os.Getpagesize() != 4096 {
		return nil
	}
	free, err := os.ReadFile("/proc/buddyinfo")
	if err != nil || freeHuge(string(free)) < need {
		return nil
	}
	return []string{"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}
}

// hugeOrder is the order of a block of 2 MiB, in pages of 4 KiB.
const hugeOrder = 9

// freeHuge returns the free memory in blocks of at least 2 MiB, in bytes. A line of /proc/buddyinfo
// has "Node 0, zone Normal" and the number of free blocks of each order.
func freeHuge(buddyinfo string) int64 {
	var pages int64
	for line := range strings.Lines(buddyinfo) {
		_, counts, ok := strings.Cut(line, "zone")
		if !ok {
			continue
		}
		for i, f := range strings.Fields(counts) {
			// the zone's name is field 0
			if n, err := strconv.ParseInt(f, 10, 64); err == nil && i > hugeOrder {
				pages += n << (i - 1)
			}
		}
	}
	return pages << 12
}
