package clang

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// One command of hipcc, or of a clang for CUDA, is taken apart into the passes that it runs, each an action.
//
// The preprocessed texts are there for keys alone: a compile reads the source and its headers itself, as hipcc's does, so that it
// makes the same and says the same. But its key has the canonical text in their place, and a comment compiles nothing. clang
// preprocesses once more than it would, which costs a tenth of a small compile.

// Split is a command being taken apart.
type Split struct {
	compiler.Unit
	Commands Commands
}

// NewSplit takes apart the compile u of a language, "hip" or "cuda". passes are known from the driver's answer.
func NewSplit(u compiler.Unit, language string, passes Passes) *Split {
	return &Split{u, Commands{Passes: passes, Language: language, Source: u.Whole.Inputs[0], ID: u.ID}}
}

// ID names a source within any program, for -cuid: clang's own is made of the absolute path.
func ID(label, source, partition string) string {
	return compiler.SourceHash(label, source, partition)[:16]
}

// preprocess plans the text of an architecture, or with code nil of the host, and gives its name.
func (s *Split) preprocess(code *gencode.Code) string {
	arch := "host"
	if code != nil {
		arch = code.String()
	}
	text := s.Dir + "/" + compiler.FileName(arch) + ".ii"
	s.Emit(s.Preprocess(arch, s.Commands.Preprocess(code, text, text+".d"), text, graph.CanonicalForm{Clang: true}))
	return text
}

// follow makes a compile whose key has a text in place of the source and the headers.
func (s *Split) follow(a *graph.Action, text string) {
	a.Work.Step.UnkeyedPaths, a.Work.Step.KeyedByText = s.Source(), []string{text}
	s.ReadTexts(a, text)
}

// Device plans the compile for one architecture.
func (s *Split) Device(code gencode.Code, output string) {
	text := s.preprocess(&code)
	a := s.Action(graph.DeviceCode, s.Commands.Device(code, output), output)
	a.Archs = []string{code.String()}
	s.follow(a, text)
	a.Inputs = append(a.Inputs, s.Commands.Libs[code.String()]...)
	s.Emit(a)
}

// Host plans the compile of the host's code, and gives its object. placeholder is what stands for device code that is put into it
// afterwards, "" if there is none.
func (s *Split) Host(placeholder string) string {
	text, output, staged := s.preprocess(nil), s.Dir+"/host.o", ""
	if placeholder != "" {
		staged = graph.StageDir + "/" + placeholderName
	}
	a := s.Action(graph.HostPart, s.Commands.Host(staged, output), output)
	s.follow(a, text)
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

// InOnePiece plans the command as one. Its dependency file has the headers of the host's pass alone, so the texts of all architectures
// are in its key. What enters its output unasked is not known then, so all of libs are inputs.
func (s *Split) InOnePiece(libs []string, codes []gencode.Code) {
	a := s.Whole
	s.Lines, a.Work.Step = true, &graph.Step{}
	for _, c := range codes {
		a.Work.Step.KeyedByText = append(a.Work.Step.KeyedByText, s.preprocess(&c))
	}
	a.Inputs = slices.Concat(a.Inputs, libs, a.Work.Step.KeyedByText)
	s.Emit(a)
}

// CommandOf is a compile as one command without what it says of its own files: the passes of a driver that told nothing.
func CommandOf(whole *graph.Action) Passes {
	argv := whole.Argv
	return PassesOf(append(argv[:1:1], Ask(argv, "", whole.Inputs[0], whole.Outputs[0])...))
}
