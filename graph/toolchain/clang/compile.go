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
