package main

import (
	"context"
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
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/graph"
)

// launched reports a command line of a compiler, which no parser of options may touch: `kbuild cc
// -- nvcc ARGS...`, or kbuild under the name of a compiler.
func launched(name string, args []string) (compiler []string, ok bool) {
	switch {
	case len(args) > 1 && args[0] == "cc" && args[1] == "--":
		return args[2:], len(args) > 2
	case len(args) > 1 && args[0] == "cc" && !strings.HasPrefix(args[1], "-"):
		return args[1:], true
	case slices.Contains(launch.Compilers, filepath.Base(name)):
		return append([]string{filepath.Base(name)}, args...), true
	}
	return nil, false
}

// launchCompiler runs a command line of a compiler, and gives its exit status.
func (c *cli) launchCompiler(args []string) int {
	call, err := quick.Read(args)
	if err != nil {
		c.say("error: kbuild cc: %v", err)
		return 127
	}
	if quick.Disabled() {
		return c.leave(call)
	}
	store, err := quick.OpenStore()
	if err == nil {
		err = call.Nowhere
	}
	if err != nil {
		call.Log(store, quick.Entry{Result: quick.Left, Why: err.Error()})
		return c.leave(call)
	}
	done, changed := call.Try(context.Background(), store)
	if done {
		call.Log(store, quick.Entry{Result: quick.Hit})
		return 0
	}
	return c.compile(call, store, changed)
}

// compile takes the command apart, or leaves it to the compiler.
func (c *cli) compile(call *quick.Call, store *disk.Store, changed []string) int {
	res, ended, err := c.passes(call, store, len(changed) > 0)
	if ended != 0 {
		return die(ended)
	}
	if err == nil {
		err = res.Place(context.Background(), call)
	}
	if err != nil {
		call.Log(store, quick.Entry{Result: quick.Left, Why: err.Error()})
		return c.leave(call) // which says what is wrong, if it is more than with kbuild: see --stats
	}
	entry := quick.Entry{Result: quick.Miss, Why: strings.Join(changed, ", "), Ran: res.Ran, Taken: res.Hits}
	if res.Ran == 0 {
		entry.Result = quick.Hit
	}
	call.Log(store, entry)
	if res.Starved != "" {
		c.say("kbuild: %s ran out of memory, and ran again with nothing beside it", res.Starved)
	}
	quick.Say(res.Made.Stderr)
	if limit, err := cacheSize(); err == nil {
		store.MaybeGC(context.Background(), limit) // who builds with the launcher alone has nobody else to do it
	}
	return 0
}

// passes takes the command apart. ended is the signal that this process got meanwhile, which what
// it had started has got too. A command with messages for a terminal is not run for nothing: unless
// something has changed since.
func (c *cli) passes(call *quick.Call, store *disk.Store, changed bool) (res *launch.Result, ended syscall.Signal, err error) {
	if call.Last != nil && !changed && quick.Shown(call.Last) {
		return nil, 0, errShown
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endings()...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got := make(chan syscall.Signal, 1)
	go func() {
		select {
		case s := <-signals:
			got <- s.(syscall.Signal)
			cancel()
		case <-ctx.Done():
		}
	}()
	l := &launch.Launch{Call: call, Store: store}
	if client := broker.FromEnviron(os.Getenv, c.ofAll(), nil); client != nil {
		defer client.Close()
		l.Broker, l.Jobs = shared{client, call.Dir}, machine.Processors("/")
	}
	switch tokens, err := jobserver.FromEnviron(os.Getenv("MAKEFLAGS")); {
	case err != nil: // as for a recipe without +: it has the one job that make has given it
		l.Jobs = 1
	case tokens != nil:
		defer tokens.Close()
		l.Jobserver = tokens
	}
	res, err = l.Compile(ctx)
	if ctx.Err() != nil {
		return nil, <-got, err
	}
	if err == nil && quick.Shown(res.Made) {
		err = errShown
	}
	return res, 0, err
}

// errShown is why such a command is left.
var errShown = launch.Left{Why: "it has messages, which the compiler shows on a terminal in its own way"}

// lease waits for a lease for a compiler that is left alone, which goes over to it. A launcher that
// it starts does not wait for it: see broker.
func (c *cli) lease(call *quick.Call) {
	client := broker.FromEnviron(os.Getenv, c.ofAll(), nil)
	r := broker.Request{Memory: graph.Compile.Info().Memory, Label: filepath.Base(call.Argv[0]), Project: call.Dir}
	if call.Last != nil {
		for _, peak := range call.Last.Peaks {
			r.Memory = max(r.Memory, peak)
		}
	}
	if l, err := client.Acquire(context.Background(), r); err == nil && client != nil {
		l.Inherit()
	}
}

// endings are the signals that end a compiler. One that the caller has switched off, as nohup does,
// stays so.
func endings() []os.Signal {
	return slices.DeleteFunc([]os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}, signal.Ignored)
}

// die ends this process by a signal, as that would have ended the compiler: a shell and make look
// at how a command ended.
func die(s syscall.Signal) int {
	var byDefault [4]uintptr // struct sigaction; the runtime of Go would write its stacks at SIGQUIT
	runtime.LockOSThread()
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	unix.Tgkill(os.Getpid(), unix.Gettid(), s)
	return 128 + int(s)
}

// leave has the compiler run in place of this process, in its turn.
func (c *cli) leave(call *quick.Call) int {
	if !quick.Disabled() && call.Nowhere == nil && launch.Counted(call.Argv) {
		c.lease(call)
	}
	c.say("error: kbuild cc: %v", call.Exec())
	return 126
}
