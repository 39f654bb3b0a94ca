package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/check"
	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Command is a command of an action that is ready to run: its arguments have temporary names for
// the files that it writes, and the files that it reads exist.
type Command struct {
	*buildTree
	Action *graph.Action
	Argv   []string

	r        *Runner
	dir      scratch
	response *graph.Response // nil: Argv is never moved to a response file
	refs     hostRefs
}

// Remote runs commands on other machines: see actions/remote and sched.Runner.
type Remote interface {
	// Portable reports whether a can run remotely and is worth the transfer of its inputs and
	// outputs. They have about so many bytes; out is -1 if that is unknown.
	Portable(a *graph.Action, in, out int64) bool
	// Run runs a command remotely, and locally as well once local is closed. The error is ErrLost
	// if the remote result says nothing about the action.
	Run(ctx context.Context, c *Command, local <-chan struct{}) (run.Result, error)
	// Judge records whether a command succeeded locally after Run had ended with err.
	Judge(err error, succeeded bool)
}

// ErrLost is the error of a remote command whose end says nothing about its action.
var ErrLost = errors.New("it was lost on another machine")

// prepare returns the command argv of a, which writes to dir. It restores the files that the command
// reads.
func (r *Runner) prepare(
	ctx context.Context, a *graph.Action, argv []string, dir scratch,
) (c *Command, err error) {
	if err := r.materialize(ctx, a, argv); err != nil {
		return nil, err
	}
	if err := stage(r.Root, a, dir); err != nil {
		return nil, err
	}
	refs := hostRefs{argv: argv, shown: a.Argv}
	if a.Link().HostRefs != "" {
		if err := refs.add(r.Root, a, dir); err != nil {
			return nil, err
		}
	}
	c, err = r.newCommand(a, refs.argv, dir)
	if err == nil {
		c.refs = refs
	}
	return c, err
}

// result returns the result of the command c of a, which has run; err is why it did not. functions
// are those that ptxas reported.
func (r *Runner) result(
	a *graph.Action, c *Command, out run.Result, err error,
) (res sched.Result, functions []cache.Function) {
	if c == nil {
		return failed(err), nil
	}
	if discover.IsTraced(a) && discover.TellsUser(a) {
		out.Output = append(out.Output, r.discovery.Trace(c.dir.traceFile()).Rest...)
	}
	res = sched.Result{Status: sched.Ran, Output: out.Output, Argv: c.refs.shown,
		Elapsed: out.Elapsed, CPU: out.UserCPU + out.SysCPU, MaxRSS: out.MaxRSS, Worker: out.Worker}
	if err != nil {
		res.Status, res.Err = sched.Failed, err
		return res, nil
	}
	printed := string(out.Output)
	if c.refs.from != "" { // the user knows another name
		printed = strings.ReplaceAll(printed, c.refs.from, c.refs.to)
	}
	printed = c.dir.removeFrom(printed, r.Root, r.Graph.BuildDir, a)
	failure := exitError(out)
	if failure != nil && diskFull(r.State) {
		failure = fmt.Errorf("%w: the disk of the build tree is full, or almost", failure)
	}
	printed, functions, err = vendors.ReadOutput(a, printed, failure)
	printed = run.Shorten(printed, run.DefaultOutput)
	res.Output = []byte(printed)
	switch {
	case a.Work.Link != nil && out.LeftOut > 0 && out.ExitCode == 0:
		err = fmt.Errorf("nvlink printed more than kbuild can check "+
			"(%d bytes more): it exits with 0 even if it drops code, and only its messages say so",
			out.LeftOut)
	case err != nil && a.Link().Check:
		err = check.Unlinked(a, printed, err)
	}
	if err != nil {
		res.Status, res.Err = sched.Failed, err
	}
	return res, functions
}

// ended is the error of a command that a signal ended, or that got no memory. It says nothing about
// the command's input.
type ended struct {
	text        string
	outOfMemory bool
}

func (e *ended) Error() string { return e.text }

// exitError returns nil for a process that succeeded.
func exitError(out run.Result) error {
	const advice = `: build with a smaller -j or --mem, or give the target memory = "..."`
	grown := ""
	if out.MaxRSS > 0 {
		grown = fmt.Sprintf(" (it had grown to %d MiB)", out.MaxRSS>>20)
	}
	switch {
	case out.OOM:
		return &ended{"killed, most likely for memory" + grown + advice, true}
	case out.NoMemory:
		return &ended{"it got no memory" + grown + advice, true}
	case out.Signal != 0:
		return &ended{fmt.Sprintf("ended by signal %v", out.Signal), false}
	case out.Killed:
		return &ended{fmt.Sprintf("exit status %d: something that it ran was ended by a signal",
			out.ExitCode), false}
	case out.ExitCode == 127:
		return errors.New("exit status 127: a tool it runs was not found, or was given a command " +
			"line longer than Linux allows")
	case out.ExitCode != 0:
		return fmt.Errorf("exit status %d", out.ExitCode)
	}
	return nil
}

// diskFull reports whether the disk of the build tree is full. Compilers report that in many ways,
// some of them misleading.
func diskFull(dir string) bool {
	var st unix.Statfs_t
	// the files of the failing command are gone by now
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) < 16<<20
}

// frontEndMemory is the memory that cudafe++ and cicc use for an ordinary source, in bytes.
const frontEndMemory = 256 << 20

// errTimeout is the error of a test that exceeded its timeout.
var errTimeout = errors.New("it ran longer than its timeout")

// Run runs the command locally. A test that exceeds its timeout is killed with all that it started:
// its process group first, then the processes that left the group, which are found by their folder
// for temporary files.
func (c *Command) Run(ctx context.Context) (run.Result, error) {
	r, a, dir := c.r, c.Action, c.dir
	argv, err := c.respond()
	if err != nil {
		return run.Result{}, err
	}
	cwd := dir.cwd(r.Root, a)
	if cwd != r.Root {
		if err := os.MkdirAll(cwd, 0o777); err != nil {
			return run.Result{}, err
		}
	}
	env := r.environ(a, dir.tmp)
	if a.Kind.Info().FrontEnd {
		env = append(env, run.HugePages(r.frontEnds.Add(1)*frontEndMemory)...)
		defer r.frontEnds.Add(-1)
	}
	if dir.traced {
		argv = strace.Args(dir.file(straceFile), argv)
	}
	process := run.Command{Argv: argv, Dir: cwd, Env: env, MaxOutput: run.DefaultOutput}
	// Output that kbuild parses has a limit that no real output reaches. ptxas prints 300 bytes for
	// each function, and nvlink a line for each symbol that it misses.
	if a.Work.Link != nil || a.Pass().ResourceUsage {
		process.MaxOutput = 32 << 20
	}
	// If output is printed verbatim, commands must print only on stderr: records do not keep which
	// stream it was.
	traced := discover.IsTraced(a)
	if traced || r.Verbatim {
		f, err := os.Create(dir.traceFile())
		if err != nil {
			return run.Result{}, err
		}
		defer f.Close()
		process.Stdout = f
	}
	limited, limit := ctx, a.Test().Timeout
	if limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
	}
	out, err := run.Run(limited, process)
	switch {
	case err != nil && ctx.Err() == nil && context.Cause(limited) == errTimeout:
		err = fmt.Errorf("%w of %v, and was ended", errTimeout, limit)
		err = errors.Join(err, run.EndOrphans(dir.tmp))
	case errors.Is(err, unix.ENOMEM):
		err = &ended{err.Error(), true}
	case err == nil && process.Stdout != nil && !traced:
		if info, statErr := process.Stdout.Stat(); statErr != nil || info.Size() > 0 {
			err = errors.New("it writes to standard output")
		}
	}
	return out, err
}

// environ returns the environment of a's commands.
func (r *Runner) environ(a *graph.Action, tmp string) []string {
	test := a.Test()
	// A kbuild that a command runs needs no lease: the command has one. See package broker.
	env := slices.Concat(r.Env, []string{"TMPDIR=" + tmp, "KBUILD_BROKER=0"})
	if test.GPU {
		env = append(env, r.GPUEnv...)
	}
	env = append(env, a.Env...)
	var dirs []string
	for _, dir := range test.LibDirs {
		dirs = append(dirs, cache.Absolute(r.Root, dir))
	}
	return run.WithLibraryFolders(env, dirs)
}

// Query implements discover.Build.
func (r *Runner) Query(
	ctx context.Context, a *graph.Action, argv []string, quiet bool,
) (printed string, ok bool) {
	if r.scratches.open() != nil {
		return "", false
	}
	c := run.Command{Argv: argv, Dir: r.Root, Env: r.environ(a, r.scratches.dir), MaxOutput: 4 << 20}
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

// Query runs a query of the command's program, and returns what it printed.
func (c *Command) Query(ctx context.Context, argv []string) string {
	printed, _ := c.r.Query(ctx, c.Action, argv, false)
	return printed
}

// With returns another command that runs in the same folder.
func (c *Command) With(argv []string) *Command {
	return &Command{buildTree: c.buildTree, Action: c.Action, Argv: argv, r: c.r, dir: c.dir}
}

// Again returns a command of the same action with a folder of its own for its outputs, which argv
// has by the names of the action.
func (c *Command) Again(argv []string) (*Command, error) {
	dir := c.dir.again()
	if err := dir.makeFolders(c.Action); err != nil {
		return nil, err
	}
	again, err := c.r.newCommand(c.Action, argv, dir)
	if err == nil {
		again.response = nil
	}
	return again, err
}

// Reads returns the files that the command reads, as far as the action declares or names them.
func (c *Command) Reads() []string {
	reads := commandReads(c.Action, c.Argv)
	return slices.DeleteFunc(slices.Concat(c.Action.Reads(), c.r.discovery.Named(c.Action)),
		func(in string) bool { return in == c.Action.Link().HostRefs || !reads.has(in) })
}

// Folder returns the folder with the temporary files of the command, File the name of one of them,
// Output that of an output, and Depfile that of the dependency file. They are absolute.
func (c *Command) Folder() string          { return c.dir.dir }
func (c *Command) File(name string) string { return c.dir.file(name) }
func (c *Command) Output(i int) string     { return c.dir.output(i, c.Action.Outputs[i]) }
func (c *Command) Depfile() string         { return c.dir.depfile() }

// Names reports whether an argument of the command names output i.
func (c *Command) Names(i int) bool {
	file, rel := c.Output(i), c.dir.relative().output(i, c.Action.Outputs[i])
	return slices.ContainsFunc(c.Argv, func(arg string) bool {
		return strings.HasSuffix(arg, file) || strings.HasSuffix(arg, rel)
	})
}

// newCommand returns the command of a with the arguments argv, with temporary names for the files
// that it writes. An in-place command writes the outputs themselves.
func (r *Runner) newCommand(a *graph.Action, argv []string, dir scratch) (*Command, error) {
	c := &Command{buildTree: r.buildTree, Action: a, Argv: slices.Clone(argv), r: r, dir: dir,
		response: a.Work.Response}
	rel := dir.relative()
	if a.Pass().EmptyCwd {
		rel = dir
	}
	var names [][2]string
	if !a.InPlace {
		for i, o := range a.Outputs {
			names = append(names, [2]string{o, rel.output(i, o)})
		}
	}
	if a.Depfile != "" && !a.Kind.Info().Project {
		names = append(names, [2]string{a.Depfile, rel.depfile()})
	}
	if k := a.Work.Keep; k != nil {
		names = append(names, [2]string{k.Dir, rel.file("keep")})
		if err := os.MkdirAll(dir.file("keep"), 0o777); err != nil {
			return nil, fmt.Errorf("making a temporary folder: %w", err)
		}
	}
	// a pass has the names inside of arguments as well
	if a.Intermediate || a.Driver().Argv != nil || a.Kind.Info().NamesInside {
		names = append(names, [2]string{graph.StageDir, rel.file("in")})
		if a.Pass().EmptyCwd {
			for _, in := range a.Reads() {
				names = append(names, [2]string{in, r.abs(in)})
			}
		}
		inside := replacer(names)
		for i, arg := range c.Argv {
			c.Argv[i] = inside.Replace(arg)
		}
		if a.Pass().EmptyCwd && a.Kind.Info().Linker == graph.LinkerNVLink {
			c.Argv = toolchain.MapLibraryFolders(c.Argv, r.abs)
		}
		return c, nil
	}
	for i, arg := range c.Argv {
		option := ""
		if before, _, ok := strings.Cut(arg, host.DependencyFile); ok { // after -Wl, for a linker
			option = before + host.DependencyFile
		}
		for _, n := range names {
			rest, ok := strings.CutPrefix(arg[len(option):], n[0])
			if ok && (rest == "" || rest[0] == '/') {
				c.Argv[i] = option + n[1] + rest
				break
			}
		}
	}
	return c, nil
}

// maxArgs is the length from which arguments move to a response file. Linux allows 2 MiB for
// arguments and environment.
const maxArgs = 128 << 10

// respond returns the arguments, of which those that are too long have moved to a response file.
// gcc, ar and ld read one per line, with a backslash before blanks, quotes and backslashes.
func (c *Command) respond() ([]string, error) {
	size := 0
	for _, arg := range c.Argv {
		size += len(arg) + 1
	}
	rsp := c.response
	if rsp == nil || size < maxArgs {
		return c.Argv, nil
	}
	var text strings.Builder
	for _, arg := range c.Argv[rsp.From:] {
		for _, char := range arg {
			if strings.ContainsRune(" \t\n\\\"'", char) {
				text.WriteByte('\\')
			}
			text.WriteRune(char)
		}
		text.WriteByte('\n')
	}
	if err := os.WriteFile(c.File("args.rsp"), []byte(text.String()), 0o666); err != nil {
		return nil, fmt.Errorf("writing a response file: %w", err)
	}
	name := c.dir.relative().file("args.rsp")
	if rsp.List {
		name = toolchain.ListWord(name)
	}
	return append(c.Argv[:rsp.From:rsp.From], rsp.Flag+name), nil
}

// stage writes the files that a command expects in its own folder.
func stage(root string, a *graph.Action, dir scratch) error {
	in := dir.file("in")
	for _, s := range a.Pass().Staged {
		name := filepath.Join(in, s.Name)
		err := os.MkdirAll(filepath.Dir(name), 0o777)
		switch {
		case err != nil:
		case s.Link != "":
			err = os.Symlink(s.Link, name)
		case s.From != "":
			err = os.Link(cache.Absolute(root, s.From), name)
		default:
			text := strings.ReplaceAll(s.Text, graph.StageDir, staged(a, dir))
			err = os.WriteFile(name, []byte(text), 0o666)
		}
		if err != nil {
			return fmt.Errorf("preparing %s: %w", a.Name, err)
		}
	}
	return nil
}

// staged returns the folder of staged files, escaped for a string literal.
func staged(a *graph.Action, dir scratch) string {
	if !a.Pass().EmptyCwd {
		dir = dir.relative()
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(dir.file("in"))
}

// reading is the set of files that a command reads: those that its arguments name, and those that
// kbuild reads for it.
type reading struct {
	argv  []string // none: the command may read any file
	named map[string]bool
}

// commandReads returns the files that the command argv of a reads.
func commandReads(a *graph.Action, argv []string) reading {
	named := map[string]bool{a.Link().HostRefs: true}
	for _, arg := range argv {
		named[arg] = true
	}
	for _, s := range a.Pass().Staged {
		named[s.From] = true
	}
	return reading{argv, named}
}

func (r reading) has(file string) bool {
	return len(r.argv) == 0 || r.named[file] ||
		slices.ContainsFunc(r.argv, func(arg string) bool { return strings.Contains(arg, file) })
}

// hostRefs is the command of a device link that keeps what plain host code refers to.
type hostRefs struct {
	argv  []string
	shown []string // the command as a user could run it
	// the object with added names, and the one that it replaces, as commands see them
	from, to string
}

// add adds the names that plain host code refers to, to the first input that can take
// them. If no input can, the link keeps everything.
func (v *hostRefs) add(root string, a *graph.Action, dir scratch) error {
	text, err := regular.Read(cache.Absolute(root, a.Link().HostRefs))
	if err != nil {
		return fmt.Errorf("reading what host code of %s refers to: %w", a.Target, err)
	}
	names := strings.Fields(string(text))
	if len(names) == 0 {
		return nil
	}
	for _, in := range a.Inputs {
		if names[0] == "*" {
			break
		}
		content, err := regular.Read(cache.Absolute(root, in))
		if err == nil && strings.HasSuffix(in, ".a") {
			content, err = fatbin.ArchiveWithHostRefs(content, names)
		} else if err == nil {
			content, err = fatbin.WithHostRefs(content, names)
		}
		if err != nil {
			continue // it cannot take names
		}
		file := filepath.Join(dir.file("refs"), filepath.Base(in))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return fmt.Errorf("making a temporary folder: %w", err)
		}
		if err := os.WriteFile(file, content, 0o666); err != nil {
			return fmt.Errorf("writing an input of %s: %w", a.Name, err)
		}
		v.from, v.to = file, cache.Absolute(root, in)
		if !a.Pass().EmptyCwd {
			v.from, v.to = dir.relative().file("refs")+"/"+filepath.Base(in), in
		}
		v.argv = slices.Clone(v.argv)
		for i, arg := range v.argv {
			if arg == in {
				v.argv[i] = v.from
			}
		}
		return nil
	}
	v.argv, v.shown = vendors.KeepAll(v.argv), vendors.KeepAll(a.Argv)
	return nil
}
