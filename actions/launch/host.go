package launch

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/command"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// hostCompiler matches the names of compilers of C and C++: x86_64-linux-gnu-g++-12.
var hostCompiler = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9_]+-)*(g\+\+|c\+\+|clang\+\+|amdclang\+\+|hipcc|gcc|cc|clang)(-[0-9.]+)?$`)
})

// collectHost reads a compile of a C or C++ source, which is one action. It also reads a compile of
// HIP.
func (f *facts) collectHost(ctx context.Context) error {
	l := f.launch
	if !hostCompiler().MatchString(filepath.Base(l.Argv[0])) {
		return leave("%s is no compiler that kbuild knows", filepath.Base(l.Argv[0]))
	}
	if isScript(l.Argv[0]) && !knownScript(l.Argv[0]) {
		return leave("%s is a script, which may ask for any variable", l.Argv[0])
	}
	argv, files, err := writeOut(optfile.Files.GNU, l.Argv, l.Dir)
	if err != nil {
		return Left{err.Error()}
	}
	f.files = files
	if f.host, err = host.ReadCommand(argv, output+".o", depfile); err != nil {
		return Left{err.Error()}
	}
	if f.host.GPU != nil {
		return f.collectHIP(ctx)
	}
	f.request.HostCompiler = l.Argv[0]
	if f.Facts, f.observed, err = probe.Collect(ctx, f.request); err != nil {
		return err
	}
	if f.CXX.Path != l.Argv[0] || f.CXX.ID == "" {
		return leave("%s: %s", l.Argv[0], f.CXX.Error)
	}
	f.host.Target(f.CXX.Family)
	return f.nothingBeside(f.CXX.Family)
}

// nothingBeside returns an error if a compile writes or reads files besides an object and a
// dependency file.
func (f *facts) nothingBeside(family string) error {
	beside := host.BesideObject(family, f.host.Argv, f.host.Output)
	if beside.Named || beside.Unkept != "" {
		return leave("the compiler writes or reads files beside the object")
	}
	return nil
}

// keptDeps is the dependency file as an output.
const keptDeps = partsDir + "/made.deps"

// planHost plans the only action, or the passes of HIP.
func (b *build) planHost() {
	if b.host.GPU != nil {
		b.planHIP()
		return
	}
	c := b.host
	a := &graph.Action{Kind: graph.HostCompile, Name: c.Source, Argv: c.Argv, Env: []string{toolchain.Anywhere}, Inputs: []string{c.Source}, Outputs: []string{output + ".o"},
		Depfile: depfile, Tools: []string{"cxx"}, Work: graph.Work{Step: &graph.Step{}}}
	if c.Deps != "" && !c.Own {
		a.Outputs, a.Work.Step.DepfileOutput = append(a.Outputs, keptDeps), keptDeps
	}
	if b.debug = host.RecordsLines(c.Argv); b.debug {
		a.Env = []string{"PWD=" + os.Getenv("PWD")}
	}
	b.emit(a)
}

// madeByHost describes the outputs of a host compile.
func (b *build) madeByHost(ctx context.Context, rec *cache.Record) (m *command.Made, err error) {
	o := rec.Outputs[0]
	o.Path = b.host.Output
	m = &command.Made{Outputs: []cache.Output{o}, Stderr: b.inOrder()}
	var text []byte
	switch {
	case b.host.Deps == "":
		return m, nil
	case b.host.GPU != nil:
		text, err = b.hipDeps(ctx)
	case b.host.Own:
		text, err = b.ownDeps(ctx, rec)
	default:
		text, err = b.launch.content(rec.Outputs[1])
	}
	m.Files = []command.Text{{Path: b.host.Deps, Text: text, Rule: b.CXX.Family}}
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
			return nil, leave("-MMD with the precompiled header %s", f.Path)
		}
	}
	to := placeDir + "/own.d"
	res, err := run.Run(ctx, run.Command{Argv: b.host.AskOwn(output+".o", depfile, to), Dir: b.launch.Dir, Env: append(b.env.All, "TMPDIR="+placeDir, "PWD="+os.Getenv("PWD"))})
	if err != nil {
		return nil, err
	}
	if res.ExitCode != 0 || len(res.Output) > 0 {
		return nil, leave("-MM of it ends with %d and says %q", res.ExitCode, res.Output)
	}
	return os.ReadFile(to)
}

// elsewhere is another name of the base directory, which readsTheSame uses to find traces of the
// directory's name.
const elsewhere = placeDir + "/base"

// readsTheSame reports whether the preprocessor writes the same text, and reads the same files,
// wherever the base directory is. It runs with another name of the base directory in all arguments.
// What has that name in the text is __FILE__ or a macro of the command, however it was spelled. A
// file that is read by the directory's own name was not found by the command. An #include, a macro,
// or a file that configures the compiler has led to it.
func (b *build) readsTheSame(ctx context.Context) bool {
	l := b.launch
	argv, ok := b.host.AskText(output+".o", depfile, placeDir+"/text", placeDir+"/text.d")
	if !ok || os.Symlink(l.Base.Dir, elsewhere) != nil {
		return false
	}
	for i, arg := range argv {
		spelled, ok := l.Base.Spell(arg)
		if !ok {
			return false
		}
		argv[i] = command.Base{Dir: elsewhere}.Write(spelled)
	}
	if b.CXX.Family == "gcc" {
		// otherwise it prefers the shorter of two names
		argv = append(argv, "-fno-canonical-system-headers")
	}
	res, err := run.Run(ctx, run.Command{Argv: argv, Dir: l.Dir, Env: append(b.env.All, "TMPDIR="+placeDir, toolchain.Anywhere)})
	if err != nil || res.ExitCode != 0 {
		return false
	}
	text, err := regular.Read(placeDir + "/text")
	deps, err2 := regular.Read(placeDir + "/text.d")
	return err == nil && err2 == nil && !l.Base.In(text) && !l.Base.In(deps) && !pptext.Placed(text, elsewhere) &&
		// clang's names of lambdas
		!bytes.Contains(text, []byte("__PRETTY_FUNCTION__")) && !bytes.Contains(text, []byte("__FUNCSIG__"))
}
