package clang

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Unit sets the source ID of a compile by clang, and whether its output records line numbers.
func Unit(u toolchain.Unit, t *toolchain.Target, s manifest.Source, flags ...[]string) toolchain.Unit {
	u.ID, u.Lines = ID(t.Label, s.Path, s.Partition), t.Debugs() || host.RecordsLines(slices.Concat(append(flags, s.Flags.Host)...))
	return u
}

// TimeTraces adds the files of -ftime-trace to the outputs of a compile by clang: one of the host
// pass and one of each device pass. If there are any, it returns why the compile stays unsplit:
// clang names the files after the output of each pass.
func TimeTraces(a *graph.Action) error {
	if !slices.Contains(a.Argv, toolchain.TimeTrace) {
		return nil
	}
	stem := strings.TrimSuffix(a.Outputs[0], path.Ext(a.Outputs[0]))
	a.Outputs, a.InPlace = append(a.Outputs, stem+".json"), true
	for _, arch := range a.Archs {
		a.Outputs = append(a.Outputs, stem+"-"+toolchain.FileName(arch)+".json")
	}
	return toolchain.OptOut(toolchain.TimeTrace)
}

// Whole describes a compile by hipcc or clang that stays unsplit.
type Whole struct {
	*toolchain.Target
	Language, By string
	Why          error
	Flags        []string
	Choose       []string // substrings of the options that select device libraries
	Fix          string   // how to fix such a flag
	Libs         []string // all device libraries that it finds by default
	Ships, Codes []gencode.Code
}

// InOnePiece plans an unsplit compile. Its dependency file has only the headers of the host pass,
// so clang also writes one for each architecture. The device libraries that it reads are unknown,
// so all of them are inputs. Flags that select other libraries are rejected, because kbuild cannot
// resolve them.
func InOnePiece(u toolchain.Unit, w Whole) {
	a := u.Whole
	toolchain.Unsplit(a.Work.Driver, w.Why)
	for _, f := range w.Flags {
		if slices.ContainsFunc(w.Choose, func(sign string) bool { return strings.Contains(f, sign) }) {
			u.Plan.Errorf(w.Attr("flags"), w.Fix, "%s is compiled by %s as one command (%v), and kbuild cannot tell which device libraries %s means", a.Name, w.By, w.Why, f)
		}
	}
	a.Work.Driver.Ships, a.Work.Pass = toolchain.CodeNames(w.Ships), &graph.CompilerPass{}
	// The dry run is not known: the passes are the command without its files.
	passes := PassesOf(append(a.Argv[:1:1], Query(a.Argv, "", a.Inputs[0], a.Outputs[0])...))
	commands := NewSplit(u, w.Language, passes).Commands
	for _, c := range w.Codes {
		a.Work.Pass.DepfileArgvs = append(a.Work.Pass.DepfileArgvs, commands.Dependencies(c, a.Depfile))
	}
	a.Inputs = slices.Concat(a.Inputs, w.Libs)
	u.Emit(a)
}

// AllSplit returns an error if a compile of relocatable code of inputs stays unsplit: its object
// holds code that no device link of kbuild's reads.
func AllSplit(inputs []toolchain.LinkInput, by string) error {
	for _, u := range inputs {
		for _, o := range u.Objects {
			if toolchain.IsRelocatable(o.Source) && o.Code == nil {
				return fmt.Errorf("%s compiled %s as one command", by, o.Source.Path)
			}
		}
	}
	return nil
}

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
