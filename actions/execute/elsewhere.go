package execute

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
)

// The passes behind the preprocessor read little: cicc and cudafe++ a text, ptxas PTX, nvlink
// slices, AMD's links bitcode. So they run on any Linux machine, without a toolkit on it: the
// program, the shared libraries that it is linked with and the loader that joins them are inputs
// like any other, and the command begins with that loader. All files of the project have the names
// there that they have here, relative to the root, which is the folder that the command runs in;
// what lies outside of it is below awayRoot. Nothing else is there to be read.
//
// Names that this machine alone has must not show in what is made. Passes whose outputs hold names,
// as debug information does, do not travel.
const (
	awayDir  = "kbuild-away"
	awayRoot = awayDir + "/root" // of absolute names
	awayLib  = awayDir + "/lib"  // shared libraries and the loader
	awayTemp = awayDir + "/tmp"
)

// Elsewhere runs commands on other machines.
type Elsewhere interface {
	// Executes reports whether it does so now. Ready is closed when that is first known.
	Executes() bool
	Ready() <-chan struct{}
	// Overhead is how much longer a command takes there, by the bytes that move for it.
	Overhead(bytes int64) time.Duration
	Execute(ctx context.Context, cmd remote.Command) (*remote.Outcome, error)
	// Judge tells of a command that ended there with a status that is not 0 whether it ended well
	// here.
	Judge(out *remote.Outcome, well bool)
	// Used tells of a command whose outputs were used.
	Used()
}

// errLost is what became of a command elsewhere that says nothing of its action.
var errLost = errors.New("it was lost on another machine")

// failedThere is a command that ended elsewhere with a status that is not 0. That says nothing of
// its action before it has run here.
type failedThere struct{ out *remote.Outcome }

func (f *failedThere) Error() string { return "it failed on another machine" }

// Unwrap says that it is lost.
func (f *failedThere) Unwrap() error { return errLost }

// judge tells of a command that ended elsewhere with err whether it ended well here.
func (c *carrier) judge(err error, well bool) {
	var f *failedThere
	if errors.As(err, &f) {
		c.elsewhere.Judge(f.out, well)
	}
}

// carrier packs commands for other machines.
type carrier struct {
	elsewhere Elsewhere
	platform  [][2]string
	memory    func(*graph.Action) int64 // expected peak in bytes; nil is unknown
	cost      func(*graph.Action) time.Duration
	root      string
	env       []string
	keyEnv    []string
	files     *cache.Files
	digest    func(file string) (cache.Digest, error)
	named     func(a *graph.Action) []string
	ask       func(ctx context.Context, a *graph.Action, question []string, quiet bool) (said string, ok bool)
	here      func(ctx context.Context, a *graph.Action, argv []string, dir scratch) (run.Result, error)
	texts     sync.Mutex // held while a text is written: see fillText
	programs  sync.Map   // see once
}

// travels reports whether a may run on another machine.
func travels(a *graph.Action) bool {
	if a.Kind == graph.LLD && !slices.Contains(a.Argv, "-flavor") { // a clang that runs an lld of its own
		return false
	}
	if a.Kind == graph.DeviceCode && !hasText(a) {
		return false
	}
	return a.Kind.Info().Portable && (a.Depfile == "" || hasText(a)) && !a.CwdInKey &&
		!a.Step().StageInKey && !a.InPlace && a.Work.Keep == nil
}

// Portable implements sched.Distributor. What takes less time here than its files take to move is
// not worth it.
func (r *Runner) Portable(a *graph.Action) bool {
	c := r.carrier
	if c == nil || !travels(a) {
		return false
	}
	var bytes int64
	reads := commandReads(a, a.Argv)
	for _, in := range a.Reads() {
		if reads(in) {
			bytes += r.intermediates.size(in)
		}
	}
	if hasText(a) {
		bytes += usualText
	}
	back := bytes // if nothing is known
	if rec := r.Records.Last(a.Outputs[0]); rec != nil {
		back = 0
		for _, o := range rec.Outputs {
			back += o.Size
		}
	}
	bytes += back
	return c.cost(a) > c.elsewhere.Overhead(bytes)
}

// Open implements sched.Distributor.
func (r *Runner) Open() bool { return r.carrier != nil && r.carrier.elsewhere.Executes() }

// Opened implements sched.Distributor.
func (r *Runner) Opened() <-chan struct{} {
	if r.carrier == nil {
		return nil
	}
	return r.carrier.elsewhere.Ready()
}

// runElsewhere runs the command of a on another machine, and from the time when dir.here is closed
// also on this one, by locally. What ends well first counts; what ends badly elsewhere does not.
func (c *carrier) runElsewhere(ctx context.Context, a *graph.Action, argv []string, dir scratch, locally func(context.Context) (run.Result, error)) (run.Result, error) {
	p, err := c.pack(ctx, a, argv, dir)
	if err != nil {
		return run.Result{}, errLost
	}
	type outcome struct {
		run.Result
		err error
	}
	there, here := make(chan outcome, 1), make(chan outcome, 1)
	away, beaten := context.WithCancelCause(ctx)
	defer beaten(nil)
	go func() {
		res, err := c.execute(away, p)
		there <- outcome{res, err}
	}()
	select {
	case o := <-there:
		if o.err == nil {
			o.err = c.accept(p)
		}
		return o.Result, o.err
	case <-dir.here:
	}
	local, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		res, err := locally(local)
		here <- outcome{res, err}
	}()
	select {
	case o := <-here:
		beaten(remote.ErrBeaten)
		go func() { c.judge((<-there).err, o.err == nil && o.ExitCode == 0) }() // both may have ended
		return o.Result, o.err
	case o := <-there:
		if o.err == nil {
			stop()
			if l := <-here; ctx.Err() != nil {
				return l.Result, l.err
			}
			return o.Result, c.accept(p)
		}
		l := <-here
		c.judge(o.err, l.err == nil && l.ExitCode == 0)
		return l.Result, l.err
	}
}

// execute runs a packed command, and here what is left to do after it.
func (c *carrier) execute(ctx context.Context, p *parcel) (run.Result, error) {
	begun := time.Now()
	out, err := c.elsewhere.Execute(ctx, p.cmd)
	switch {
	case err == nil && out.ExitCode != 0:
		return run.Result{}, &failedThere{out}
	case err != nil, p.silent && len(out.Stdout)+len(out.Stderr) > 0:
		return run.Result{}, errLost
	case len(out.Stdout) > 0 && len(out.Stderr) > 0: // nobody knows in which order
		return run.Result{}, errLost
	}
	res := run.Result{Output: append(out.Stdout, out.Stderr...), Elapsed: out.Elapsed, UserCPU: out.CPU, MaxRSS: out.MaxRSS, Worker: cmp.Or(out.Worker, "another machine")}
	if p.then != nil {
		last, err := p.then(ctx)
		if err != nil || last.ExitCode != 0 || len(last.Output) > 0 {
			return run.Result{}, errLost
		}
		res.UserCPU += last.UserCPU + last.SysCPU
	}
	if res.Elapsed <= 0 {
		res.Elapsed = time.Since(begun)
	}
	return res, nil
}

// accept moves what came back to where the command would have written it here.
func (c *carrier) accept(p *parcel) error {
	for from, to := range p.moves {
		if err := os.Rename(from, to); err != nil {
			return errLost
		}
	}
	c.elsewhere.Used()
	return nil
}

// name is what a file, absolute or relative to the root, is called on another machine.
func (c *carrier) name(file string) string {
	if !filepath.IsAbs(file) {
		return filepath.ToSlash(filepath.Clean(file))
	}
	if rel, err := filepath.Rel(c.root, file); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return filepath.ToSlash(rel)
	}
	return awayRoot + filepath.ToSlash(filepath.Clean(file))
}

// parcel is a command that is being packed.
type parcel struct {
	*carrier
	cmd    remote.Command
	inputs map[string]bool   // by path
	moves  map[string]string // files that come back, and where the command would have written them here
	prog   *program

	silent bool                                          // what it says would not be what the command says here
	then   func(ctx context.Context) (run.Result, error) // what is left to do here
}

// pack makes the command argv of a ready for another machine. An error says why it must stay here.
func (c *carrier) pack(ctx context.Context, a *graph.Action, argv []string, dir scratch) (*parcel, error) {
	p := &parcel{carrier: c, inputs: map[string]bool{}, moves: map[string]string{}}
	p.cmd.Folders = []string{awayTemp}
	fill := p.fill
	if hasText(a) {
		fill = p.fillText
	}
	if err := fill(ctx, a, argv, dir); err != nil {
		return nil, err
	}
	p.cmd.Platform = c.platformOf(a)
	return p, p.addEnv(a)
}

// fill packs a command that runs there as it runs here.
func (p *parcel) fill(ctx context.Context, a *graph.Action, argv []string, dir scratch) error {
	if err := p.addProgram(ctx, a, argv[0]); err != nil {
		return err
	}
	if err := errors.Join(p.addInputs(a, argv), p.addScratch(dir)); err != nil {
		return err
	}
	for i, arg := range argv[1:] {
		if !slices.Contains(a.Step().UnkeyedPaths, arg) { // that is for messages
			var err error
			if arg, err = p.argument(ctx, argv[i], arg); err != nil {
				return err
			}
		}
		p.cmd.Argv = append(p.cmd.Argv, arg)
	}
	p.addOutputs(a, argv, dir)
	if a.Kind.Info().Lane == graph.LaneDevLink {
		return p.addLibraries(a, argv)
	}
	return nil
}

// addProgram adds a program of a with all that it takes to run, and begins the command with it.
func (p *parcel) addProgram(ctx context.Context, a *graph.Action, name string) error {
	file, err := run.LookPath(name, p.root, p.env)
	if err != nil {
		return err
	}
	if p.prog, err = p.program(ctx, file, append(slices.Clone(p.env), a.Env...)); err != nil {
		return err
	}
	p.cmd.Argv = []string{awayLib + "/" + filepath.Base(p.prog.loader), "--inhibit-cache", "--library-path", awayLib, p.name(p.prog.file)}
	return p.addAll(p.prog.files)
}

// addEnv sets the variables of the command. Those of the user are for host compilers; the loader is
// told where libraries are.
func (p *parcel) addEnv(a *graph.Action) error {
	p.cmd.Env = append(slices.DeleteFunc(slices.Clone(p.keyEnv), isLibraryPath), "LC_ALL=C", "TZ=UTC")
	for _, e := range a.Env {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case isLibraryPath(e):
			continue
		case name == "NVVMIR_LIBRARY_DIR":
			files, err := filepath.Glob(filepath.Join(value, "*.bc"))
			if err != nil {
				return err
			}
			if err := p.addFiles(files...); err != nil {
				return err
			}
			e = name + "=" + p.name(value)
		case strings.Contains(value, "/") && e != compiler.Anywhere:
			return fmt.Errorf("nobody knows what %s names", e)
		}
		p.cmd.Env = append(p.cmd.Env, e)
	}
	p.cmd.Env = append(p.cmd.Env, "TMPDIR="+awayTemp)
	return nil
}

func isLibraryPath(e string) bool { return strings.HasPrefix(e, "LD_LIBRARY_PATH=") }

// memoryWord stands in a property for the memory that an action is expected to need, in bytes,
// rounded up to a power of two.
const memoryWord = "{memory}"

func (c *carrier) platformOf(a *graph.Action) [][2]string {
	need := int64(512 << 20)
	for c.memory != nil && need < c.memory(a) {
		need *= 2
	}
	out := slices.Clone(c.platform)
	for i := range out {
		out[i][1] = strings.ReplaceAll(out[i][1], memoryWord, fmt.Sprint(need))
	}
	return out
}

// add adds a file under the name that it has there. Files that others may change are digested by
// their stat; digest, if it is not nil, knows better.
func (p *parcel) add(file, path string, digest func() (cache.Digest, error)) error {
	if p.inputs[path] {
		return nil
	}
	p.inputs[path] = true
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", file)
	}
	if digest == nil {
		digest = func() (cache.Digest, error) { return p.files.Digest(file) }
	}
	d, err := digest()
	p.cmd.Inputs = append(p.cmd.Inputs, remote.Input{Path: path, File: file, Digest: d, Size: info.Size(), Exec: info.Mode()&0o100 != 0})
	return err
}

// addFiles adds files under the names that they have there.
func (p *parcel) addFiles(files ...string) error {
	for _, file := range files {
		if err := p.add(file, p.name(file), nil); err != nil {
			return err
		}
	}
	return nil
}

// addAll adds files by the paths that they get there.
func (p *parcel) addAll(files map[string]string) error {
	for path, file := range files {
		if err := p.add(file, path, nil); err != nil {
			return err
		}
	}
	return nil
}

// addInputs adds what the command reads by declaration.
func (p *parcel) addInputs(a *graph.Action, argv []string) error {
	reads := commandReads(a, argv)
	for _, in := range append(a.Reads(), p.named(a)...) {
		if in == a.Link().HostRefs || !reads(in) {
			continue
		}
		if err := p.add(cache.Absolute(p.root, in), p.name(in), func() (cache.Digest, error) { return p.digest(in) }); err != nil {
			return err
		}
	}
	return nil
}

// addScratch adds what kbuild has put into the action's own folder.
func (p *parcel) addScratch(dir scratch) error {
	return filepath.WalkDir(dir.dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			p.cmd.Folders = append(p.cmd.Folders, p.name(file))
			return nil
		}
		if d.Type() == fs.ModeSymlink { // to a part of a tool
			return p.add(file, p.name(file), func() (cache.Digest, error) { return p.files.Digest(file) })
		}
		return p.add(file, p.name(file), func() (cache.Digest, error) { return cache.DigestFile(file) })
	})
}

// addOutputs says what the command writes: what kbuild makes of it is made here.
func (p *parcel) addOutputs(a *graph.Action, argv []string, dir scratch) {
	for i, o := range a.Outputs {
		file := dir.output(i, o)
		if !slices.ContainsFunc(argv, func(arg string) bool {
			return strings.HasSuffix(arg, file) || strings.HasSuffix(arg, dir.seen().output(i, o))
		}) {
			continue
		}
		back := dir.file(fmt.Sprintf("away%d", i))
		p.addOutput(file, back)
		p.moves[back] = file
	}
}

// addOutput says that the command writes a file, and where that is wanted.
func (p *parcel) addOutput(file, back string) {
	p.cmd.Outputs = append(p.cmd.Outputs, remote.Output{Path: p.name(file), File: back})
	p.cmd.Folders = append(p.cmd.Folders, filepath.Dir(p.name(file)))
}

// argument is an argument as it is there. What it names outside of the project comes along, if that
// is a file; folders only where it is known what is read in them.
func (p *parcel) argument(ctx context.Context, before, arg string) (string, error) {
	option, file := "", arg
	switch at := strings.Index(arg, "=/"); {
	case strings.HasPrefix(arg, "/"):
	case strings.HasPrefix(arg, "-L/") && strings.Contains(arg, ","): // several, to nvlink
		return "", fmt.Errorf("nobody knows what %s names", arg)
	case strings.HasPrefix(arg, "-L/"):
		option, file = "-L", arg[2:]
	case at > 0:
		option, file = arg[:at+1], arg[at+1:]
	case strings.Contains(arg, " /"), strings.Contains(arg, ",/"), strings.HasPrefix(arg, "-I"):
		return "", fmt.Errorf("nobody knows what %s names", arg)
	default:
		return arg, nil
	}
	name := p.name(file)
	info, err := os.Stat(file)
	switch {
	case before == "--host-ccbin": // nvlink does not start it
	case before == "--stub_file_name": // cicc writes it into that file, which is not the same with a name of another machine
		return "", fmt.Errorf("%s names itself", file)
	case err != nil || p.inputs[name]: // it will be written, or is one of the inputs
	case option == "-nvvmpath=":
		return option + name, p.addNVVM(ctx, file)
	case info.IsDir() && option != "-L":
		return "", fmt.Errorf("nobody knows what is read in %s", file)
	case !info.IsDir():
		return option + name, p.addFiles(file)
	}
	return option + name, nil
}

// addNVVM adds what nvlink loads by itself.
func (p *parcel) addNVVM(ctx context.Context, dir string) error {
	files := []string{filepath.Join(dir, "lib64/libnvvm.so")}
	libs, err := once(&p.prog.loads, files[0], func() (map[string]string, error) { return p.libraries(ctx, p.prog.loader, files[0], p.prog.env) })
	if err != nil {
		return err
	}
	if device := filepath.Join(dir, "libdevice/libdevice.10.bc"); exists(device) {
		files = append(files, device)
	}
	return errors.Join(p.addAll(libs), p.addFiles(files...))
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// addLibraries adds what -l may stand for.
func (p *parcel) addLibraries(a *graph.Action, argv []string) error {
	for _, candidates := range compiler.DeviceLibraries(argv, a.Kind == graph.LLD) {
		found := false
		for _, file := range candidates {
			if file = cache.Absolute(p.root, file); exists(file) {
				found = true
				if err := p.addFiles(file); err != nil {
					return err
				}
			}
		}
		if !found {
			return fmt.Errorf("no folder of the command has one of %s", candidates)
		}
	}
	return nil
}

// program is a program of a tool with all that it takes to run.
type program struct {
	file   string            // without links
	loader string            // absolute
	env    []string          // in which the loader was asked
	files  map[string]string // by path there: the program, its libraries, the loader
	loads  sync.Map          // what libraries need that it loads by itself, by their names; see once
}

// program finds what it takes to run a file.
func (c *carrier) program(ctx context.Context, file string, env []string) (*program, error) {
	key := file
	for _, e := range env {
		if isLibraryPath(e) {
			key = file + "\x00" + e
		}
	}
	return once(&c.programs, key, func() (*program, error) { return c.findProgram(ctx, file, env) })
}

// once gives what find has found under a key the first time.
func once[T any](found *sync.Map, key string, find func() (T, error)) (T, error) {
	f, _ := found.LoadOrStore(key, sync.OnceValues(find))
	return f.(func() (T, error))()
}

func (c *carrier) findProgram(ctx context.Context, file string, env []string) (*program, error) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, err
	}
	p := &program{file: real, env: env}
	if p.loader, err = loaderOf(real); err != nil {
		return nil, err
	}
	libs, err := c.libraries(ctx, p.loader, real, env)
	if err != nil {
		return nil, err
	}
	p.files = maps.Clone(libs)
	p.files[c.name(real)], p.files[awayLib+"/"+filepath.Base(p.loader)] = real, p.loader
	return p, nil
}

// loaderOf is the loader that a program asks for. A script has none, nor has one that is linked
// statically: they are not known to read no more than their inputs.
func loaderOf(file string) (string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if paths, _ := f.DynString(elf.DT_RPATH); slices.ContainsFunc(paths, filepath.IsAbs) {
		return "", fmt.Errorf("%s looks for libraries in %s first", file, paths)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			return strings.TrimRight(string(name), "\x00"), err
		}
	}
	return "", fmt.Errorf("%s has no loader", file)
}

// libraries are the shared libraries that a loader takes for a program or a library here, by their
// paths there. It does not start the program.
func (c *carrier) libraries(ctx context.Context, loader, file string, env []string) (map[string]string, error) {
	res, err := run.Run(ctx, run.Command{Argv: []string{loader, "--list", file}, Dir: c.root, Env: env})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s --list %s: %s", loader, file, res.Output)
	}
	if err != nil {
		return nil, err
	}
	libs := map[string]string{}
	for line := range strings.Lines(string(res.Output)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue // the loader itself, and what the kernel gives
		}
		lib, _, ok := strings.Cut(rest, " (0x")
		if !ok || !filepath.IsAbs(lib) {
			return nil, fmt.Errorf("%s needs %s, which is not found", file, name)
		}
		libs[awayLib+"/"+filepath.Base(name)] = lib
	}
	return libs, nil
}
