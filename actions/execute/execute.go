package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// Execute implements sched.Runner.
func (r *Runner) Execute(ctx context.Context, a *graph.Action) sched.Result {
	res := r.executeChecked(ctx, a)
	if !res.Short { // else it may be executed again
		r.done(a)
	}
	return res
}

// executeChecked is Execute for one who goes on to read what a reads.
func (r *Runner) executeChecked(ctx context.Context, a *graph.Action) sched.Result {
	r.mu.Lock()
	p := r.pending[a.ID]
	delete(r.pending, a.ID)
	r.mu.Unlock()

	res := r.execute(ctx, a, p)
	res.Reason = p.reason
	r.again(a, p, &res)
	r.sayOnce(a, &res)
	if res.Status == sched.Failed {
		r.forgetOutputs(a)
		r.judge(ctx, a, res)
	}
	return res
}

// forgetOutputs drops what is known of a failed action's outputs; a command that writes them itself
// may have left half of them.
func (r *Runner) forgetOutputs(a *graph.Action) {
	for _, o := range a.Outputs {
		if a.InPlace {
			os.Remove(r.abs(o))
		}
		r.written(o)
	}
}

func (r *Runner) execute(ctx context.Context, a *graph.Action, p pending) sched.Result {
	res, early := r.attempt(ctx, a, p, true)
	if early {
		r.clock.after(r.Begun.Add(cache.FileTick))
		res, _ = r.attempt(ctx, a, p, false)
	}
	return res
}

// attempt executes a. Where it may be repeated, early says that it must be: see Runner.early.
func (r *Runner) attempt(ctx context.Context, a *graph.Action, p pending, repeatable bool) (res sched.Result, early bool) {
	dir, err := r.newScratch(a)
	if err != nil {
		return failed(err), false
	}
	defer func() { dir.remove(res.Status == sched.Failed || early) }()
	if a.InPlace {
		if err := r.clearOutputs(a); err != nil {
			return failed(err), false
		}
	}
	rec, stable, res := r.produce(ctx, a, p, dir)
	if res.Status == sched.Failed {
		return res, false
	}
	if repeatable && !stable && r.early(rec.Made) {
		return res, true
	}
	r.note(a, rec)
	if a.Intermediate {
		return r.keepPart(ctx, a, rec, res, dir, stable), false
	}
	return r.keep(ctx, a, rec, res, dir, stable), false
}

// produce does what a is for in dir, or in place, and describes it. stable is false if an input changed meanwhile.
func (r *Runner) produce(ctx context.Context, a *graph.Action, p pending, dir scratch) (rec *cache.Record, stable bool, res sched.Result) {
	start := r.settle(a)
	before := r.beside(a)
	res, heard := r.perform(ctx, a, dir)
	if err := r.onlyOutputs(a, before); err != nil && res.Status != sched.Failed {
		res.Status, res.Err = sched.Failed, err
	}
	if res.Status == sched.Failed {
		return nil, false, res
	}
	if err := r.lostCode(a, dir); err != nil {
		res.Status, res.Err = sched.Failed, err
		return nil, false, res
	}
	if k := a.Work.Keep; k != nil {
		for i, kept := range k.Files {
			if err := os.Rename(filepath.Join(dir.file("keep"), kept), dir.output(i, a.Outputs[i])); err != nil {
				return nil, false, failed(fmt.Errorf("the command ended well and did not leave %s: %w", kept, err))
			}
		}
	}
	m, err := r.texts(a, dir)
	if err != nil {
		return nil, false, failed(fmt.Errorf("the command ended well and did not write its output: %w", err))
	}
	rec, stable, err = r.record(ctx, a, p, m.outputs, dir, start)
	if err != nil {
		res.Status, res.Err = sched.Failed, err
		return nil, false, res
	}
	for _, f := range m.taken {
		if !discover.Discovers(rec, f.Path) {
			rec.Discovered = append(rec.Discovered, f)
		}
	}
	rec.Discovered = append(rec.Discovered, r.discovery.Conditions(a, rec.Discovered, m.used, heard.text != "")...)
	rec.Text, rec.Functions = heard.text, heard.functions
	rec.Elapsed, rec.CPU, rec.MaxRSS = res.Elapsed, res.CPU, res.MaxRSS
	return rec, stable, res
}

// heard is what a command said: what a later hit replays, and what ptxas told of functions.
type heard struct {
	text      string
	functions []cache.Function
}

// perform does what an action is for.
func (r *Runner) perform(ctx context.Context, a *graph.Action, dir scratch) (sched.Result, heard) {
	if err := r.bring(ctx, a, a.Argv); err != nil {
		return failed(err), heard{}
	}
	if a.Kind.InProcess() {
		if err := r.builtin(a, dir); err != nil {
			return failed(err), heard{}
		}
		return sched.Result{Status: sched.Ran}, heard{}
	}
	if err := r.stage(a, dir); err != nil {
		return failed(err), heard{}
	}
	res, h := r.command(ctx, a, a.Argv, dir)
	if a.Step().Gate && res.Status != sched.Failed {
		if err := copyFile(r.abs(a.Inputs[0]), dir.output(0, a.Outputs[0])); err != nil {
			return failed(err), heard{}
		}
	}
	var e *ended
	if a.Step().DiagnosticArgv == nil || h.text == "" && res.Status != sched.Failed || errors.As(res.Err, &e) {
		return res, h
	}
	// It has something to say: again, of the text with the true line numbers. What it makes stays that of the canonical
	// text, which is the same wherever the lines are.
	if err := r.bring(ctx, a, a.Step().DiagnosticArgv); err != nil {
		return failed(err), heard{}
	}
	loud := scratch{dir: dir.file("aloud"), tmp: dir.tmp + "/aloud"}
	if err := makeFolders(loud.dir, a); err != nil {
		return failed(err), heard{}
	}
	if err := r.stage(a, loud); err != nil {
		return failed(err), heard{}
	}
	again, said := r.command(ctx, a, a.Step().DiagnosticArgv, loud)
	if res.Status == sched.Failed && again.Status != sched.Failed {
		for i, o := range a.Outputs {
			if err := os.Rename(loud.output(i, o), dir.output(i, o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return failed(err), heard{}
			}
		}
	}
	again.CPU += res.CPU
	again.Elapsed += res.Elapsed
	return again, said
}

// clearOutputs removes the outputs of a command that writes them itself, so that it cannot succeed
// by leaving an old one.
func (r *Runner) clearOutputs(a *graph.Action) error {
	for _, o := range a.Outputs {
		if err := os.MkdirAll(filepath.Dir(r.abs(o)), 0o777); err != nil {
			return fmt.Errorf("making the folder of %s: %w", o, err)
		}
		if err := os.Remove(r.abs(o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the old %s: %w", o, err)
		}
		r.written(o)
	}
	return nil
}

// frontEndMemory is what cudafe++ and cicc take of an ordinary source, in bytes.
const frontEndMemory = 256 << 20

// command runs the process of a.
func (r *Runner) command(ctx context.Context, a *graph.Action, argv []string, dir scratch) (sched.Result, heard) {
	refs, err := r.withHostRefs(a, argv, dir)
	if err != nil {
		return failed(err), heard{}
	}
	if argv, err = r.commandLine(a, refs.argv, dir); err != nil {
		return failed(err), heard{}
	}
	out, err := r.process(ctx, a, argv, dir)
	res := sched.Result{Status: sched.Ran, Output: out.Output, Argv: refs.shown(a), Elapsed: out.Elapsed, CPU: out.UserCPU + out.SysCPU, MaxRSS: out.MaxRSS}
	var h heard
	if err == nil {
		h, err = r.hear(a, out, refs, dir)
		res.Output = []byte(h.text)
	}
	if err != nil {
		res.Status, res.Err = sched.Failed, err
		return res, heard{}
	}
	return res, h
}

// process runs argv where and with what the command of a runs.
func (r *Runner) process(ctx context.Context, a *graph.Action, argv []string, dir scratch) (run.Result, error) {
	cwd := r.Root
	if a.Step().EmptyCwd {
		cwd = dir.file("apart")
		if err := os.MkdirAll(cwd, 0o777); err != nil {
			return run.Result{}, err
		}
	}
	env := append(append(slices.Clone(r.Env), "TMPDIR="+dir.tmp), a.Env...)
	if a.Kind == graph.CICC || a.Kind == graph.Cudafe {
		env = append(env, run.HugePages(r.hungry.Add(1)*frontEndMemory)...)
		defer r.hungry.Add(-1)
	}
	if r.under != nil {
		argv = r.under(a, argv, cwd)
	}
	c := run.Command{Argv: argv, Dir: cwd, Env: env, MaxOutput: mostSaid(a)}
	if discover.IsTraced(a) {
		f, err := os.Create(dir.traceFile())
		if err != nil {
			return run.Result{}, err
		}
		defer f.Close()
		c.Stdout = f
	}
	out, err := run.Run(ctx, c)
	if c.Stdout != nil && discover.TellsUser(a) {
		out.Output = append(out.Output, r.discovery.Trace(r.ran(a, dir, cache.Moment{})).Rest...)
	}
	if errors.Is(err, unix.ENOMEM) {
		err = &ended{err.Error(), true}
	}
	return out, err
}

// hear reads what the process of a said, and whether it did what it is for: nvlink drops code with status 0.
func (r *Runner) hear(a *graph.Action, out run.Result, refs refsArgv, dir scratch) (heard, error) {
	said := r.plain(a, refs.said(string(out.Output)), dir)
	rest, functions := takeFigures(said)
	if a.Step().ResourceUsage {
		said = rest
	}
	var faults []nvcc.Fault
	if a.Work.Link != nil {
		said, faults = nvcc.ReadNVLink(said, a.Link().NonLTO)
	}
	h := heard{run.Shorten(said, run.DefaultOutput), functions}
	var err error
	switch {
	case a.Work.Link != nil && out.LeftOut > 0 && out.ExitCode == 0:
		return h, fmt.Errorf("nvlink said more than can be checked (%d bytes more): it ends with status 0 when it drops code, and says so only", out.LeftOut)
	case exitError(out) != nil:
		err = r.explainFailure(a, h.text, r.inCircumstances(a, exitError(out)))
	case len(faults) > 0:
		err = linkError(a, faults)
	}
	if err != nil && a.Work.Link != nil && a.Link().Check && (out.ExitCode != 0 || len(faults) > 0) {
		err = checkLinkError(a, h.text, err)
	}
	return h, err
}

// inCircumstances adds to the failure of a's process what the process may not have known of.
func (r *Runner) inCircumstances(a *graph.Action, err error) error {
	if r.diskFull() {
		err = fmt.Errorf("%w: the disk of the build tree is full, or almost", err)
	}
	if a.Work.Link != nil && len(a.Link().Untold) > 0 { // nvlink names no file; 11.8 ends by a segmentation fault
		err = fmt.Errorf("%w: nvlink compares the floating-point options of LTO-IR, and %s does not say with which it was compiled", err, strings.Join(a.Link().Untold, ", "))
	}
	return err
}

// mostSaid is how much of what an action says is kept. What is read for more than to be shown is kept as long as anything real says it:
// ptxas has 300 bytes for each function, nvlink a line for each symbol that it misses.
func mostSaid(a *graph.Action) int {
	if a.Work.Link != nil || a.Step().ResourceUsage {
		return 32 << 20
	}
	return run.DefaultOutput
}

// plain takes folders of kbuild's own out of what a command said.
func (r *Runner) plain(a *graph.Action, said string, dir scratch) string {
	said = strings.ReplaceAll(said, dir.tmp+"/", "")
	if a.Step().EmptyCwd {
		said = strings.ReplaceAll(said, r.Root+"/", "")
	}
	if rel := r.relative(dir); dir.name != "" {
		said = strings.ReplaceAll(said, rel.output(0, ""), path.Base(a.Outputs[0]))
	} else {
		said = strings.ReplaceAll(said, rel.dir+"/", "")
	}
	if a.Kind == graph.NVLink {
		said = strings.ReplaceAll(said, path.Join(r.Graph.BuildDir, graph.SlicesDir, a.Archs[0])+"/", r.Graph.BuildDir+"/")
	}
	return said
}

// explainFailure adds what kbuild knows and the compiler does not: that a header it did not find is
// made by a generate block which the target does not depend on.
func (r *Runner) explainFailure(a *graph.Action, said string, err error) error {
	for _, line := range strings.Split(said, "\n") {
		before, _, ok := strings.Cut(line, ": No such file or directory")
		if !ok {
			continue
		}
		name := before[strings.LastIndex(before, ": ")+1:]
		name = strings.TrimSpace(name)
		if g := r.generator(a, name); g != nil {
			return fmt.Errorf("%w: %s is made by %s (%s): add it to the deps of %s", err, name, g.Target, g.Pos, a.Target)
		}
	}
	return err
}

// generator is the generate action outside of a's dependencies that writes a file spelled name.
func (r *Runner) generator(a *graph.Action, name string) *graph.Action {
	if name == "" {
		return nil
	}
	for g := range r.all() {
		for _, o := range g.Outputs {
			if g.Kind == graph.Generate && (o == name || strings.HasSuffix(o, "/"+name)) && !r.needs(a, g) {
				return g
			}
		}
	}
	return nil
}

// linkError is the message about a device link that ended with status 0 and dropped code.
func linkError(a *graph.Action, faults []nvcc.Fault) error {
	var say []string
	for _, f := range faults {
		file, _, _ := strings.Cut(f.Culprit, ":")
		who := f.Culprit
		if owner := a.Link().Owners[file]; owner != "" {
			who = fmt.Sprintf("%s of %s (%s)", f.Culprit, owner, a.Link().OwnerPos[file])
		}
		switch f.Kind {
		case "partial-lto":
			say = append(say, fmt.Sprintf("%s is not built for LTO, so this would be partial LTO; declare lto = \"none\" on a prebuilt to accept it", who))
		case "no-arch":
			say = append(say, fmt.Sprintf("%s holds no code for %s; the program would lack it", who, f.Arch))
		case "no-lto":
			say = append(say, "nvlink found no LTO-IR and ignored -dlto; the program would hold no code")
		default:
			say = append(say, f.Line)
		}
	}
	slices.Sort(say)
	return errors.New("the device link lost code: " + strings.Join(slices.Compact(say), "; "))
}

// maxArgs is when arguments move to a response file; Linux allows 2 MiB for arguments and environment.
const maxArgs = 128 << 10

// commandLine is a's argv with temporary names for what it writes, and a response file if it is long.
func (r *Runner) commandLine(a *graph.Action, argv []string, dir scratch) ([]string, error) {
	argv = slices.Clone(argv)
	switch {
	case a.Intermediate || a.Driver().Argv != nil || a.Kind == graph.Bundle:
		names := r.partNames(a, dir)
		for i, arg := range argv {
			argv[i] = names.Replace(arg)
		}
	default:
		names, err := r.tempNames(a, dir)
		if err != nil {
			return nil, err
		}
		for i, arg := range argv {
			if t, ok := names[arg]; ok {
				argv[i] = t
			} else if a.Depfile != "" && arg == host.DependencyFile+a.Depfile {
				argv[i] = host.DependencyFile + names[a.Depfile]
			} else if k := a.Work.Keep; k != nil {
				if rest, ok := strings.CutPrefix(arg, k.Dir+"/"); ok {
					argv[i] = names[k.Dir] + "/" + rest
				}
			}
		}
	}
	size := 0
	for _, arg := range argv {
		size += len(arg) + 1
	}
	rsp := a.Work.Response
	if rsp == nil || size < maxArgs {
		return argv, nil
	}
	file := dir.file("args.rsp")
	if err := os.WriteFile(file, responseFile(argv[rsp.From:]), 0o666); err != nil {
		return nil, fmt.Errorf("writing a response file: %w", err)
	}
	return append(argv[:rsp.From:rsp.From], rsp.Flag+r.relative(dir).file("args.rsp")), nil
}

// tempNames are the temporary names of what a's command writes, by the names in its argv. In place it writes its outputs themselves.
func (r *Runner) tempNames(a *graph.Action, dir scratch) (map[string]string, error) {
	rel := r.relative(dir)
	names := map[string]string{}
	for i, o := range a.Outputs {
		if !a.InPlace {
			names[o] = rel.output(i, o)
		}
	}
	if a.Depfile != "" {
		names[a.Depfile] = rel.depfile()
	}
	if k := a.Work.Keep; k != nil {
		names[k.Dir] = rel.file("keep")
		if err := os.MkdirAll(dir.file("keep"), 0o777); err != nil {
			return nil, fmt.Errorf("making a temporary folder: %w", err)
		}
	}
	return names, nil
}

// partNames replaces the names of files in the command of a part, also inside of arguments.
func (r *Runner) partNames(a *graph.Action, dir scratch) *strings.Replacer {
	rel := r.relative(dir)
	if a.Step().EmptyCwd {
		rel = dir
	}
	pairs := [][2]string{{graph.StageDir, rel.file("in")}}
	for i, o := range a.Outputs {
		pairs = append(pairs, [2]string{o, rel.output(i, o)})
	}
	if a.Depfile != "" {
		pairs = append(pairs, [2]string{a.Depfile, rel.depfile()})
	}
	if a.Step().EmptyCwd {
		for _, in := range a.Reads() {
			{
				pairs = append(pairs, [2]string{in, r.abs(in)})
			}
		}
	}
	return replacer(pairs)
}

// responseFile quotes arguments as gcc, ar and ld read them: one a line, a backslash before blanks,
// quotes and backslashes.
func responseFile(args []string) []byte {
	var b strings.Builder
	for _, arg := range args {
		for _, c := range arg {
			if strings.ContainsRune(" \t\n\\\"'", c) {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// record describes what the command wrote and read. stable is false if an input changed meanwhile:
// then the outputs are used and not recorded.
func (r *Runner) record(ctx context.Context, a *graph.Action, p pending, known map[string]cache.Output, dir scratch, start cache.Moment) (rec *cache.Record, stable bool, err error) {
	rec = &cache.Record{Command: p.key, Fields: p.fields, Made: start.Time}
	for i, o := range a.Outputs {
		if out, ok := known[o]; ok {
			rec.Outputs = append(rec.Outputs, out)
			continue
		}
		file := r.abs(o)
		if !a.InPlace {
			file = dir.output(i, o)
		}
		out, err := digestOutput(file, o)
		if err != nil {
			return nil, false, fmt.Errorf("the command ended well and did not write %s: %w", o, err)
		}
		rec.Outputs = append(rec.Outputs, out)
	}
	stable = true
	for in, d := range p.inputs {
		if now, ok := r.partDigest(in); ok {
			stable = stable && now == d
			continue
		}
		since := start
		if r.maker(in) != nil {
			since = cache.Moment{} // ours, and possibly made a moment ago
		}
		stable = stable && r.Files.Unchanged(in, d, since)
	}
	for _, text := range a.Step().KeyedByText {
		stable = stable && r.followed(text, start)
	}
	stable = stable && r.stillTaken(a, start)
	found, err := r.discovery.Find(ctx, r.ran(a, dir, start), rec)
	if err == nil {
		err = r.undeclared(a, rec.Discovered)
	}
	return rec, stable && found, err
}

// ran describes the command of a that has run in dir.
func (r *Runner) ran(a *graph.Action, dir scratch, start cache.Moment) discover.Ran {
	return discover.Ran{
		Action: a, Depfile: dir.depfile(), Trace: dir.traceFile(), Scratch: dir.file("expanded"), Folders: []string{dir.tmp, dir.dir}, Staged: r.relative(dir).dir,
		Changed: func(file string, was cache.Digest) bool { return !r.Files.Unchanged(file, was, start) },
	}
}

func digestOutput(file, name string) (cache.Output, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return cache.Output{}, err
	}
	if !info.Mode().IsRegular() {
		return cache.Output{}, fmt.Errorf("%s is no regular file", name)
	}
	d, err := cache.DigestFile(file)
	return cache.Output{Path: name, Digest: d, Size: info.Size(), Exec: info.Mode()&0o100 != 0}, err
}

// keep moves the outputs into place and records the run.
func (r *Runner) keep(ctx context.Context, a *graph.Action, rec *cache.Record, res sched.Result, dir scratch, stable bool) sched.Result {
	fail := func(err error) sched.Result {
		res.Status, res.Err = sched.Failed, err
		return res
	}
	for i, o := range rec.Outputs {
		if a.InPlace {
			r.written(o.Path)
		} else if err := r.place(dir.output(i, o.Path), o); err != nil {
			return fail(err)
		}
	}
	if !stable {
		r.Journal.Remove(a.Outputs[0])
		res.Output = append(res.Output, []byte("kbuild: "+a.Name+": an input changed while it was being built; it will be built again next time\n")...)
		return res
	}
	if err := r.Journal.Append(rec); err != nil {
		return fail(fmt.Errorf("writing the build journal: %w", err))
	}
	r.share(ctx, r.Store, a, rec)
	return res
}

// share puts a record and its outputs into a store, if there is one. An output that tells the time is not for others.
func (r *Runner) share(ctx context.Context, store cache.Store, a *graph.Action, rec *cache.Record) {
	if store == nil || r.discovery.TellsTime(a, rec.Discovered) || discover.RunsEachTime(rec) != "" {
		return
	}
	if err := store.Put(ctx, rec, func(o cache.Output) string { return r.abs(o.Path) }); err != nil && ctx.Err() == nil {
		r.warn(fmt.Sprintf("the cache cannot be written, building goes on without: %v", err))
	}
}
