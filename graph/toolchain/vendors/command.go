package vendors

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"sync"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// Compilers lists the names of compilers whose command lines kbuild plans. More names, such as
// x86_64-linux-gnu-g++-12, are known by IsCompiler.
var Compilers = []string{
	"nvcc", "hipcc", "g++", "c++", "clang++", "amdclang++", "gcc", "cc", "clang",
}

// ForAMD lists the names among Compilers that only ROCm has.
var ForAMD = []string{"hipcc", "amdclang++"}

// IsCompiler reports whether a program has the name of a compiler whose command lines kbuild plans.
func IsCompiler(name string) bool { return name == "nvcc" || hostCompiler().MatchString(name) }

var hostCompiler = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9_]+-)*([gc]\+\+|(amd)?clang\+\+|hipcc|gcc|cc|clang)(-[0-9.]+)?$`)
})

// ReadCommand parses the command line of a compiler. files reads the files of options that it
// names. output, without its extension, and depfile replace the names of the files that the command
// writes. The error is the reason why the command passes through to the compiler.
func ReadCommand(
	argv []string, files optfile.Files, output, depfile string,
) (*host.Command, error) {
	name := path.Base(argv[0])
	expand := files.GNU
	if name == "nvcc" {
		expand = files.NVIDIA
	}
	if !IsCompiler(name) {
		return nil, fmt.Errorf("%s is no compiler that kbuild knows", name)
	}
	words, err := expand(argv[1:])
	if err != nil {
		return nil, err
	}
	argv = argv[:1:1]
	for _, w := range words {
		argv = append(argv, w.Text)
	}
	if name == "nvcc" {
		return nvcc.ReadCommand(argv)
	}
	return hip.ReadCommand(argv, output+".o", depfile)
}

// Command plans a command line. cxx is the compiler of a command for the host. The Build of r has a
// folder of outputs and answers. Without the answers to the questions the plan is not complete.
func (in *Installed) Command(
	r toolchain.CommandRequest, cxx toolchain.Tool,
) (p toolchain.PlannedCommand, questions []toolchain.Question) {
	for _, tc := range in.toolchains() {
		if planner, is := tc.(toolchain.Commander); is && tc.Info().Drivers[0].Name == r.Command.Tool {
			p = planner.Command(r)
			return p, r.Answers.Questions
		}
	}
	return hostCommand(r, cxx), nil
}

// hostCommand plans the compile of a C or C++ source, which is one action.
func hostCommand(r toolchain.CommandRequest, cxx toolchain.Tool) (p toolchain.PlannedCommand) {
	c := r.Command
	if cxx.Path != c.Argv[0] || cxx.ID == "" {
		return p.Refuse("%s: %s", c.Argv[0], cxx.Error)
	}
	if host.BesideObject(cxx.Family, c.Argv, c.Output).Refused() {
		return p.Refuse("the compiler writes or reads files beside the object")
	}
	p.Lines = host.RecordsLines(c.Argv)
	a := &graph.Action{
		Kind: graph.HostCompile, Name: c.Source, Argv: c.Argv, Env: []string{toolchain.Anywhere},
		Inputs: []string{c.Source}, Outputs: []string{r.Output + ".o"}, Depfile: r.Depfile,
		Tools: []string{"cxx"}, Work: graph.Work{Pass: &graph.CompilerPass{}},
	}
	p.Emit(a)
	if c.Deps != "" {
		p.WriteDeps(c, a, slices.Concat(c.Argv, c.DefaultTarget(cxx.Family)), r.Dir)
	}
	return p
}
