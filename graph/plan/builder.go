package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Options are the choices of a run.
type Options struct {
	NoSplit      bool       // run nvcc as one command
	RequireSplit bool       // refuse to run nvcc as one command where nobody asks for it
	Exports      bool       // say what others need to use the targets
	CheckLink    *CheckLink // link the LTO-IR of modules; nil does not
}

// CheckLink asks for links of the LTO-IR of modules, which nothing reads.
type CheckLink struct {
	Archs   []gencode.Code // machine code: sm_80
	Modules []string       // labels or names of modules and groups; none is every module that emits LTO-IR
}

// given is what a plan is made of.
type given struct {
	project *manifest.Project
	facts   Facts
	options Options
}

// checks say what is wrong with what is given.
type checks struct {
	diagnostics
	given
	walker
	nvccSaid   bool // what is wrong with the toolkit was reported
	floatsSaid bool // that nvlink is told of floating-point options was reported
	hipSaid    bool
}

// builder holds the plan while it grows.
type builder struct {
	checks
	answers answers
	graph   *graph.Graph
	targets map[string]*target   // by label
	bases   map[string][]*target // by kind.base, in order: the instances of a matrix
	order   []*target            // dependencies first
}

// emit adds an action of t, unless another target writes the same file.
func (b *builder) emit(t *target, a *graph.Action) {
	a.Target, a.Pos = t.label, graph.Pos(t.Pos)
	a.Memory, a.Pool = max(a.Memory, t.Memory), a.Kind.Info().Pool
	b.nativeCPU(a)
	for i, o := range a.Outputs {
		if id, dup := b.graph.Producer(o); dup {
			b.twice(t, b.graph.Actions[id], a, o)
			return
		} else if slices.Contains(a.Outputs[:i], o) {
			b.twice(t, a, a, o)
			return
		}
	}
	b.graph.Add(a)
	t.node.Actions = append(t.node.Actions, a.ID)
}

// twice reports a file that two actions write. Two of one target do so where a flag names a file
// beside an object.
func (ds *diagnostics) twice(t *target, w, a *graph.Action, file string) {
	if w.Target == t.label && a.InPlace {
		ds.errorf(t.flag(&t.Flags, file), "Put the flag into a partition of one source.", "%s: two sources write %s", t.label, file)
		return
	}
	ds.bothf(t.Pos, manifest.Pos(w.Pos), w.Target+" writes it first", "Rename one of the two.",
		"%s and %s both write %s", w.Target, t.label, file)
}

// ToolkitTool is the name of Toolkit.Parts among the tools of an action.
const ToolkitTool = nvcc.Toolkit

// NativeTool is the name of the processor of this machine among the tools of an action that makes
// code for it.
const NativeTool = "native CPU"

// nativeCPU makes this machine's processor a tool of an action that makes code for it.
func (g *given) nativeCPU(a *graph.Action) {
	if g.facts.NativeCPU == "" || len(a.Tools) == 0 {
		return
	}
	if host.NativeCPU(a.Argv) || a.Driver().Argv == nil && slices.Contains(a.Tools, "nvcc") && host.NativeCPU(g.facts.NVCCFlags) {
		a.Tools = append(slices.Clip(a.Tools), NativeTool)
	}
}

// instances are the targets a reference means: one, or every instance of a matrix module.
func (b *builder) instances(label string) []*target {
	if t := b.targets[label]; t != nil {
		return []*target{t}
	}
	return b.bases[label]
}

// atFile is the response file of ar, lld and drivers of linkers, for the arguments from one on.
func atFile(from int) *graph.Response { return &graph.Response{From: from, Flag: "@"} }

// optedOut says how the user asked for a compiler in one piece, "" if nobody did.
func (g *given) optedOut(t *target) string {
	switch {
	case g.options.NoSplit:
		return "--no-split"
	case t.Split != nil && !*t.Split:
		return "split = false"
	}
	return ""
}

// clang is the compiler of CUDA in place of nvcc, nil if nvcc is it.
func (g *given) clang() *ClangCUDA {
	if g.facts.CUDA == nil {
		return nil
	}
	return g.facts.CUDA.Clang
}
