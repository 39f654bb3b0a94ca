package compiler

import (
	"path"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// Anywhere makes compilers record /proc/self/cwd for the folder that they run in: outputs with
// debug information are the same in every checkout, and a debugger that is started in the project's
// root finds the sources.
const Anywhere = "PWD=/proc/self/cwd"

// Unit is one command of a driver that is taken apart into passes, each an action.
type Unit struct {
	Whole    *graph.Action       // the command in one piece
	Env      []string            // of the passes
	Dir      string              // of what only passes read
	ID       string              // of the source within any program, as the compiler spells it
	Named    string              // what passes that do not read the source call it; "" is by its name
	Lines    bool                // outputs record line numbers
	Files    bool                // each text gets a list of the files that it is of: see FilesOf
	Own      bool                // that list is without headers of the system
	Includes bool                // texts show how includes spell files
	Plain    bool                // messages are to be those of the command in one piece
	Emit     func(*graph.Action) // takes an action, producers first

	driver *graph.Driver
}

// Driver is the command as its passes know it.
func (u *Unit) Driver() *graph.Driver {
	if u.driver == nil {
		u.driver = &graph.Driver{Argv: u.Whole.Argv, DryRunKey: u.Whole.Driver().DryRunKey}
	}
	return u.driver
}

// Action makes the action of a pass. What it writes into Dir is for other passes.
func (u *Unit) Action(kind graph.Kind, argv []string, outputs ...string) *graph.Action {
	return &graph.Action{Kind: kind, Name: u.Whole.Name, Mode: u.Whole.Mode, Argv: argv, Env: u.Env, Outputs: outputs, Tools: u.Whole.Tools,
		Intermediate: strings.HasPrefix(outputs[0], u.Dir+"/"), Memory: u.Whole.Memory, Work: graph.Work{Driver: u.Driver(), Step: &graph.Step{}}}
}

// Source is what the command compiles, or the first file that it links. There is none in a plan
// that has errors elsewhere.
func (u *Unit) Source() []string { return u.Whole.Inputs[:min(1, len(u.Whole.Inputs))] }

// Preprocess makes the action that writes the text of one architecture, or of the host.
func (u *Unit) Preprocess(arch string, argv []string, text string) *graph.Action {
	a := u.Action(graph.Preprocess, argv, text)
	a.Archs, a.Inputs, a.Depfile = []string{arch}, u.Source(), text+".d"
	a.SearchDirs, a.OrderOnly, a.Transient = u.Whole.SearchDirs, u.Whole.OrderOnly, true
	u.AddCanonical(a, text, graph.CanonicalForm{})
	return a
}

// OwnFilesOf is FilesOf without headers of the system, as -MMD has it.
func OwnFilesOf(text string) string { return text + ".files.own" }

// FilesOf is the list of the files that a text is of, in the order in which they begin in it.
func FilesOf(text string) string { return text + ".files" }

// AddCanonical adds the canonical form of an output, unless the outputs record lines.
func (u *Unit) AddCanonical(a *graph.Action, raw string, form graph.CanonicalForm) {
	if u.Lines {
		return
	}
	form.Raw, form.Canon = raw, Canonical(raw)
	a.Work.Step.CanonicalForms = append(a.Work.Step.CanonicalForms, form)
	a.Outputs = append(a.Outputs, form.Canon)
}

// Canonical is the file with the canonical form of a text. It keeps the ending, by which a compiler
// knows its input.
func Canonical(text string) string {
	ext := path.Ext(text)
	return strings.TrimSuffix(text, ext) + ".canon" + ext
}

// ReadTexts adds texts to the inputs of a: their canonical form, and what they really are for
// messages alone, unless the outputs record lines.
func (u *Unit) ReadTexts(a *graph.Action, texts ...string) {
	for _, text := range texts {
		if u.Lines {
			a.Inputs = append(a.Inputs, text)
			continue
		}
		a.Inputs = append(a.Inputs, Canonical(text))
		a.Work.Step.DiagnosticInputs = append(a.Work.Step.DiagnosticInputs, text)
	}
}

// Join plans the object that the user knows: host code with device code in place of what stood for
// it.
func (u *Unit) Join(host, code string) {
	u.inProcess(graph.Join, u.Whole.Name, u.Whole.Outputs[0], host, code)
}

// Copy plans the file that an output of a pass is.
func (u *Unit) Copy(from, to string) { u.inProcess(graph.Copy, path.Base(to), to, from) }

func (u *Unit) inProcess(kind graph.Kind, name, output string, inputs ...string) {
	u.Emit(&graph.Action{Kind: kind, Name: name, Archs: u.Whole.Archs, Mode: u.Whole.Mode, Inputs: inputs, Outputs: []string{output},
		Work: graph.Work{Driver: u.Driver()}})
}
