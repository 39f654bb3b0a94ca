package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Options holds the options of a planning run.
type Options struct {
	NoSplit bool // run compiler drivers unsplit

	// Reject an nvcc command that stays unsplit for another reason than the user's choice.
	RequireSplit bool
	Exports      bool       // fill Plan.Exports
	CheckLink    *CheckLink // link the LTO-IR of modules; nil disables it
}

// CheckLink configures --check-link: links of the LTO-IR of modules that only test whether it
// links.
type CheckLink struct {
	Archs []gencode.Code // machine code: sm_80

	// Labels or names of modules and groups; empty means every module that emits LTO-IR.
	Modules []string
}

// given holds the inputs of a plan.
type given struct {
	project *manifest.Project
	facts   Facts
	options Options
}

// checks reports problems with the inputs of a plan.
type checks struct {
	diagnostics
	given
	walker
	nvccReported   bool // a problem with the toolkit was reported
	floatsReported bool // the warning about nvlink's floating-point options was reported
	hipPrinted     bool
}

// builder accumulates the plan.
type builder struct {
	checks
	answers answers
	graph   *graph.Graph
	targets map[string]*target   // by label
	bases   map[string][]*target // by kind.base, in order: the instances of a matrix
	order   []*target            // dependencies first
}

// emit adds an action of t. If another action writes the same file, it reports an error instead.
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

// twice reports a file that two actions write. Two actions of one target collide where a flag names
// a file beside the object.
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

// NativeTool names this machine's processor among the tools of an action that generates code for
// it.
const NativeTool = "native CPU"

// nativeCPU adds this machine's processor to the tools of an action that generates code for it.
func (g *given) nativeCPU(a *graph.Action) {
	if g.facts.NativeCPU == "" || len(a.Tools) == 0 {
		return
	}
	if host.NativeCPU(a.Argv) || a.Driver().Argv == nil && slices.Contains(a.Tools, "nvcc") && host.NativeCPU(g.facts.NVCCFlags) {
		a.Tools = append(slices.Clip(a.Tools), NativeTool)
	}
}

// instances returns the targets that a label refers to: one target, or every instance of a matrix
// module.
func (b *builder) instances(label string) []*target {
	if t := b.targets[label]; t != nil {
		return []*target{t}
	}
	return b.bases[label]
}

// atFile describes a response file of ar, lld and compiler drivers that holds the arguments from
// index from on.
func atFile(from int) *graph.Response { return &graph.Response{From: from, Flag: "@"} }

// optedOut returns the setting by which the user disabled splitting for t, or "".
func (g *given) optedOut(t *target) string {
	switch {
	case g.options.NoSplit:
		return "--no-split"
	case t.Split != nil && !*t.Split:
		return "split = false"
	}
	return ""
}

// clang returns the clang that compiles CUDA, or nil if nvcc does.
func (g *given) clang() *ClangCUDA {
	if g.facts.CUDA == nil {
		return nil
	}
	return g.facts.CUDA.Clang
}
