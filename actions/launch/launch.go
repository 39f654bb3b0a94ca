// Package launch runs one command line of a compiler, as `kbuild cc` receives it. It splits the
// command into the passes that a build from kernels.hcl has, with their keys and records. It reads
// no manifest, and passes a command that it does not understand through to the compiler.
package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/command"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// Launch is a command line of a compiler.
type Launch struct {
	*quick.Call
	Store  *disk.Store
	Broker sched.Broker // of the machine; nil if there is none

	// concurrent passes, as far as broker and jobserver let them; 0 means one
	Jobs      int
	Jobserver sched.Jobserver // make's, for passes beside the first; nil if there is none
}

// Left is the reason why a command is passed through to the compiler.
type Left struct{ Why string }

func (l Left) Error() string { return l.Why }

func leave(format string, args ...any) error { return Left{fmt.Sprintf(format, args...)} }

// Result is the result of a split command.
type Result struct {
	Made      *command.Made
	Ran, Hits int    // number of passes
	Starved   string // a pass that was retried alone, since memory was short; "" for none
}

// Place writes the outputs where the command has them.
func (r *Result) Place(ctx context.Context, call *quick.Call) error {
	return call.Memory.Place(ctx, r.Made, call.Dir)
}

// Compilers lists the names of compilers that kbuild may stand for, as links to it.
var Compilers = []string{"nvcc", "hipcc", "g++", "c++", "clang++", "amdclang++", "gcc", "cc", "clang"}

// ForAMD lists the names among Compilers that only ROCm has.
var ForAMD = []string{"hipcc", "amdclang++"}

// Compile builds the outputs of the command, pass by pass, and remembers them. It does not put the
// outputs in place. If there is an error, the caller runs the compiler instead. A Left is the
// reason for that; any other error is a fault of kbuild's own.
func (l *Launch) Compile(ctx context.Context) (*Result, error) {
	place, err := newPlace()
	if err != nil {
		return nil, err
	}
	defer place.remove()
	l.Enter()
	f, err := l.facts(ctx)
	if err != nil {
		return nil, err
	}
	b := &build{facts: f}
	return b.run(ctx)
}

// notWrapper returns an error if file is a program that wraps a compiler.
func notWrapper(file string) error {
	if name := quick.Wrapper(file); name != "" {
		return leave("%s is %s, whose settings and cache are no inputs of a compile", file, name)
	}
	return nil
}

// facts reads the command line, and collects what it depends on in the host environment.
func (l *Launch) facts(ctx context.Context) (*facts, error) {
	f := &facts{launch: l, env: quick.Commands()}
	f.env.All = append(f.env.All, quick.Nested()...)
	if err := notWrapper(l.Argv[0]); err != nil {
		return nil, err
	}
	for _, name := range run.Names(run.Foreign) {
		if os.Getenv(name) != "" {
			return nil, leave("%s is set", name)
		}
	}
	f.request = probe.Request{Root: "/", Env: os.Getenv, MemoPath: filepath.Join(l.Store.Folder(), "tools")}
	var err error
	if filepath.Base(l.Argv[0]) != "nvcc" {
		return f, f.collectHost(ctx)
	}
	if f.command, f.files, err = l.read(); err != nil {
		return nil, err
	}
	return f, f.collect(ctx)
}

// read parses the command line of nvcc, in which files of options are replaced by their content.
func (l *Launch) read() (*nvcc.Command, []string, error) {
	argv, files, err := writeOut(optfile.Files.NVIDIA, l.Argv, l.Dir)
	if err != nil {
		return nil, nil, Left{err.Error()}
	}
	for _, name := range run.Names(run.PassOptions) {
		if value := os.Getenv(name); strings.ContainsAny(value, "@$`") || strings.Contains(value, "optf") || strings.Contains(value, "options-file") {
			return nil, nil, leave("%s names a file of options", name)
		}
	}
	for _, name := range run.Names(run.NVCCOptions) {
		if err := nvcc.PlainFlags(strings.Fields(os.Getenv(name))); err != nil {
			return nil, nil, leave("%s: %v", name, err)
		}
	}
	c, err := nvcc.ReadCommand(argv)
	if err != nil {
		return nil, nil, Left{err.Error()}
	}
	return c, files, nil
}

// facts holds what is known about the toolkit and the command.
type facts struct {
	launch  *Launch
	command *nvcc.Command // nil for a host compile
	host    *host.Command
	hip     *hipCompile // set if a host command compiles for GPUs
	absent  []string    // absolute paths where no file may appear
	files   []string    // the files of options
	env     quick.Environment
	request probe.Request
	plan.Facts
	observed []cache.Observation // what Facts depends on; nil if not known
	steps    *probe.Steps
	passes   *nvcc.CompilePasses // nil for a link
	link     *nvcc.LinkPasses
}

// collect collects what an nvcc command depends on, and queries nvcc.
func (f *facts) collect(ctx context.Context) error {
	f.request.Compiler, f.request.NeedCUDA = f.launch.Argv[0], true
	if isScript(f.launch.Argv[0]) && !onlyStarts(f.launch.Argv[0]) {
		return leave("%s is a script, which may ask for any variable", f.launch.Argv[0])
	}
	if f.command.CCBin != "" {
		f.request.HostCompiler = f.namedCompiler()
		file, err := f.request.HostCompiler, error(nil)
		if !strings.Contains(file, "/") {
			file, err = quick.LookPath(file)
		}
		if err == nil {
			if err := notWrapper(file); err != nil {
				return err
			}
		}
		if err != nil || isScript(file) {
			return leave("%s is no compiler, or a script", f.command.CCBin)
		}
	}
	run, err := f.ask(ctx)
	if err != nil {
		return err
	}
	if f.command.CCBin == "" {
		dir, path := nvcc.SearchedFor(run.Text)
		if path == "" {
			return leave("nvcc --dryrun does not say where it finds gcc")
		}
		file, err := quick.LookIn(path, "gcc")
		if err == nil {
			err = notWrapper(file)
		}
		if err != nil {
			return err
		}
		if isScript(file) && filepath.Dir(file) != dir {
			return leave("%s is a script, which may ask for any variable", file)
		}
		if file != f.CUDA.HostCXX.Path {
			f.request.HostCompiler = file
			if run, err = f.ask(ctx); err != nil {
				return err
			}
		}
	}
	if err := f.learn(run); err != nil {
		return err
	}
	return f.learnHostText(ctx)
}

// learnHostText queries nvcc for the pass that finds the headers of the host, if only a dependency
// file needs that pass.
func (f *facts) learnHostText(ctx context.Context) (err error) {
	if f.passes == nil || f.passes.Host != nil || f.command.Deps == nil {
		return nil
	}
	run, err := f.dry(ctx, "-MD")
	if err != nil {
		return err
	}
	if f.passes.Preprocess["host"], err = nvcc.LearnHostText(run.Text); err != nil {
		return leave("nvcc --dryrun: %v", err)
	}
	return nil
}

// ask collects facts with a host compiler, and returns the dry run of nvcc.
func (f *facts) ask(ctx context.Context) (run toolchain.DryRun, err error) {
	if f.Facts, f.observed, err = probe.Collect(ctx, f.request); err != nil {
		return run, err
	}
	if f.CUDA == nil {
		return run, leave("%s", f.CUDAError)
	}
	for _, flag := range slices.Concat(f.command.Argv, f.NVCCFlags) {
		if host.NativeCPU([]string{flag}) {
			return run, leave("%s depends on the processor of this machine", flag)
		}
	}
	if missing := nvcc.Missing(f.CUDA.Programs); missing != "" {
		return run, leave("%s", missing)
	}
	f.openSteps()
	return f.dry(ctx)
}

// openSteps reads the answers of drivers that are known. An answer has paths of programs.
func (f *facts) openSteps() {
	f.steps = probe.OpenSteps(f.request.MemoPath, f.Facts, f.env.All, append(slices.Clone(f.env.Key), "PATH="+os.Getenv("PATH")))
}

// dry returns the dry run of nvcc for the command with more options.
func (f *facts) dry(ctx context.Context, more ...string) (run toolchain.DryRun, err error) {
	argv, source := f.command.Whole(f.output(), depfile), f.command.Source
	if n := len(f.command.Linked); n > 0 {
		argv = append(argv[:len(argv)-n], toolchain.QueryInput)
	}
	q := toolchain.Question{Tool: "nvcc", Args: append(nvcc.Query(argv, source, f.output(), depfile), more...)}
	return f.answer(ctx, q, "nvcc --dryrun")
}

// answer returns the driver's answer to a query, and queries the driver if the answer is not known.
// by names the driver and the option of the query.
func (f *facts) answer(ctx context.Context, q toolchain.Question, by string) (run toolchain.DryRun, err error) {
	if _, known := f.steps.Runs[q.Key()]; !known {
		if err := f.steps.Query(ctx, []toolchain.Question{q}); err != nil {
			return run, err
		}
	}
	run = f.steps.Runs[q.Key()]
	if run.Misparsed != "" || run.Error != "" {
		return run, leave("%s: %s%s", by, run.Misparsed, run.Error)
	}
	return run, nil
}

// namedCompiler returns what -ccbin names: a program, or a folder that holds gcc.
func (f *facts) namedCompiler() string {
	name := f.command.CCBin
	if info, err := os.Stat(cache.Absolute(f.launch.Dir, name)); err == nil && info.IsDir() {
		name = filepath.Join(name, "gcc")
	}
	if strings.Contains(name, "/") {
		return cache.Absolute(f.launch.Dir, name)
	}
	return name
}

// isScript reports whether an interpreter runs a program.
func isScript(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return true
	}
	defer f.Close()
	start := make([]byte, 2)
	_, err = io.ReadFull(f, start)
	return err != nil || string(start) == "#!"
}

// onlyStarts reports whether a script only starts another program with all its arguments, as
// Debian's nvcc does.
func onlyStarts(file string) bool {
	text, err := regular.ReadAtMost(file, 1<<16)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		rest, starts := strings.CutPrefix(line, "exec /")
		program, all := strings.CutSuffix(rest, ` "$@"`)
		if line != "" && line[0] != '#' && !(starts && all && !strings.ContainsAny(program, " $`\"'\\;|&<>()")) {
			return false
		}
	}
	return true
}

// The files of a compile have the same names in every compile, since a compiler may write them into
// its outputs. See place.go.
const (
	partsDir = placeDir + "/" + graph.PartsDir
	output   = placeDir + "/made"
	depfile  = placeDir + "/made.d"
)

// output returns the temporary name of the command's output.
func (f *facts) output() string { return output + filepath.Ext(f.command.Output) }

// learn finds the passes in the dry run of nvcc.
func (f *facts) learn(run toolchain.DryRun) (err error) {
	if f.command.Linked != nil {
		if f.link, err = nvcc.LearnLink(run.Text); err == nil && f.link.Host == nil {
			return leave("the link makes no object")
		}
	} else if f.passes, err = nvcc.LearnCompile(run.Text); err == nil {
		if err := f.passes.RefusedAlone(f.CUDA, f.command.Output); err != nil {
			return Left{err.Error()}
		}
	}
	if err != nil {
		return leave("nvcc --dryrun: %v", err)
	}
	return nil
}

// dryRun returns the steps of the command.
func (f *facts) dryRun() nvcc.DryRun {
	if f.link != nil {
		return f.link.DryRun
	}
	return f.passes.DryRun
}

// build is a split compile.
type build struct {
	*facts
	graph    *graph.Graph
	debug    bool // the outputs hold lines, and the working directory
	isPlaced bool // the command line names the base directory
	placed   bool // the outputs depend on the path of the base directory

	runner  *execute.Runner
	db      *tree.DB
	printed map[graph.ActionID][]byte
	peaks   map[string]int64 // bytes, see peak
	failed  error

	asked   sync.Map // the memory that was requested with a lease, in bytes, by graph.ActionID
	starved string   // see Result
}

// plan builds the graph of the passes.
func (b *build) plan() error {
	b.graph = &graph.Graph{BuildDir: placeDir, Pools: map[string]int{}}
	if b.host != nil {
		b.planHost()
		return b.graph.Seal()
	}
	c, k := b.command, b.CUDA
	whole := &graph.Action{Kind: graph.Compile, Name: c.Source, Mode: c.Mode, Argv: b.command.Whole(b.output(), depfile), Inputs: []string{c.Source}, Outputs: []string{b.output()},
		Depfile: depfile, Tools: []string{"nvcc"}, Work: graph.Work{Driver: &graph.Driver{}}}
	u := toolchain.Unit{Whole: whole, Dir: partsDir, ID: b.moduleID(), Named: b.name(), Plan: &toolchain.Plan{}, Layout: toolchain.Layout{BuildDir: placeDir}, Files: c.Deps != nil || b.launch.Base.Dir != "", Own: c.Deps != nil && c.Deps.Own, Plain: true}
	if b.link != nil {
		whole.Kind, whole.Name, whole.Inputs, whole.Depfile, whole.Work.Link = graph.DeviceLink, c.Output, c.Linked, "", &graph.Link{LTO: c.Mode == "lto"}
		var files []nvcc.File
		for i, in := range c.Linked {
			files = append(files, nvcc.File{Path: in, Slice: fmt.Sprint(slices.Index(c.Linked[:i+1], in), filepath.Ext(in))})
		}
		if err := nvcc.NewSplit(u, k, b.link.Env).Link(b.link, files); err != nil {
			return Left{err.Error()}
		}
		return b.seal(u.Plan)
	}
	b.debug = host.RecordsLines(b.passes.Options())
	b.isPlaced = b.launch.Base.In([]byte(strings.Join(append(c.Argv[1:len(c.Argv):len(c.Argv)], c.Source), "\n")))
	u.Shown = b.isPlaced && !b.debug && b.launch.Base.Dir != ""
	u.Lines = b.debug || strings.Contains(filepath.Base(k.HostCXX.Path), "clang")
	s := nvcc.NewSplit(u, k, b.passes.Env)
	if b.debug { // the outputs record the folder, as without kbuild
		s.Env = append(slices.DeleteFunc(slices.Clone(s.Env), func(e string) bool { return e == toolchain.Anywhere }), "PWD="+os.Getenv("PWD"))
	}
	s.Compile(b.passes)
	return b.seal(u.Plan)
}

// seal completes the graph with the actions of p.
func (b *build) seal(p *toolchain.Plan) error {
	for _, a := range p.Actions {
		if _, planned := b.graph.Producer(a.Outputs[0]); !planned { // a file that is linked twice
			b.emit(a)
		}
	}
	return b.graph.Seal()
}

// tools returns the fingerprints of the tools that the passes run.
func (b *build) tools() map[string]string {
	switch {
	case b.hip != nil:
		return map[string]string{"hip": b.HIP.Driver.ID}
	case b.host != nil:
		return map[string]string{"cxx": b.CXX.ID}
	}
	return map[string]string{"nvcc": b.CUDA.NVCC.ID, nvcc.Toolkit: b.CUDA.Parts.ID}
}

// moduleID names the source uniquely within any program. Two objects of one source may be linked
// together if they were compiled with different options, even one after the other to one file name.
// So the options are part of the ID. The architectures are not: another architecture recompiles
// nothing for the others.
func (b *build) moduleID() string {
	options := b.command.WithoutArchs()
	for i, o := range options {
		if spelled, ok := b.launch.Base.Spell(o); ok {
			options[i] = spelled
		}
	}
	return nvcc.ModuleID("command "+b.launch.Base.Project, b.named(b.command.Source), b.named(b.command.Output)+"\x00"+strings.Join(options, "\x00"))
}

func (b *build) emit(a *graph.Action) {
	info := a.Kind.Info()
	// its text names files, for messages
	a.CwdInKey = b.debug && !info.InProcess || info.Writes == graph.FormHost && b.isPlaced
	switch info.Reads {
	// only these print in the language of the user
	case graph.FormSource, graph.FormHost:
		a.Env = append(slices.Clip(a.Env), quick.Spoken()...)
	}
	b.graph.Add(a)
}

// run brings the passes up to date, and remembers the result.
func (b *build) run(ctx context.Context) (*Result, error) {
	if err := b.plan(); err != nil {
		return nil, err
	}
	var err error
	if b.db, err = tree.Open(placeDir + "/tree.db"); err != nil {
		return nil, err
	}
	defer b.db.Close()
	l := b.launch
	b.runner = execute.New(execute.Config{Graph: b.graph, Root: l.Dir, State: placeDir, Files: cache.NewFiles(l.Dir, nil), Listing: cache.NewListing(l.Dir),
		Records: b.db, Store: l.Store, IntermediateStore: l.Store, Tools: b.tools(), Env: b.env.All, KeyEnv: b.env.Key, Begun: l.Begun, Base: l.Base.Dir, Verbatim: true})
	b.printed, b.peaks = map[graph.ActionID][]byte{}, map[string]int64{}
	var want []graph.ActionID
	for _, a := range b.graph.Actions {
		want = append(want, a.ID)
	}
	sum, err := sched.Run(ctx, b.graph, want, sched.Options{Jobs: max(1, l.Jobs), Jobserver: l.Jobserver, KeepGoing: 1, Broker: l.Broker, Crowded: l.Broker != nil, Memory: b.memory}, passRunner{b.runner, b}, b)
	l.Store.Count(b.runner.Counters())
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case b.failed != nil:
		return nil, leave("a pass failed: %v", b.failed)
	}
	if b.runner.TellsTime() {
		return nil, leave("it tells the time")
	}
	made, err := b.made(ctx)
	if err != nil {
		return nil, err
	}
	made.Peaks = b.peaks
	b.keep(ctx, made)
	return &Result{Made: made, Ran: sum.Ran, Hits: sum.Cached, Starved: b.starved}, nil
}

// made describes the outputs of the command.
func (b *build) made(ctx context.Context) (*command.Made, error) {
	rec := b.db.LastRun(b.graph.Actions[len(b.graph.Actions)-1].Outputs[0])
	if rec == nil {
		return nil, leave("an input changed while it was compiled")
	}
	if b.host != nil {
		return b.madeByHost(ctx, rec)
	}
	o := rec.Outputs[0]
	o.Path = b.command.Output
	m := &command.Made{Outputs: []cache.Output{o}}
	var files []string
	if b.link == nil && (b.command.Deps != nil || b.launch.Base.Dir != "") {
		var err error
		if files, err = b.sources(ctx); err != nil {
			return nil, err
		}
	}
	if d := b.command.Deps; d != nil {
		m.Files = append(m.Files, command.Text{Path: d.File, Text: d.Content(files)})
	}
	if m.Stderr = b.inOrder(); b.link != nil && (strings.Contains(m.Stderr, placeDir) || strings.Contains(m.Stderr, b.launch.Dir)) {
		return nil, leave("nvlink has something to say of a file")
	}
	return m, nil
}

// passRunner notes for later launches which passes failed for lack of memory.
type passRunner struct {
	*execute.Runner
	b *build
}

// Execute implements sched.Runner.
func (r passRunner) Execute(
	ctx context.Context, a *graph.Action, local <-chan struct{},
) sched.Result {
	res := r.Runner.Execute(ctx, a, local)
	// what others have noted concurrently is not doubled again
	if n, ok := r.b.asked.Load(a.ID); ok && res.Short {
		r.b.launch.Memory.NoteShort(r.b.launch.Dir, 2*max(compilerMemory, n.(int64)))
	}
	return res
}

// peak returns a name of a pass that is unique within its command.
func peak(a *graph.Action) string { return string(a.Kind) + " " + strings.Join(a.Archs, ",") }

// memory returns how many bytes a pass is expected to need: what it took the last time, or else
// what is usual. If a pass in this folder was short of memory, it returns at least twice what that
// pass was expected to need.
func (b *build) memory(a *graph.Action) int64 {
	last, n := b.launch.Last, engine.Usual(a)
	if last != nil && last.Peaks[peak(a)] > 0 {
		n = last.Peaks[peak(a)]
	} else if n >= compilerMemory {
		n = max(n, b.launch.Memory.Short(b.launch.Dir))
	}
	b.asked.Store(a.ID, n)
	return n
}

// compilerMemory is the least memory that is expected for a pass that compiles.
const compilerMemory = 512 << 20

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
func (b *build) sources(ctx context.Context) (files []string, err error) {
	name := placeDir + "/files"
	for _, a := range b.command.Order(b.dryRun(), b.graph.Actions) {
		if a.Step().FilesOutput == "" {
			continue
		}
		if err := b.runner.CopyIntermediate(ctx, a.Step().FilesOutput, name); err != nil {
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
	if len(files) == 0 {
		return nil, leave("no pass says which files it read")
	}
	return files, nil
}

// inOrder returns what the compiler prints for the command: the messages of nvcc about its options,
// then the output of each pass.
func (b *build) inOrder() string {
	switch {
	case b.hip != nil:
		return b.hipPrinted()
	case b.host != nil:
		return string(b.printed[b.graph.Actions[0].ID])
	}
	var text strings.Builder
	text.WriteString(b.dryRun().Said)
	for _, a := range b.command.Order(b.dryRun(), b.graph.Actions) {
		text.Write(b.printed[a.ID])
	}
	return text.String()
}
