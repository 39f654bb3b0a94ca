package launch

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/command"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/hcl/optfile"
)

// hostCompiler is how compilers of C++ are called: x86_64-linux-gnu-g++-12.
var hostCompiler = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([a-z0-9_]+-)*(g\+\+|c\+\+|clang\+\+)(-[0-9.]+)?$`) })

// collectHost reads a compile of a C++ source, which is one action.
func (f *facts) collectHost(ctx context.Context) error {
	l := f.launch
	if !hostCompiler().MatchString(filepath.Base(l.Argv[0])) {
		return leave("%s is no compiler that kbuild knows", filepath.Base(l.Argv[0]))
	}
	if isScript(l.Argv[0]) {
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
	f.request.HostCompiler = l.Argv[0]
	if f.Facts, err = probe.Collect(ctx, f.request); err != nil {
		return err
	}
	if f.CXX.Path != l.Argv[0] || f.CXX.ID == "" {
		return leave("%s: %s", l.Argv[0], f.CXX.Error)
	}
	f.host.Target(f.CXX.Family)
	beside := host.BesideObject(f.CXX.Family, f.host.Argv, f.host.Output)
	if beside.Named || beside.Unkept != "" {
		return leave("the compiler writes or reads files beside the object")
	}
	return nil
}

// keptDeps is the dependency file as an output.
const keptDeps = partsDir + "/made.deps"

// planHost plans the one action.
func (b *build) planHost() {
	c := b.host
	a := &graph.Action{Kind: graph.HostCompile, Name: c.Source, Argv: c.Argv, Env: []string{compiler.Anywhere}, Inputs: []string{c.Source}, Outputs: []string{output + ".o"},
		Depfile: depfile, Tools: []string{"cxx"}, Work: graph.Work{Step: &graph.Step{}}}
	if c.Deps != "" {
		a.Outputs, a.Work.Step.DepfileOutput = append(a.Outputs, keptDeps), keptDeps
	}
	if b.debug = host.AsksForDebug(c.Argv); b.debug {
		a.Env = []string{"PWD=" + os.Getenv("PWD")}
	}
	b.emit(a)
}

// madeByHost describes what it made.
func (b *build) madeByHost(rec *cache.Record) (*command.Made, error) {
	o := rec.Outputs[0]
	o.Path = b.host.Output
	m := &command.Made{Outputs: []cache.Output{o}, Stderr: b.inOrder()}
	if b.host.Deps != "" {
		text, err := b.launch.content(rec.Outputs[1])
		if err != nil {
			return nil, err
		}
		m.Files = []command.Text{{Path: b.host.Deps, Text: text}}
	}
	return m, nil
}

// content is that of an output in the store.
func (l *Launch) content(o cache.Output) ([]byte, error) {
	r, err := l.Store.Content(o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
