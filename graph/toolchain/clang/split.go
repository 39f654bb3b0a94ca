package clang

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// One command of hipcc, or of a clang for CUDA, is split into the passes that it runs, each an
// action.
//
// Each pass compiles the source. Its key has the source and the headers that it reads, as for a
// compile of C++. It does not use preprocessed text: clang's records and warnings depend on
// columns, macros and comments, which such text lacks.

// Split splits one command into actions.
type Split struct {
	toolchain.Unit
	Commands Commands
}

// NewSplit returns a Split of the compile u of a language, "hip" or "cuda". passes come from the
// driver's dry run.
func NewSplit(u toolchain.Unit, language string, passes Passes) *Split {
	return &Split{u, Commands{Passes: passes, Language: language, Source: u.Whole.Inputs[0], ID: u.ID}}
}

// ID returns an identifier of a source within any program, for -cuid. clang's own derives from the
// absolute path.
func ID(label, source, partition string) string {
	return toolchain.SourceHash(label, source, partition)[:16]
}

// pass returns the action of a pass that reads the source.
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
		a.Work.Pass.TextArgv = s.Commands.Text(code, output, depfile)
	}
	s.Emit(a)
}

// Host plans the compile of the host code, and returns its object. placeholder is the text in place
// of device code that is inserted afterwards, "" if there is none.
func (s *Split) Host(placeholder string) string {
	output, staged := s.Dir+"/host.o", ""
	if placeholder != "" {
		staged = graph.StageDir + "/" + placeholderName
	}
	a := s.pass(graph.HostPart, s.Commands.Host(staged, output, output+".d"), output, output+".d")
	if placeholder != "" {
		a.Work.Pass.Staged = []graph.StagedFile{{Name: placeholderName, Text: placeholder}}
	}
	s.Emit(a)
	return output
}

// placeholderName is the file of the placeholder while host code is compiled.
const placeholderName = "placeholder" + BundleCode

// Pack plans the action that packs the code of all architectures into one file.
func (s *Split) Pack(kind graph.Kind, argv, inputs []string, output string) {
	a := s.Action(kind, argv, output)
	a.Inputs, a.Archs, a.Transient = inputs, s.Whole.Archs, a.Intermediate
	s.Emit(a)
}
