package toolchain

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// Anywhere makes compilers record /proc/self/cwd as their working directory. Outputs with debug
// information are then the same in every checkout, and a debugger that runs in the project's root
// finds the sources.
const Anywhere = "PWD=/proc/self/cwd"

// Unit is one command of a driver that is split into passes, each an action.
type Unit struct {
	Whole *graph.Action // the unsplit command
	Env   []string      // of the passes
	Dir   string        // folder of the intermediates
	Layout

	// Identifies the source within any program, in the compiler's format.
	ID    string
	Named string // name of the source in passes that do not read it; "" is its path
	Lines bool   // outputs record line numbers
	Files bool   // list the files of each text: see FilesOf
	Own   bool   // that list omits headers of the system
	Shown bool   // texts show the includes as written
	Plain bool   // messages must equal those of the unsplit command
	Plan  *Plan  // receives the actions, producers first

	driver *graph.Driver
}

// Emit adds an action to the plan of u.
func (u *Unit) Emit(a *graph.Action) { u.Plan.Emit(a) }

// NewUnit returns the unit for splitting a command that writes the file out.
func (b *Build) NewUnit(p *Plan, whole *graph.Action, out string) Unit {
	return Unit{Whole: whole, Env: whole.Env, Dir: b.Out(graph.PartsDir, b.InTree(out)), Layout: b.Layout, Plan: p}
}

// Driver returns the driver command as its passes record it.
func (u *Unit) Driver() *graph.Driver {
	if u.driver == nil {
		u.driver = &graph.Driver{Argv: u.Whole.Argv, DryRunKey: u.Whole.Driver().DryRunKey}
	}
	return u.driver
}

// Action returns the action of a pass. Its outputs in Dir are for other passes.
func (u *Unit) Action(kind graph.Kind, argv []string, outputs ...string) *graph.Action {
	return &graph.Action{Kind: kind, Name: u.Whole.Name, Mode: u.Whole.Mode, Argv: argv, Env: u.Env, Outputs: outputs, Tools: u.Whole.Tools,
		Intermediate: strings.HasPrefix(outputs[0], u.Dir+"/"), Memory: u.Whole.Memory, Work: graph.Work{Driver: u.Driver(), Pass: &graph.CompilerPass{}}}
}

// Source returns the source that the command compiles, or the first file that it links. It is empty
// in a plan that has errors elsewhere.
func (u *Unit) Source() []string { return u.Whole.Inputs[:min(1, len(u.Whole.Inputs))] }

// Preprocess returns the action that writes the preprocessed text of one architecture, or of the
// host.
func (u *Unit) Preprocess(arch string, argv []string, text string) *graph.Action {
	a := u.Action(graph.Preprocess, argv, text)
	a.Archs, a.Inputs, a.Depfile = []string{arch}, u.Source(), text+".d"
	a.SearchDirs, a.OrderOnly, a.Transient = u.Whole.SearchDirs, u.Whole.OrderOnly, true
	u.AddCanonical(a, text, graph.CanonicalForm{})
	return a
}

// OwnFilesOf is FilesOf without headers of the system, as in -MMD.
func OwnFilesOf(text string) string { return text + ".files.own" }

// FilesOf returns the path of the list of files that a text was preprocessed from, in order of
// their first occurrence.
func FilesOf(text string) string { return text + ".files" }

// AddCanonical adds the canonical form of an output, unless the outputs record lines.
func (u *Unit) AddCanonical(a *graph.Action, raw string, form graph.CanonicalForm) {
	if u.Lines {
		return
	}
	form.Raw, form.Canon = raw, Canonical(raw)
	a.Work.Pass.CanonicalForms = append(a.Work.Pass.CanonicalForms, form)
	a.Outputs = append(a.Outputs, form.Canon)
}

// Canonical returns the file for the canonical form of a text. It keeps the extension, by which
// compilers recognise their input.
func Canonical(text string) string {
	ext := path.Ext(text)
	return strings.TrimSuffix(text, ext) + ".canon" + ext
}

// ReadTexts adds the canonical forms of texts to the inputs of a, and the texts themselves as
// inputs for diagnostics. If the outputs record lines, the texts are the inputs.
func (u *Unit) ReadTexts(a *graph.Action, texts ...string) {
	for _, text := range texts {
		if u.Lines {
			a.Inputs = append(a.Inputs, text)
			continue
		}
		a.Inputs = append(a.Inputs, Canonical(text))
		a.Work.Pass.DiagnosticInputs = append(a.Work.Pass.DiagnosticInputs, text)
	}
}

// Join plans the final object: the host code with its placeholder replaced by the device code.
func (u *Unit) Join(container graph.Container, host, code string) {
	a := u.inProcess(graph.Join, u.Whole.Name, u.Whole.Outputs[0], host, code)
	a.Work.Container = container
}

// Copy plans the copy of a pass's output to a file.
func (u *Unit) Copy(from, to string) { u.inProcess(graph.Copy, path.Base(to), to, from) }

func (u *Unit) inProcess(kind graph.Kind, name, output string, inputs ...string) *graph.Action {
	a := &graph.Action{Kind: kind, Name: name, Archs: u.Whole.Archs, Mode: u.Whole.Mode, Inputs: inputs,
		Outputs: []string{output}, Work: graph.Work{Driver: u.Driver()}}
	u.Emit(a)
	return a
}

// TimeTrace is the option that makes clang write a file of timings for each pass.
const TimeTrace = "-ftime-trace"

// IsTimeTrace reports whether an output of a holds timings, which differ from run to run.
func IsTimeTrace(a *graph.Action, output string) bool {
	return path.Ext(output) == ".json" && slices.Contains(a.Argv, TimeTrace)
}
