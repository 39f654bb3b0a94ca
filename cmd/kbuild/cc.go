package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/actions/jobserver"
	"github.com/kbuild-dev/kbuild/actions/launch"
	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
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
	for _, o := range res.Made.Outputs { // a launcher that was killed may have left some
		regular.RemoveTemporary(filepath.Dir(cache.Absolute(call.Dir, o.Path)), 24*time.Hour)
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
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
	// Signals that the caller ignores, as nohup does, stay ignored.
	signal.Notify(signals, slices.DeleteFunc(ends, signal.Ignored)...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { cancel(endedBy((<-signals).(syscall.Signal))) }()
	l := &launch.Launch{Call: call}
	if client := broker.FromEnviron(c.ofAll(), nil); client != nil {
		l.Broker, l.Jobs = shared{client, call.Dir}, runtime.GOMAXPROCS(0)
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

// ccCmd holds the options of `kbuild cc`. Command lines of compilers are handled by launched
// instead.
type ccCmd struct {
	Stats   bool     `help:"Show what became of the calls, by project, and why compilers ran as they are."`
	ShowLog bool     `help:"Show the calls, the oldest first."`
	Explain string   `placeholder:"FILE" help:"Show why the last compile of this file ran."`
	Zero    bool     `help:"Forget the calls so far."`
	Links   string   `placeholder:"DIR" help:"Make links to kbuild under the names of compilers, for PATH or for a build tool that is given a compiler."`
	CMake   bool     `name:"cmake" help:"Write kbuild.cmake to standard output, for -DCMAKE_PROJECT_INCLUDE."`
	Command []string `arg:"" optional:"" help:"The compiler and its arguments, behind --."`
}

func (cc *ccCmd) Run(c *cli) error {
	switch {
	case cc.Links != "":
		return c.linkCompilers(cc.Links)
	case cc.CMake:
		return c.writeCMake()
	case !cc.Zero && !cc.Stats && !cc.ShowLog && cc.Explain == "":
		return exitError{exitUsage, errors.New("cc needs a compiler, behind --, or one of its options: kbuild cc --help")}
	}
	store, err := quick.OpenStore()
	if err != nil {
		return err
	}
	var calls []quick.Entry // the oldest first
	for _, name := range []string{quick.LogFile(store) + ".1", quick.LogFile(store)} {
		if cc.Zero {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for line := range bytes.Lines(text) {
			var e quick.Entry
			if json.Unmarshal(line, &e) == nil { // a killed process leaves a partial line
				calls = append(calls, e)
			}
		}
	}
	switch {
	case cc.Explain != "":
		return c.explainCall(cc.Explain, calls)
	case cc.Stats:
		c.showStats(calls)
		return nil
	}
	for _, e := range calls {
		why := ""
		if e.Why != "" {
			why = " (" + e.Why + ")"
		}
		fmt.Fprintf(c.out, "%s %s %s: %s%s\n", e.Time.Local().Format(time.DateTime), e.Result, e.Dir, term.ShellQuote(e.Argv), why)
	}
	return nil
}

// showStats counts calls by project. A project is the folder that the calls ran in.
func (c *cli) showStats(calls []quick.Entry) {
	type count struct {
		results    map[string]int
		ran, taken int
	}
	projects, why := map[string]*count{}, map[string]int{}
	for _, e := range calls {
		n := projects[e.Dir]
		if n == nil {
			n = &count{results: map[string]int{}}
			projects[e.Dir] = n
		}
		n.results[e.Result]++
		n.ran, n.taken = n.ran+e.Ran, n.taken+e.Taken
		if e.Result == quick.Left {
			why[e.Why]++
		}
	}
	fmt.Fprintf(c.out, "%8s %8s %8s %8s   %8s %8s\n", "calls", "hits", "misses", "left", "passes", "taken")
	for _, dir := range slices.Sorted(maps.Keys(projects)) {
		n := projects[dir]
		hits, misses, left := n.results[quick.Hit], n.results[quick.Miss], n.results[quick.Left]
		fmt.Fprintf(c.out, "%8d %8d %8d %8d   %8d %8d   %s\n", hits+misses+left, hits, misses, left, n.ran, n.taken, dir)
	}
	if len(why) > 0 {
		fmt.Fprintln(c.out, "\nleft to the compiler:")
	}
	for _, w := range slices.SortedFunc(maps.Keys(why), func(a, b string) int { return cmp.Or(why[b]-why[a], strings.Compare(a, b)) }) {
		fmt.Fprintf(c.out, "%8d  %s\n", why[w], w)
	}
}

// explainCall prints why the last command with that output file ran.
func (c *cli) explainCall(file string, calls []quick.Entry) error {
	want, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(calls) {
		i := 1 + slices.IndexFunc(e.Argv, func(a string) bool { return a == "-o" || a == "--output-file" })
		if i == 0 || i == len(e.Argv) || filepath.Clean(cache.Absolute(e.Dir, e.Argv[i])) != want {
			continue
		}
		why := "this command was new, or what it read"
		if e.Why != "" {
			why = "changed: " + e.Why
		}
		switch e.Result {
		case quick.Hit:
			fmt.Fprintln(c.out, "it was taken from the cache")
		case quick.Left:
			fmt.Fprintln(c.out, "the compiler ran as it is: "+e.Why)
		default:
			fmt.Fprintf(c.out, "%s; passes that ran: %d, from the cache: %d\n", why, e.Ran, e.Taken)
		}
		return nil
	}
	return fmt.Errorf("no call is known that made %s", file)
}

//go:embed kbuild.cmake
var kbuildCMake string

// writeCMake prints kbuild.cmake, which makes a CMake project use the launcher.
func (c *cli) writeCMake() error {
	program, err := launcher()
	if err != nil {
		return err
	}
	if strings.ContainsAny(program, `"\$;`) {
		return fmt.Errorf("CMake cannot name %s: it splits or expands it", program)
	}
	_, err = fmt.Fprint(c.out, launcherText(program))
	return err
}

// launcherText returns kbuild.cmake with the launcher filled in.
func launcherText(program string) string {
	return strings.NewReplacer("@LAUNCHER@", program, "@LANGUAGES@", "C CXX CUDA HIP").Replace(kbuildCMake)
}

// linkCompilers creates links to the launcher under the names of compilers.
func (c *cli) linkCompilers(dir string) error {
	program, err := launcher()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, name := range vendors.Compilers {
		if _, err := quick.LookPath(name); err != nil && slices.Contains(vendors.ForAMD, name) {
			continue // a build tool that finds hipcc would compile for AMD
		}
		link := filepath.Join(dir, name)
		if to, err := os.Readlink(link); err == nil && to == program {
			continue
		}
		if info, err := os.Lstat(link); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return fmt.Errorf("%s exists and is not a link; it is kept", link)
		}
		os.Remove(link)
		if err := os.Symlink(program, link); err != nil {
			return err
		}
	}
	return nil
}

// launcher returns the program to run in front of compilers: kbuild-cc if it is installed, else
// kbuild.
func launcher() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if small, err := exec.LookPath(filepath.Join(filepath.Dir(exe), "kbuild-cc")); err == nil {
		return small, nil
	}
	return exe, nil
}
