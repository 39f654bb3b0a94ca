package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/actions/launch"
	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/cache/disk"
)

// launched reports a command line of a compiler, which no parser of options may touch: `kbuild cc -- nvcc ARGS...`, or kbuild under the name of a
// compiler.
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
		c.say("kbuild: %v", err)
		return 127
	}
	if quick.Disabled() {
		return c.leave(call)
	}
	store, err := quick.OpenStore()
	if err != nil {
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	l := &launch.Launch{Call: call, Store: store}
	if client := broker.FromEnviron(os.Getenv, c.ofAll(), nil); client != nil {
		defer client.Close()
		l.Broker = shared{client, call.Dir}
	}
	res, err := l.Compile(ctx)
	if ctx.Err() != nil {
		return exitInterrupted
	}
	if err == nil {
		err = res.Place(ctx, call, store)
	}
	if err != nil {
		call.Log(store, quick.Entry{Result: quick.Left, Why: err.Error()})
		return c.leave(call) // which says what is wrong, if it is more than with kbuild: see --stats
	}
	os.Stderr.WriteString(res.Made.Stderr)
	entry := quick.Entry{Result: quick.Miss, Why: strings.Join(changed, ", "), Ran: res.Ran, Taken: res.Hits}
	if res.Ran == 0 {
		entry.Result = quick.Hit
	}
	call.Log(store, entry)
	return 0
}

// leave has the compiler run in place of this process.
func (c *cli) leave(call *quick.Call) int {
	c.say("kbuild: %v", call.Exec())
	return 126
}
