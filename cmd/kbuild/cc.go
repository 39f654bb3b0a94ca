package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/actions/jobserver"
	"github.com/kbuild-dev/kbuild/actions/launch"
	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/actions/machine"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// launched reports whether the command line runs a compiler: `kbuild cc -- nvcc ARGS...`, or kbuild
// under the name of a compiler. Such a command line must not reach kong's parser.
func launched(name string, args []string) (compiler []string, ok bool) {
	switch {
	case len(args) > 1 && args[0] == "cc" && args[1] == "--":
		return args[2:], len(args) > 2
	case len(args) > 1 && args[0] == "cc" && !strings.HasPrefix(args[1], "-"):
		return args[1:], true
	case slices.Contains(vendors.Compilers, filepath.Base(name)):
		return append([]string{filepath.Base(name)}, args...), true
	}
	return nil, false
}

// launchCompiler runs a compiler's command line and returns its exit status. If the command is not
// cached, its passes run; if it cannot be split, the compiler runs instead.
func (c *cli) launchCompiler(args []string) int {
	call, err := quick.Read(args)
	if err != nil {
		c.say("error: kbuild cc: %v", err)
		return 127
	}
	if quick.Disabled() {
		return c.leave(call)
	}
	done, changed, err := call.Try()
	if done {
		return 0
	}
	var res *launch.Result
	if err == nil {
		res, err = c.passes(call, len(changed) > 0)
	}
	if ended, is := err.(endedBy); is {
		return die(syscall.Signal(ended))
	}
	if err == nil {
		err = call.Place(res.Made)
	}
	if err != nil {
		call.Log(quick.Entry{Result: quick.Left, Why: err.Error()})
		return c.leave(call) // the compiler reports its own errors; --stats lists those of kbuild
	}
	entry := quick.Entry{Result: quick.Miss, Why: strings.Join(changed, ", "), Ran: res.Ran, Taken: res.Hits}
	if res.Ran == 0 {
		entry.Result = quick.Hit
	}
	call.Log(entry)
	if res.Starved != "" {
		c.say("kbuild: %s ran out of memory, and ran again with nothing beside it", res.Starved)
	}
	quick.Say(res.Made.Stderr)
	if limit, err := cacheSize(); err == nil {
		call.Store.MaybeGC(context.Background(), limit) // with only the launcher, nothing else evicts
	}
	return 0
}

// endedBy is the signal that this process received while passes ran. Its children received it, too.
type endedBy syscall.Signal

func (s endedBy) Error() string { return syscall.Signal(s).String() }

// passes splits the command and runs its passes. If a command prints messages on a terminal, it
// falls back to the compiler, which formats them. If it printed some the last time and its inputs
// have not changed, it falls back without running first.
func (c *cli) passes(call *quick.Call, changed bool) (*launch.Result, error) {
	if call.Last != nil && !changed && quick.Shown(call.Last) {
		return nil, errShown
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endings()...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { cancel(endedBy((<-signals).(syscall.Signal))) }()
	l := &launch.Launch{Call: call}
	if client := broker.FromEnviron(c.ofAll(), nil); client != nil {
		l.Broker, l.Jobs = shared{client, call.Dir}, machine.Processors("/")
	}
	switch tokens, err := jobserver.FromEnviron(os.Getenv("MAKEFLAGS")); {
	case err != nil: // a recipe without +: make granted it one job
		l.Jobs = 1
	case tokens != nil:
		defer tokens.Close()
		l.Jobserver = tokens
	}
	res, err := l.Compile(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && quick.Shown(res.Made) {
		err = errShown
	}
	return res, err
}

// errShown is why a command that prints messages on a terminal falls back.
var errShown = errors.New("it has messages, which the compiler shows on a terminal in its own way")

// endings returns the signals that end a compiler. Signals that the caller ignores, as nohup does,
// stay ignored.
func endings() []os.Signal {
	return slices.DeleteFunc([]os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}, signal.Ignored)
}

// die ends this process by the signal that would have ended the compiler. Shells and make
// distinguish a signal from an exit status.
func die(s syscall.Signal) int {
	var byDefault [4]uintptr // a struct sigaction; Go's runtime would dump its stacks on SIGQUIT
	runtime.LockOSThread()
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	unix.Tgkill(os.Getpid(), unix.Gettid(), s)
	return 128 + int(s)
}

// leave takes a lease, then replaces this process with the compiler. The compiler inherits the
// lease, so a launcher that it starts does not wait for another: see package broker.
func (c *cli) leave(call *quick.Call) int {
	if !quick.Disabled() && call.Nowhere == nil && launch.Counted(call.Argv) {
		r := broker.Request{Memory: graph.Compile.Info().Memory, Label: filepath.Base(call.Argv[0]), Project: call.Dir}
		if call.Last != nil {
			for _, peak := range call.Last.Peaks {
				r.Memory = max(r.Memory, peak)
			}
		}
		l, err := broker.FromEnviron(c.ofAll(), nil).Acquire(context.Background(), r)
		if err == nil {
			l.Inherit()
		}
	}
	c.say("error: kbuild cc: %v", call.Exec())
	return 126
}
