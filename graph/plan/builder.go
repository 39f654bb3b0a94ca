package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
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

// builder accumulates the plan.
type builder struct {
	project *manifest.Project
	facts   Facts
	options Options
	build   *toolchain.Build // what requests to toolchains have in common

	// By the language of the sources that they compile.
	toolchains map[string]toolchain.Toolchain
	native     []string // tools that the environment has compile for the processor of this machine
	lacksCUDA  bool     // this machine has a toolchain for other GPUs, and none for CUDA
	anyDevice  bool     // the project may have device code: a source, or prebuilt code

	problems toolchain.Diagnostics
	walk     walker
	graph    *graph.Graph
	targets  map[string]*target   // by label
	bases    map[string][]*target // by kind.base, in order: the instances of a matrix
	order    []*target            // dependencies first
}

// toolchain returns the toolchain for the device code of t.
func (b *builder) toolchain(t *target) toolchain.Toolchain {
	return b.toolchains[t.Codes.Language()]
}

// take adds the result of a request for t. Several requests may plan the same shared action.
func (b *builder) take(t *target, p toolchain.Plan) {
	b.problems.List = append(b.problems.List, p.List...)
	for _, a := range p.Actions {
		if id, dup := b.graph.Producer(a.Outputs[0]); dup && a.Kind.Info().Shared {
			if w := b.graph.Actions[id]; a.Kind == w.Kind && slices.Equal(a.Inputs, w.Inputs) && slices.Equal(a.Outputs, w.Outputs) {
				continue
			}
		}
		b.emit(t, a)
	}
}

// emit adds an action of t. If another action writes the same file, it reports an error instead.
func (b *builder) emit(t *target, a *graph.Action) {
	a.Target, a.Pos = t.Label, graph.Pos(t.Pos)
	a.Memory, a.Pool = max(a.Memory, t.Memory), a.Kind.Info().Pool
	if b.facts.NativeCPU != "" && len(a.Tools) > 0 &&
		(host.NativeCPU(a.Argv) || a.Driver().Argv == nil && slices.ContainsFunc(b.native, func(tool string) bool { return slices.Contains(a.Tools, tool) })) {
		a.Tools = append(slices.Clip(a.Tools), NativeTool)
	}
	for i, o := range a.Outputs {
		first := a
		if id, dup := b.graph.Producer(o); dup {
			first = b.graph.Actions[id]
		} else if !slices.Contains(a.Outputs[:i], o) {
			continue
		}
		// Two actions of one target collide where a flag names a file beside the object.
		if first.Target == t.Label && a.InPlace {
			b.problems.Errorf(t.FlagPos(&t.Flags, o), "Put the flag into a partition of one source.",
				"%s: two sources write %s", t.Label, o)
		} else {
			b.problems.Bothf(t.Pos, manifest.Pos(first.Pos), first.Target+" writes it first",
				"Rename one of the two.", "%s and %s both write %s", first.Target, t.Label, o)
		}
		return
	}
	b.graph.Add(a)
	t.node.Actions = append(t.node.Actions, a.ID)
}

// NativeTool names this machine's processor among the tools of an action that generates code for
// it.
const NativeTool = "native CPU"

// instances returns the targets that a label refers to: one target, or every instance of a matrix
// module.
func (b *builder) instances(label string) []*target {
	if t := b.targets[label]; t != nil {
		return []*target{t}
	}
	return b.bases[label]
}

// target is a manifest target and what the planner derived for it.
type target struct {
	toolchain.Target
	deps []*target // in order of declaration
	node *graph.Target

	unbuilt string  // why it cannot be built; "" if it can
	lacks   *target // the dependency that cannot be built; nil if t itself is the cause

	// Object of its own device link (shared library, executable, closed static library).
	dlink   string
	headers []string // order-only: files that its consumers may include
	include []string // include folders of its consumers
	embeds  []string // objects of embedded modules

	written *manifest.Target // as in the manifest: see vendors.Translate

	round  int   // number of the last walk that visited it
	behind int   // number of the last walk that skipped its dependencies
	last   *bool // cached result of isLast; nil if not computed yet
}

// isHost reports whether s is a source that the host compiler can optimise: assembler is not.
func isHost(s manifest.Source) bool { return s.Language == "c" || s.Language == "c++" }

// hostLTO returns how the host sources of t are optimised across files, "" if they are not. It
// returns "" if t has no host sources.
func hostLTO(t *target) string {
	if slices.ContainsFunc(t.Sources, isHost) {
		return t.HostLTO
	}
	return ""
}

// shipsCUDA reports whether t has a CUDA source.
func (t *target) shipsCUDA() bool {
	return slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return s.Language == "cuda" })
}
