package remote

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	server "github.com/kbuild-dev/kbuild/cache/remote"
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

// request is a command that is being packed for a worker.
type request struct {
	*Executor
	*execute.Command
	cmd    server.Command
	inputs map[string]bool // by path
	// files that are returned, and where the command would have written them locally
	moves map[string]string
	prog  *program

	silent bool             // a local run would print something else
	then   *execute.Command // the local rest of the command; nil if there is none
}

// pack builds the request for a command. The error says why the command must run locally.
func (x *Executor) pack(ctx context.Context, c *execute.Command) (*request, error) {
	p := &request{Executor: x, Command: c, inputs: map[string]bool{}, moves: map[string]string{}}
	p.cmd.Folders = []string{awayTemp}
	var err error
	if hasText(c.Action) {
		err = p.fillText(ctx)
	} else {
		err = p.fill(ctx)
	}
	if err != nil {
		return nil, err
	}
	p.cmd.Platform = x.platformOf(c.Action)
	return p, p.addEnv()
}

// name returns the remote name of a file, which is absolute or relative to the root.
func (p *request) name(file string) string {
	if !filepath.IsAbs(file) {
		return filepath.ToSlash(filepath.Clean(file))
	}
	rel, err := filepath.Rel(p.Root, file)
	if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return filepath.ToSlash(rel)
	}
	return awayRoot + filepath.ToSlash(filepath.Clean(file))
}

// fill packs a command that runs remotely with the local arguments.
func (p *request) fill(ctx context.Context) error {
	a := p.Action
	if err := p.addProgram(ctx, p.Argv[0]); err != nil {
		return err
	}
	for _, in := range p.Reads() {
		d, err := p.Digest(in)
		if err := errors.Join(err, p.add(cache.Absolute(p.Root, in), p.name(in), d)); err != nil {
			return err
		}
	}
	if err := p.addScratch(); err != nil {
		return err
	}
	for i, arg := range p.Argv[1:] {
		if !slices.Contains(a.Pass().UnkeyedPaths, arg) { // an unkeyed path is only for messages
			var err error
			if arg, err = p.argument(ctx, p.Argv[i], arg); err != nil {
				return err
			}
		}
		p.cmd.Argv = append(p.cmd.Argv, arg)
	}
	// files that kbuild derives from those that the command writes are built locally
	for i := range a.Outputs {
		if p.Names(i) {
			back := p.File(fmt.Sprintf("away%d", i))
			p.addOutput(p.Output(i), back)
			p.moves[back] = p.Output(i)
		}
	}
	if a.Kind.Info().LinksDevice() {
		return p.addLibraries()
	}
	return nil
}

// addProgram adds a program with all files that it needs to run, and begins the command with it.
func (p *request) addProgram(ctx context.Context, name string) error {
	file, err := run.LookPath(name, p.Root, p.Env)
	if err != nil {
		return err
	}
	p.prog, err = p.program(ctx, file, append(slices.Clone(p.Env), p.Action.Env...))
	if err != nil {
		return err
	}
	p.cmd.Argv = []string{awayLib + "/" + filepath.Base(p.prog.loader), "--inhibit-cache",
		"--library-path", awayLib, p.name(p.prog.file)}
	return p.addFiles(p.prog.files)
}

// addEnv sets the environment of the remote command. LD_LIBRARY_PATH is left out, because the
// loader gets the folder of libraries as an argument.
func (p *request) addEnv() error {
	env := append(slices.DeleteFunc(slices.Clone(p.KeyEnv), isLibraryPath), "LC_ALL=C", "TZ=UTC")
	for _, e := range p.Action.Env {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case isLibraryPath(e):
			continue
		case name == "NVVMIR_LIBRARY_DIR":
			files, err := filepath.Glob(filepath.Join(value, "*.bc"))
			if err := errors.Join(err, p.addNamed(files...)); err != nil {
				return err
			}
			e = name + "=" + p.name(value)
		case strings.Contains(value, "/") && e != toolchain.Anywhere:
			return errUnknown(e)
		}
		env = append(env, e)
	}
	p.cmd.Env = append(env, "TMPDIR="+awayTemp)
	return nil
}

func isLibraryPath(e string) bool { return strings.HasPrefix(e, "LD_LIBRARY_PATH=") }

// memoryWord stands in a property for the memory that an action is expected to need. The value is
// in bytes, rounded up to a power of two.
const memoryWord = "{memory}"

func (x *Executor) platformOf(a *graph.Action) [][2]string {
	need := int64(512 << 20)
	for need < x.Estimates.Memory(a) {
		need *= 2
	}
	out := slices.Clone(x.Platform)
	for i := range out {
		out[i][1] = strings.ReplaceAll(out[i][1], memoryWord, fmt.Sprint(need))
	}
	return out
}

// add adds a file with a digest under its remote path.
func (p *request) add(file, path string, d cache.Digest) error {
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
	p.cmd.Inputs = append(p.cmd.Inputs, server.Input{
		Path: path, File: file, Digest: d, Size: info.Size(), Exec: info.Mode()&0o100 != 0})
	return nil
}

// addFiles adds files by their remote paths, with the digests that p.Files remembers by their stats.
func (p *request) addFiles(files map[string]string) error {
	for path, file := range files {
		d, err := p.Files.Digest(file)
		if err := errors.Join(err, p.add(file, path, d)); err != nil {
			return err
		}
	}
	return nil
}

// addNamed adds files under their remote names.
func (p *request) addNamed(files ...string) error {
	paths := map[string]string{}
	for _, file := range files {
		paths[p.name(file)] = file
	}
	return p.addFiles(paths)
}

// addScratch adds the files that kbuild wrote to the action's own folder.
func (p *request) addScratch() error {
	return filepath.WalkDir(p.Folder(), func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			p.cmd.Folders = append(p.cmd.Folders, p.name(file))
			return nil
		case d.Type() == fs.ModeSymlink: // a link to a part of a tool
			return p.addNamed(file)
		}
		digest, err := cache.DigestFile(file)
		return errors.Join(err, p.add(file, p.name(file), digest))
	})
}

// addOutput adds a file that the command writes, and the local file that receives it.
func (p *request) addOutput(file, back string) {
	p.cmd.Outputs = append(p.cmd.Outputs, server.Output{Path: p.name(file), File: back})
	p.cmd.Folders = append(p.cmd.Folders, filepath.Dir(p.name(file)))
}

// argument returns the remote form of an argument. It adds a file outside of the project that the
// argument names. It accepts a folder only if kbuild knows which of its files are read.
func (p *request) argument(ctx context.Context, before, arg string) (string, error) {
	option, file := "", arg
	switch at := strings.Index(arg, "=/"); {
	case strings.HasPrefix(arg, "/"):
	case strings.HasPrefix(arg, "-L/") && strings.Contains(arg, ","): // several folders, for nvlink
		return "", errUnknown(arg)
	case strings.HasPrefix(arg, "-L/"):
		option, file = "-L", arg[2:]
	case at > 0:
		option, file = arg[:at+1], arg[at+1:]
	case strings.Contains(arg, " /"), strings.Contains(arg, ",/"), strings.HasPrefix(arg, "-I"):
		return "", errUnknown(arg)
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
		return "", errUnknown(file)
	case !info.IsDir():
		return option + name, p.addNamed(file)
	}
	return option + name, nil
}

// errUnknown returns the error of an argument or variable that may name a file or folder.
func errUnknown(arg string) error {
	return fmt.Errorf("%s: kbuild does not know which files are read by it", arg)
}

// addNVVM adds the files that nvlink loads by itself.
func (p *request) addNVVM(ctx context.Context, dir string) error {
	files := []string{filepath.Join(dir, "lib64/libnvvm.so")}
	libs, err := once(&p.prog.loads, files[0], func() (map[string]string, error) {
		return p.libraries(ctx, p.prog.loader, files[0], p.prog.env)
	})
	if err != nil {
		return err
	}
	if device := filepath.Join(dir, "libdevice/libdevice.10.bc"); cache.Exists(device) {
		files = append(files, device)
	}
	return errors.Join(p.addFiles(libs), p.addNamed(files...))
}

// addLibraries adds the files that -l may resolve to.
func (p *request) addLibraries() error {
	for _, candidates := range toolchain.DeviceLibraries(p.Argv, p.Action.Kind.Info().Linker) {
		found := false
		for _, file := range candidates {
			if file = cache.Absolute(p.Root, file); cache.Exists(file) {
				found = true
				if err := p.addNamed(file); err != nil {
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
func (p *request) program(ctx context.Context, file string, env []string) (*program, error) {
	key := file
	for _, e := range env {
		if isLibraryPath(e) {
			key = file + "\x00" + e
		}
	}
	return once(&p.programs, key, func() (*program, error) {
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return nil, err
		}
		prog := &program{file: real, env: env}
		if prog.loader, err = loaderOf(real); err != nil {
			return nil, err
		}
		if prog.files, err = p.libraries(ctx, prog.loader, real, env); err != nil {
			return nil, err
		}
		prog.files[p.name(real)] = real
		prog.files[awayLib+"/"+filepath.Base(prog.loader)] = prog.loader
		return prog, nil
	})
}

// once returns the result of the first call of find for a key.
func once[T any](found *sync.Map, key string, find func() (T, error)) (T, error) {
	f, _ := found.LoadOrStore(key, sync.OnceValues(find))
	return f.(func() (T, error))()
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
func (p *request) libraries(
	ctx context.Context, loader, file string, env []string,
) (map[string]string, error) {
	list := []string{loader, "--list", file}
	res, err := run.Run(ctx, run.Command{Argv: list, Dir: p.Root, Env: env})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s: %s", strings.Join(list, " "), res.Output)
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
