package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// processes starts the commands of actions and the queries to their tools.
type processes struct {
	root            string
	env             []string
	gpuEnv          []string // for tests that need a GPU
	scratches       *scratches
	remoteTransport *remoteTransport // nil without remote execution
	frontEnds       atomic.Int64     // number of front ends running now, see run.HugePages
	// commands must print only on stderr, since records do not keep which stream it was
	errorOnly bool
}

// frontEndMemory is the memory that cudafe++ and cicc use for an ordinary source, in bytes.
const frontEndMemory = 256 << 20

// run runs argv, the command of a, locally or remotely.
func (p *processes) run(ctx context.Context, a *graph.Action, argv []string, dir scratch) (run.Result, error) {
	here := func(ctx context.Context) (run.Result, error) {
		argv, err := respond(a, argv, dir)
		if err != nil {
			return run.Result{}, err
		}
		return p.runHere(ctx, a, argv, dir)
	}
	if dir.here != nil {
		return p.remoteTransport.runRemote(ctx, a, argv, dir, here)
	}
	return here(ctx)
}

// runHere runs argv, the command of a, locally.
func (p *processes) runHere(ctx context.Context, a *graph.Action, argv []string, dir scratch) (run.Result, error) {
	cwd := dir.cwd(p.root, a)
	if cwd != p.root {
		if err := os.MkdirAll(cwd, 0o777); err != nil {
			return run.Result{}, err
		}
	}
	env := p.environ(a, dir.tmp)
	if a.Kind.Info().FrontEnd {
		env = append(env, run.HugePages(p.frontEnds.Add(1)*frontEndMemory)...)
		defer p.frontEnds.Add(-1)
	}
	if dir.traced {
		argv = strace.Args(dir.file(straceFile), argv)
	}
	c := run.Command{Argv: argv, Dir: cwd, Env: env, MaxOutput: maxOutput(a)}
	traced := discover.IsTraced(a)
	if traced || p.errorOnly {
		f, err := os.Create(dir.traceFile())
		if err != nil {
			return run.Result{}, err
		}
		defer f.Close()
		c.Stdout = f
	}
	out, err := runWithin(ctx, a.Test().Timeout, c, dir.tmp)
	if err == nil && c.Stdout != nil && !traced {
		if info, statErr := c.Stdout.Stat(); statErr != nil || info.Size() > 0 {
			err = errors.New("it writes to standard output")
		}
	}
	if errors.Is(err, unix.ENOMEM) {
		err = &ended{err.Error(), true}
	}
	return out, err
}

// errTimeout is the error of a test that exceeded its timeout.
var errTimeout = errors.New("it ran longer than its timeout")

// runWithin runs c, and kills it with all that it started once limit has passed. It ends the
// process group first, then the processes that left the group. It finds those by tmp, their folder
// for temporary files. A limit of 0 means no limit.
func runWithin(ctx context.Context, limit time.Duration, c run.Command, tmp string) (run.Result, error) {
	if limit == 0 {
		return run.Run(ctx, c)
	}
	within, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	out, err := run.Run(within, c)
	if err == nil || ctx.Err() != nil || context.Cause(within) != errTimeout {
		return out, err
	}
	return out, errors.Join(fmt.Errorf("%w of %v, and was ended", errTimeout, limit), run.EndOrphans(tmp))
}

// environ returns the environment of a's commands.
func (p *processes) environ(a *graph.Action, tmp string) []string {
	test := a.Test()
	env := slices.Concat(p.env, []string{"TMPDIR=" + tmp})
	if test.GPU {
		env = append(env, p.gpuEnv...)
	}
	env = append(env, a.Env...)
	var dirs []string
	for _, dir := range test.LibDirs {
		dirs = append(dirs, cache.Absolute(p.root, dir))
	}
	return run.WithLibraryFolders(env, dirs)
}

// maxOutput returns how many bytes of an action's output are kept. Output that kbuild parses has a
// limit that no real output reaches. ptxas prints 300 bytes for each function, and nvlink a line
// for each symbol that it misses.
func maxOutput(a *graph.Action) int {
	if a.Work.Link != nil || a.Step().ResourceUsage {
		return 32 << 20
	}
	return run.DefaultOutput
}

// ask runs a query in the root, with the environment of a's commands: see discover.Ask.
func (p *processes) ask(ctx context.Context, a *graph.Action, question []string, quiet bool) (printed string, ok bool) {
	if p.scratches.open() != nil {
		return "", false
	}
	c := run.Command{Argv: question, Dir: p.root, Env: p.environ(a, p.scratches.dir), MaxOutput: 4 << 20}
	if quiet {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return "", false
		}
		defer null.Close()
		c.Stdout = null
	}
	out, err := run.Run(ctx, c)
	if err != nil || out.LeftOut > 0 {
		return "", false
	}
	return string(out.Output), out.ExitCode == 0
}
