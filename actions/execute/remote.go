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
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// The passes behind the preprocessor read little: cicc and cudafe++ a text, ptxas PTX, nvlink
// slices, AMD's links bitcode. So they can run on any Linux machine, even without a toolkit. The
// program, the shared libraries that it is linked with and their loader are inputs like any other,
// and the command begins with that loader. Files of the project keep their names relative to the
// root, which is the working directory. Files from outside of the root are below awayRoot. A remote
// command can read no other files.
//
// Names that only the local machine has must not get into outputs. Passes whose outputs contain
// names, such as debug information, run locally.
const (
	awayDir  = "kbuild-away"
	awayRoot = awayDir + "/root" // the root of absolute names
	awayLib  = awayDir + "/lib"  // shared libraries and the loader
	awayTemp = awayDir + "/tmp"
)

// Elsewhere runs commands remotely.
type Elsewhere interface {
	// Executes reports whether remote execution works now. Ready returns a channel that is closed
	// when that is first known.
	Executes() bool
	Ready() <-chan struct{}
	// Overhead returns how much longer a command takes remotely, by the bytes that are transferred
	// for it.
	Overhead(bytes int64) time.Duration
	Execute(ctx context.Context, cmd remote.Command) (*remote.Outcome, error)
	// Judge records whether a command that failed remotely succeeded locally.
	Judge(out *remote.Outcome, well bool)
	// Used records that the outputs of a command were used.
	Used()
}

// errLost is the error of a remote command whose end says nothing about its action.
var errLost = errors.New("it was lost on another machine")

// failedThere is the error of a command that failed remotely. That says nothing about its action
// before the command has run locally.
type failedThere struct{ out *remote.Outcome }

func (f *failedThere) Error() string { return "it failed on another machine" }

// Unwrap returns errLost, since the remote result is lost.
func (f *failedThere) Unwrap() error { return errLost }

// judge passes on whether a command that ended remotely with err succeeded locally.
func (c *remoteTransport) judge(err error, well bool) {
	var f *failedThere
	if errors.As(err, &f) {
		c.elsewhere.Judge(f.out, well)
	}
}

// remoteTransport packs commands for remote execution.
type remoteTransport struct {
	elsewhere Elsewhere
	platform  [][2]string
	memory    func(*graph.Action) int64 // expected peak in bytes; nil if unknown
	cost      func(*graph.Action) time.Duration
	root      string
	env       []string
	keyEnv    []string
	files     *cache.Files
	digest    func(file string) (cache.Digest, error)
	named     func(a *graph.Action) []string
	ask       func(ctx context.Context, a *graph.Action, question []string, quiet bool) (printed string, ok bool)
	here      func(ctx context.Context, a *graph.Action, argv []string, dir scratch) (run.Result, error)
	texts     sync.Mutex // held while a text is written: see addText
	programs  sync.Map   // see once
}

// travels reports whether a can run remotely.
func travels(a *graph.Action) bool {
	// a clang that starts an lld of its own
	if a.Kind == graph.LLD && !slices.Contains(a.Argv, "-flavor") {
		return false
	}
	if a.Kind == graph.DeviceCode && !hasText(a) {
		return false
	}
	return a.Kind.Info().Portable && (a.Depfile == "" || hasText(a)) && !a.CwdInKey &&
		!a.Step().StageInKey && !a.InPlace && a.Work.Keep == nil
}

// Portable implements sched.Distributor. It returns false if a takes less time locally than its
// files take to transfer.
func (r *Runner) Portable(a *graph.Action) bool {
	c := r.remoteTransport
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
	back := bytes // the estimate without a record
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
func (r *Runner) Open() bool {
	return r.remoteTransport != nil && r.remoteTransport.elsewhere.Executes()
}

// Opened implements sched.Distributor.
func (r *Runner) Opened() <-chan struct{} {
	if r.remoteTransport == nil {
		return nil
	}
	return r.remoteTransport.elsewhere.Ready()
}

// runRemote runs the command of a remotely. Once dir.here is closed, it also calls locally,
// which runs the command on this machine. The first run to end counts, unless it is a remote
// failure.
func (c *remoteTransport) runRemote(ctx context.Context, a *graph.Action, argv []string, dir scratch, locally func(context.Context) (run.Result, error)) (run.Result, error) {
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
		// the remote run may have ended too
		go func() { c.judge((<-there).err, o.err == nil && o.ExitCode == 0) }()
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

// execute runs a packed command remotely, and then its local rest.
func (c *remoteTransport) execute(ctx context.Context, p *remoteRequest) (run.Result, error) {
	begun := time.Now()
	out, err := c.elsewhere.Execute(ctx, p.cmd)
	switch {
	case err == nil && out.ExitCode != 0:
		return run.Result{}, &failedThere{out}
	case err != nil, p.silent && len(out.Stdout)+len(out.Stderr) > 0:
		return run.Result{}, errLost
	case len(out.Stdout) > 0 && len(out.Stderr) > 0: // their order is unknown
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

// accept moves the returned files to where the command would have written them locally.
func (c *remoteTransport) accept(p *remoteRequest) error {
	for from, to := range p.moves {
		if err := os.Rename(from, to); err != nil {
			return errLost
		}
	}
	c.elsewhere.Used()
	return nil
}

// name returns the remote name of a file, which is absolute or relative to the root.
func (c *remoteTransport) name(file string) string {
	if !filepath.IsAbs(file) {
		return filepath.ToSlash(filepath.Clean(file))
	}
	if rel, err := filepath.Rel(c.root, file); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return filepath.ToSlash(rel)
	}
	return awayRoot + filepath.ToSlash(filepath.Clean(file))
}

// remoteRequest is a remote request that is being packed.
type remoteRequest struct {
	*remoteTransport
	cmd    remote.Command
	inputs map[string]bool // by path
	// files that are returned, and where the command would have written them locally
	moves map[string]string
	prog  *program

	silent bool                                          // a local run would print something else
	then   func(ctx context.Context) (run.Result, error) // the local rest of the command
}

// pack builds the remote request for argv, the command of a. The error says why the command must
// run locally.
func (c *remoteTransport) pack(ctx context.Context, a *graph.Action, argv []string, dir scratch) (*remoteRequest, error) {
	p := &remoteRequest{remoteTransport: c, inputs: map[string]bool{}, moves: map[string]string{}}
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

// fill packs a command that runs remotely with the local arguments.
func (p *remoteRequest) fill(ctx context.Context, a *graph.Action, argv []string, dir scratch) error {
	if err := p.addProgram(ctx, a, argv[0]); err != nil {
		return err
	}
	if err := errors.Join(p.addInputs(a, argv), p.addScratch(dir)); err != nil {
		return err
	}
	for i, arg := range argv[1:] {
		if !slices.Contains(a.Step().UnkeyedPaths, arg) { // an unkeyed path is only for messages
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

// addProgram adds a program of a with all files that it needs to run, and begins the command with
// it.
func (p *remoteRequest) addProgram(ctx context.Context, a *graph.Action, name string) error {
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

// addEnv sets the environment of the remote command. LD_LIBRARY_PATH is left out, because the
// loader gets the folder of libraries as an argument.
func (p *remoteRequest) addEnv(a *graph.Action) error {
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
		case strings.Contains(value, "/") && e != toolchain.Anywhere:
			return fmt.Errorf("nobody knows what %s names", e)
		}
		p.cmd.Env = append(p.cmd.Env, e)
	}
	p.cmd.Env = append(p.cmd.Env, "TMPDIR="+awayTemp)
	return nil
}

func isLibraryPath(e string) bool { return strings.HasPrefix(e, "LD_LIBRARY_PATH=") }

// memoryWord stands in a property for the memory that an action is expected to need. The value is
// in bytes, rounded up to a power of two.
const memoryWord = "{memory}"

func (c *remoteTransport) platformOf(a *graph.Action) [][2]string {
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

// add adds a file under its remote path. digest returns the file's digest; if it is nil, the digest
// is the one that p.files remembers by the file's stat.
func (p *remoteRequest) add(file, path string, digest func() (cache.Digest, error)) error {
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

// addFiles adds files under their remote names.
func (p *remoteRequest) addFiles(files ...string) error {
	for _, file := range files {
		if err := p.add(file, p.name(file), nil); err != nil {
			return err
		}
	}
	return nil
}

// addAll adds files by their remote paths.
func (p *remoteRequest) addAll(files map[string]string) error {
	for path, file := range files {
		if err := p.add(file, path, nil); err != nil {
			return err
		}
	}
	return nil
}

// addInputs adds the declared inputs that the command reads.
func (p *remoteRequest) addInputs(a *graph.Action, argv []string) error {
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

// addScratch adds the files that kbuild wrote to the action's own folder.
func (p *remoteRequest) addScratch(dir scratch) error {
	return filepath.WalkDir(dir.dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			p.cmd.Folders = append(p.cmd.Folders, p.name(file))
			return nil
		}
		if d.Type() == fs.ModeSymlink { // a link to a part of a tool
			return p.add(file, p.name(file), func() (cache.Digest, error) { return p.files.Digest(file) })
		}
		return p.add(file, p.name(file), func() (cache.Digest, error) { return cache.DigestFile(file) })
	})
}

// addOutputs adds the files that the command writes. Files that kbuild derives from them are built
// locally.
func (p *remoteRequest) addOutputs(a *graph.Action, argv []string, dir scratch) {
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

// addOutput adds a file that the command writes, and the local file that receives it.
func (p *remoteRequest) addOutput(file, back string) {
	p.cmd.Outputs = append(p.cmd.Outputs, remote.Output{Path: p.name(file), File: back})
	p.cmd.Folders = append(p.cmd.Folders, filepath.Dir(p.name(file)))
}

// argument returns the remote form of an argument. It adds a file outside of the project that the
// argument names. It accepts a folder only if kbuild knows which of its files are read.
func (p *remoteRequest) argument(ctx context.Context, before, arg string) (string, error) {
	option, file := "", arg
	switch at := strings.Index(arg, "=/"); {
	case strings.HasPrefix(arg, "/"):
	case strings.HasPrefix(arg, "-L/") && strings.Contains(arg, ","): // several folders, for nvlink
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
	// cicc writes the name into that file, so a remote name would change the content
	case before == "--stub_file_name":
		return "", fmt.Errorf("%s names itself", file)
	case err != nil || p.inputs[name]: // an output, or one of the inputs
	case option == "-nvvmpath=":
		return option + name, p.addNVVM(ctx, file)
	case info.IsDir() && option != "-L":
		return "", fmt.Errorf("nobody knows what is read in %s", file)
	case !info.IsDir():
		return option + name, p.addFiles(file)
	}
	return option + name, nil
}

// addNVVM adds the files that nvlink loads by itself.
func (p *remoteRequest) addNVVM(ctx context.Context, dir string) error {
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

// addLibraries adds the files that -l may resolve to.
func (p *remoteRequest) addLibraries(a *graph.Action, argv []string) error {
	for _, candidates := range toolchain.DeviceLibraries(argv, a.Kind == graph.LLD) {
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

// program is a program of a tool with all files that it needs to run.
type program struct {
	file   string            // the path without links
	loader string            // absolute
	env    []string          // the environment of the query to the loader
	files  map[string]string // by remote path: the program, its libraries, the loader
	// what the libraries that it loads by itself need, by their names; see once
	loads sync.Map
}

// program returns a program with the files that it needs to run.
func (c *remoteTransport) program(ctx context.Context, file string, env []string) (*program, error) {
	key := file
	for _, e := range env {
		if isLibraryPath(e) {
			key = file + "\x00" + e
		}
	}
	return once(&c.programs, key, func() (*program, error) { return c.findProgram(ctx, file, env) })
}

// once returns the result of the first call of find for a key.
func once[T any](found *sync.Map, key string, find func() (T, error)) (T, error) {
	f, _ := found.LoadOrStore(key, sync.OnceValues(find))
	return f.(func() (T, error))()
}

func (c *remoteTransport) findProgram(ctx context.Context, file string, env []string) (*program, error) {
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

// loaderOf returns the loader that a program names. A script or a statically linked program has
// none, and is an error: it may read more than its inputs.
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

// libraries returns the shared libraries that the local loader finds for a program or a library, by
// their remote paths. It does not start the program.
func (c *remoteTransport) libraries(ctx context.Context, loader, file string, env []string) (map[string]string, error) {
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
			continue // the loader itself, and what the kernel maps
		}
		lib, _, ok := strings.Cut(rest, " (0x")
		if !ok || !filepath.IsAbs(lib) {
			return nil, fmt.Errorf("%s needs %s, which is not found", file, name)
		}
		libs[awayLib+"/"+filepath.Base(name)] = lib
	}
	return libs, nil
}
