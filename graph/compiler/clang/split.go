package clang

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// One command of hipcc, or of a clang for CUDA, is taken apart into the passes that it runs, each
// an action.
//
// Each pass compiles the source and is keyed by the source and the headers that it reads, as a
// compile of C++ is. It is not keyed by preprocessed text: what clang records and warns of depends
// on columns, macros and comments, which no such text has.

// Split is a command being taken apart.
type Split struct {
	compiler.Unit
	Commands Commands
}

// NewSplit takes apart the compile u of a language, "hip" or "cuda". passes are known from the
// driver's answer.
func NewSplit(u compiler.Unit, language string, passes Passes) *Split {
	return &Split{u, Commands{Passes: passes, Language: language, Source: u.Whole.Inputs[0], ID: u.ID}}
}

// ID names a source within any program, for -cuid: clang's own is made of the absolute path.
func ID(label, source, partition string) string {
	return compiler.SourceHash(label, source, partition)[:16]
}

// pass makes the action of a pass, which reads the source.
func (s *Split) pass(kind graph.Kind, argv []string, output, depfile string) *graph.Action {
	a := s.Action(kind, argv, output)
	a.Inputs, a.Depfile, a.SearchDirs, a.OrderOnly = s.Source(), depfile, s.Whole.SearchDirs, s.Whole.OrderOnly
	return a
}

// Device plans the compile for one architecture.
func (s *Split) Device(code gencode.Code, output string) {
	depfile := output + ".d"
	a := s.pass(graph.DeviceCode, s.Commands.Device(code, output, depfile), output, depfile)
	a.Archs = []string{code.String()}
	a.Inputs = slices.Concat(a.Inputs, s.Commands.Libs[code.String()])
	if !s.Lines {
		a.Work.Step.TextArgv = s.Commands.Text(code, output, depfile)
	}
	s.Emit(a)
}

// Host plans the compile of the host's code, and returns its object. placeholder is what stands for
// device code that is put into it afterwards, "" if there is none.
func (s *Split) Host(placeholder string) string {
	output, staged := s.Dir+"/host.o", ""
	if placeholder != "" {
		staged = graph.StageDir + "/" + placeholderName
	}
	a := s.pass(graph.HostPart, s.Commands.Host(staged, output, output+".d"), output, output+".d")
	if placeholder != "" {
		a.Work.Step.Staged = []graph.StagedFile{{Name: placeholderName, Text: placeholder}}
	}
	s.Emit(a)
	return output
}

// placeholderName is the file that stands for device code while host code is compiled.
const placeholderName = "placeholder" + HIPCode

// Pack plans the action that puts the code of all architectures into one file.
func (s *Split) Pack(kind graph.Kind, argv, inputs []string, output string) {
	a := s.Action(kind, argv, output)
	a.Inputs, a.Archs, a.Transient = inputs, s.Whole.Archs, a.Intermediate
	s.Emit(a)
}

// InOnePiece plans the command as one. Its dependency file has the headers of the host's pass
// alone, so clang is asked for those of each architecture. What enters its output unasked is not
// known then, so all of libs are inputs.
func (s *Split) InOnePiece(libs []string, codes []gencode.Code) {
	a := s.Whole
	a.Work.Step = &graph.Step{}
	for _, c := range codes {
		a.Work.Step.DepfileArgvs = append(a.Work.Step.DepfileArgvs, s.Commands.Dependencies(c, a.Depfile))
	}
	a.Inputs = slices.Concat(a.Inputs, libs)
	s.Emit(a)
}

// CommandOf is a compile as one command without what it says of its own files: the passes of a
// driver that told nothing.
func CommandOf(whole *graph.Action) Passes {
	argv := whole.Argv
	return PassesOf(append(argv[:1:1], Ask(argv, "", whole.Inputs[0], whole.Outputs[0])...))
}
