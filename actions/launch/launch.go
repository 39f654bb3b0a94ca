// Package launch runs one command line of a compiler, as `kbuild cc` receives it. Its toolchain
// plans the command as a project of one target, with the passes, keys and records of a build from
// kernels.hcl. This package reads no manifest and knows no compiler. A command that the toolchain
// does not understand passes through to its compiler.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Launch is a command line of a compiler.
type Launch struct {
	*quick.Call
	Broker sched.Broker // of the machine; nil if there is none

	// concurrent passes, as far as broker and jobserver let them; 0 means one
	Jobs      int
	Jobserver sched.Jobserver // make's, for passes beside the first; nil if there is none
}

// Result is the result of a split command.
type Result struct {
	Made      *quick.Made
	Ran, Hits int    // number of passes
	Starved   string // a pass that was retried alone, since memory was short; "" for none
}

// The files of a compile have the same names in every compile, since a compiler may write them into
// its outputs. See place.go.
const (
	partsDir = placeDir + "/" + graph.PartsDir
	output   = placeDir + "/made" // without its extension
	depfile  = placeDir + "/made.d"
)

// Compile builds the outputs of the command, pass by pass, and remembers them. It does not put the
// outputs in place. If there is an error, the caller runs the compiler instead: the error is the
// reason why the command passes through, or a fault of kbuild's own.
func (l *Launch) Compile(ctx context.Context) (*Result, error) {
	place, err := newPlace()
	if err != nil {
		return nil, err
	}
	defer place.remove()
	l.Enter()
	b := &build{launch: l, env: quick.Commands()}
	b.printed, b.peaks = map[graph.ActionID][]byte{}, map[string]int64{}
	b.request = probe.Request{Root: "/", Env: os.Getenv}
	b.request.MemoPath = filepath.Join(l.Store.Folder(), "tools")
	b.env.All = append(b.env.All, quick.Nested()...)
	if err := b.read(); err != nil {
		return nil, err
	}
	if err := b.plan(ctx); err != nil {
		return nil, err
	}
	return b.run(ctx)
}

// build is a split command.
type build struct {
	launch  *Launch
	command *host.Command
	files   []string // the files of options
	env     quick.Environment

	request probe.Request
	plan.Facts
	observed []cache.Observation // what Facts depends on; nil if not known
	absent   []string            // absolute paths where no file may appear
	steps    *probe.Steps

	planned  toolchain.PlannedCommand
	graph    *graph.Graph
	isPlaced bool // the command line names the base directory
	placed   bool // the outputs depend on the path of the base directory

	runner  *execute.Runner
	db      *tree.DB
	printed map[graph.ActionID][]byte
	peaks   map[string]int64 // bytes, see peak
	failed  error

	starved string // see Result
}

// notWrapper returns an error if file is a program that wraps a compiler.
func notWrapper(file string) error {
	if name := quick.Wrapper(file); name != "" {
		return fmt.Errorf("%s is %s, whose settings and cache are no inputs", file, name)
	}
	return nil
}

// read parses the command line, in which files of options are replaced by their content.
func (b *build) read() (err error) {
	l := b.launch
	if err := notWrapper(l.Argv[0]); err != nil {
		return err
	}
	for _, name := range run.Names(run.Foreign) {
		if os.Getenv(name) != "" {
			return fmt.Errorf("%s is set", name)
		}
	}
	files := optfile.Files{Read: func(name string) ([]byte, error) {
		name = cache.Absolute(l.Dir, name)
		b.files = append(b.files, name)
		return regular.ReadAtMost(name, 16<<20)
	}}
	if b.command, err = vendors.ReadCommand(l.Argv, files, output, depfile); err != nil {
		return err
	}
	if b.absent, err = b.request.ForCommand(b.command, l.Dir); err != nil {
		return err
	}
	name := b.command.HostCompiler
	if name == "" {
		return nil
	}
	if info, err := os.Stat(cache.Absolute(l.Dir, name)); err == nil && info.IsDir() {
		name = filepath.Join(name, "gcc")
	}
	file := cache.Absolute(l.Dir, name)
	if b.request.HostCompiler = file; !strings.Contains(name, "/") {
		b.request.HostCompiler = name
		if file, err = quick.LookPath(name); err != nil {
			return err
		}
	}
	return checkHostCompiler(file, "")
}

// checkHostCompiler returns an error if the host compiler of another one is a wrapper or a script.
// The folder scripts has scripts that are known.
func checkHostCompiler(file, scripts string) error {
	err := notWrapper(file)
	if err == nil && probe.IsScript(file) && filepath.Dir(file) != scripts {
		err = fmt.Errorf("%s is a script, which may ask for any variable", file)
	}
	return err
}

// plan collects what the command depends on in the host environment, and plans its passes. It has
// the drivers queried that the planner has questions to.
func (b *build) plan(ctx context.Context) (err error) {
	for again := true; again; {
		if b.Facts, b.observed, err = probe.Collect(ctx, b.request); err != nil {
			return err
		}
		// an answer has paths of programs
		env := append(slices.Clone(b.env.Key), "PATH="+os.Getenv("PATH"))
		b.steps = probe.OpenSteps(b.request.MemoPath, b.Facts, b.env.All, env)
		var questions []toolchain.Question
		b.planned, questions = b.Facts.Command(b.commandRequest(), b.CXX)
		for len(questions) > 0 {
			if err := b.steps.Query(ctx, questions); err != nil {
				return err
			}
			b.planned, questions = b.Facts.Command(b.commandRequest(), b.CXX)
		}
		if again, err = b.findHostCompiler(); err != nil {
			return err
		}
	}
	if b.planned.Refused != nil {
		return b.planned.Refused
	}
	b.graph = &graph.Graph{BuildDir: placeDir, Pools: map[string]int{}}
	for _, a := range b.planned.Actions {
		if _, planned := b.graph.Producer(a.Outputs[0]); planned { // a file that is linked twice
			if i := slices.Index(b.planned.Order, a); i >= 0 {
				b.planned.Order = slices.Delete(b.planned.Order, i, i+1)
			}
			continue
		}
		if i := slices.Index(a.Env, toolchain.Anywhere); i >= 0 && b.planned.Lines {
			a.Env = slices.Clone(a.Env)
			a.Env[i] = "PWD=" + os.Getenv("PWD") // the outputs have the folder, as without kbuild
		}
		info := a.Kind.Info()
		// its text names files, for messages
		a.CwdInKey = b.planned.Lines && !info.InProcess ||
			info.Writes == graph.FormHost && b.isPlaced
		switch info.Reads {
		// only these print in the language of the user
		case graph.FormSource, graph.FormHost:
			a.Env = append(slices.Clip(a.Env), quick.Spoken()...)
		}
		b.graph.Add(a)
	}
	if b.planned.Order == nil {
		b.planned.Order = b.graph.Actions
	}
	return b.graph.Seal()
}

// findHostCompiler finds the host compiler that the compiler itself would find. again reports that
// it is another one than that of the facts.
func (b *build) findHostCompiler() (again bool, err error) {
	if b.planned.Path == "" || b.command.HostCompiler != "" {
		return false, nil
	}
	file, err := quick.LookIn(b.planned.Path, "gcc")
	if err != nil {
		return false, err
	}
	again = file != b.planned.HostCXX && file != b.request.HostCompiler
	b.request.HostCompiler = file
	return again, checkHostCompiler(file, b.planned.Programs)
}

// commandRequest returns the request for the plan. Two objects of one source may be linked together
// if they were compiled with different options, even one after the other to one file name. So the
// options are part of what identifies the source. The architectures are not: another architecture
// recompiles nothing for the others.
func (b *build) commandRequest() toolchain.CommandRequest {
	c, base := b.command, b.launch.Base
	texts := append(c.Argv[1:len(c.Argv):len(c.Argv)], c.Source)
	b.isPlaced = base.In([]byte(strings.Join(texts, "\n")))
	variant := b.named(c.Output)
	for _, o := range c.Options {
		if spelled, ok := base.Spell(o); ok {
			o = spelled
		}
		variant += "\x00" + o
	}
	r := toolchain.CommandRequest{
		Build:   &toolchain.Build{Layout: toolchain.Layout{BuildDir: placeDir}},
		Command: c, Output: output, Depfile: depfile, Dir: partsDir,
		Label: "command " + base.Project, Source: b.named(c.Source), Variant: variant,
		Files: c.Deps != "" || base.Dir != "", Shown: b.isPlaced && base.Dir != "",
	}
	r.Answers.Runs = b.steps.Runs
	if c.Source != "" && !filepath.IsAbs(r.Source) {
		r.Named = r.Source
	}
	return r
}

// run brings the passes up to date, and remembers the result.
func (b *build) run(ctx context.Context) (*Result, error) {
	l := b.launch
	var err error
	if b.db, err = tree.Open(placeDir + "/tree.db"); err != nil {
		return nil, err
	}
	defer b.db.Close()
	tools := map[string]string{"cxx": b.CXX.ID}
	for name, tool := range b.Facts.Tools() {
		tools[name] = tool.ID
	}
	b.runner = execute.New(execute.Config{
		Graph: b.graph, Root: l.Dir, State: placeDir,
		Begun: l.Begun, Base: l.Base.Dir, Verbatim: true,
		Files: cache.NewFiles(l.Dir, nil), Listing: cache.NewListing(l.Dir),
		Records: b.db, Store: l.Store, IntermediateStore: l.Store,
		Tools: tools, Env: b.env.All, KeyEnv: b.env.Key,
	})
	var want []graph.ActionID
	for _, a := range b.graph.Actions {
		want = append(want, a.ID)
	}
	options := sched.Options{Jobs: max(1, l.Jobs), Jobserver: l.Jobserver, KeepGoing: 1,
		Broker: l.Broker, SharedMachine: l.Broker != nil, Estimates: b}
	sum, err := sched.Run(ctx, b.graph, want, options, b.runner, b)
	l.Store.Count(b.runner.Counters())
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case b.failed != nil:
		return nil, fmt.Errorf("a pass failed: %w", b.failed)
	case b.runner.TellsTime():
		return nil, errors.New("it tells the time")
	}
	for _, a := range b.graph.Actions {
		rec := b.db.LastRun(a.Outputs[0])
		if rec != nil && discover.RunsEachTime(rec) != "" { // its outputs are in no store
			return nil, errors.New("it runs each time: " + discover.RunsEachTime(rec))
		}
	}
	made, err := b.made(ctx)
	if err != nil {
		return nil, err
	}
	b.keep(ctx, made)
	return &Result{Made: made, Ran: sum.Ran, Hits: sum.Cached, Starved: b.starved}, nil
}

// errInputChanged is why a command has no record: its outputs belong to other inputs.
var errInputChanged = errors.New("an input changed while it was compiled")

// made describes the outputs of the command. On stderr a compiler prints its own messages about the
// options, then those of each pass.
func (b *build) made(ctx context.Context) (*quick.Made, error) {
	c := b.command
	last := b.graph.Actions[len(b.graph.Actions)-1]
	rec := b.db.LastRun(last.Outputs[0])
	if rec == nil {
		return nil, errInputChanged
	}
	o := rec.Outputs[0]
	o.Path = c.Output
	m := &quick.Made{Outputs: []cache.Output{o}, Stderr: b.planned.Printed, Peaks: b.peaks}
	for _, a := range b.planned.Order {
		m.Stderr += string(b.printed[a.ID])
	}
	names := func(dir string) bool { return strings.Contains(m.Stderr, dir) }
	if c.Linked != nil && (names(placeDir) || names(b.launch.Dir)) {
		return nil, errors.New("the linker has something to say of a file")
	}
	files, err := b.sources(ctx)
	if err != nil || c.Deps == "" {
		return m, err
	}
	deps := quick.Text{Path: c.Deps}
	switch p := b.planned; {
	case p.DepsOutput != "":
		id, _ := b.graph.Producer(p.DepsOutput)
		rec := b.db.LastRun(b.graph.Actions[id].Outputs[0])
		if rec == nil {
			return nil, errInputChanged
		}
		i := slices.IndexFunc(rec.Outputs, func(o cache.Output) bool { return o.Path == p.DepsOutput })
		deps.Text, err = b.launch.content(rec.Outputs[i])
	case p.DepsArgv != nil:
		deps.Text, err = b.ownDeps(ctx, rec)
	default:
		deps.Text = c.Dependencies(files)
	}
	m.Files = []quick.Text{deps}
	return m, err
}

// content returns the content of an output in the store.
func (l *Launch) content(o cache.Output) ([]byte, error) {
	r, err := l.Store.Content(o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// ownDeps returns the dependency file without system headers. With a precompiled header, a
// preprocessor alone lists other files, so that is an error.
func (b *build) ownDeps(ctx context.Context, rec *cache.Record) ([]byte, error) {
	for _, f := range rec.Discovered {
		if ext := filepath.Ext(f.Path); ext == ".gch" || ext == ".pch" {
			return nil, fmt.Errorf("-MMD with the precompiled header %s", f.Path)
		}
	}
	to, pass := placeDir+"/own.d", b.planned.DepsPass
	argv := host.AskOwn(b.planned.DepsArgv, pass.Outputs[0], pass.Depfile, to)
	res, err := b.query(ctx, argv, pass.Env...)
	if err != nil {
		return nil, err
	}
	if res.ExitCode != 0 {
		return nil, fmt.Errorf("-MM of it ends with %d and says %q", res.ExitCode, res.Output)
	}
	return os.ReadFile(to)
}

// query runs a command beside the passes.
func (b *build) query(ctx context.Context, argv []string, env ...string) (run.Result, error) {
	env = slices.Concat(b.env.All, env, []string{"TMPDIR=" + placeDir})
	return run.Run(ctx, run.Command{Argv: argv, Dir: b.launch.Dir, Env: env})
}

// peak returns a name of a pass that is unique within its command.
func peak(a *graph.Action) string { return string(a.Kind) + " " + strings.Join(a.Archs, ",") }

// Cost and Overdue are parts of sched.Estimates. A command has few passes, and all run locally.
func (b *build) Cost(*graph.Action) time.Duration    { return 1 }
func (b *build) Overdue(*graph.Action) time.Duration { return 0 }

// Memory is part of sched.Estimates: what a pass took the last time, or else what is usual.
func (b *build) Memory(a *graph.Action) int64 {
	if last := b.launch.Last; last != nil && last.Peaks[peak(a)] > 0 {
		return last.Peaks[peak(a)]
	}
	return engine.Usual(a)
}

// Start, Started and Finished make build a sched.Observer.
func (b *build) Start(int)             {}
func (b *build) Started(*graph.Action) {}
func (b *build) Finished(a *graph.Action, r sched.Result, _, _ int) {
	b.printed[a.ID] = r.Output
	if rec := b.db.LastRun(a.Outputs[0]); rec != nil && rec.MaxRSS > 0 {
		b.peaks[peak(a)] = rec.MaxRSS
	}
	if r.Retried {
		b.starved = string(a.Kind)
	}
	if r.Status == sched.Failed && b.failed == nil {
		b.failed = fmt.Errorf("%s: %w: %s", a.Kind, r.Err, r.Output)
	}
}

// sources returns the files that the texts of all passes come from, in the order of the passes.
// There are none if the passes have no texts.
func (b *build) sources(ctx context.Context) (files []string, err error) {
	name := placeDir + "/files"
	for _, a := range b.planned.Order {
		if a.Pass().FilesOutput == "" {
			continue
		}
		if err := b.runner.CopyIntermediate(ctx, a.Pass().FilesOutput, name); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		first, rest, _ := strings.Cut(string(text), "\n")
		b.placed = b.placed || first != execute.Anywhere
		files = append(files, strings.Split(rest, "\n")...)
	}
	return files, nil
}

// Counted reports whether a command needs a lease when it is passed through to its compiler. Such a
// command reads and writes only files, and so waits for no other command. A command that reads or
// writes a pipe may hold its lease while it waits for a command that waits for a lease.
func Counted(argv []string) bool {
	builds := false
	for _, arg := range argv[1:] {
		if builds = builds || buildsFile().MatchString(arg); mayPipe().MatchString(arg) {
			return false
		}
		info, err := os.Stat(strings.TrimPrefix(arg, "-o"))
		if err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice|fs.ModeSocket) != 0 {
			return false
		}
	}
	return builds && vendors.IsCompiler(filepath.Base(argv[0]))
}

var (
	buildsFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(-c|-dc|-o|--compile|--device-c|--output-file)$`)
	})
	mayPipe = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(-|-E|--preprocess|-MM?|--generate-(nonsystem-)?dependencies|` +
			`@.*|-optf.*|--?run.*)$|,-E|options-file|/dev/|/proc/`)
	})
)
