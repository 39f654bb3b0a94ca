// Package plan turns an evaluated project and facts about the world into a graph of actions. It is
// a pure function: no files, no environment, no clock. What is wrong comes back as problems with the
// position in the manifest that caused them, all of one run at once.
package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Plan is what planning gives.
type Plan struct {
	Graph     *graph.Graph // nil if a problem is an error
	Problems  []Problem
	Questions []compiler.Question // that Facts.DryRuns does not answer; without an answer a compiler is not taken apart
}

// Build plans p with what f knows.
func Build(p *manifest.Project, f Facts) (*graph.Graph, []Problem) {
	plan := New(p, f, Options{})
	return plan.Graph, plan.Problems
}

// Options are the choices of a run.
type Options struct {
	NoSplit   bool       // run nvcc as one command
	CheckLink *CheckLink // link the LTO-IR of modules; nil does not
}

// New plans p with what f knows.
func New(p *manifest.Project, f Facts, o Options) Plan {
	b := &builder{
		checks:  checks{given: given{p, f, o}},
		answers: answers{runs: f.DryRuns, learned: map[string]learned{}},
		graph:   &graph.Graph{BuildDir: p.BuildDir},
		targets: map[string]*target{},
		bases:   map[string][]*target{},
	}
	b.graph.Pools = map[string]int{graph.DeviceLinkPool: 0}
	b.collect()
	b.sort()
	b.inherit()
	for _, t := range b.order {
		b.target(t)
	}
	b.checkLinks()
	b.groups()
	if b.failed {
		return Plan{Problems: b.list, Questions: b.answers.questions}
	}
	if err := b.graph.Seal(); err != nil {
		panic("BUG: " + err.Error())
	}
	return Plan{b.graph, b.list, b.answers.questions}
}

// given is what a plan is made of.
type given struct {
	project *manifest.Project
	facts   Facts
	options Options
}

// checks say what is wrong with what is given.
type checks struct {
	problems
	given
	walker
	nvccSaid bool // what is wrong with the toolkit was reported
	hipSaid  bool
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

// target is a manifest target with what the planner learned about it.
type target struct {
	*manifest.Target
	label string
	deps  []*target // in order of declaration
	node  *graph.Target

	codes   codes   // expanded gencode
	unbuilt string  // why it cannot be built, "" if it can
	lacks   *target // whose fault that is; nil if its own
	pic     bool    // reachable from a shared library
	objects []object
	file    string   // the archive, shared library, executable or prebuilt file; "" if there is none
	object  string   // of bare device code that is prebuilt: the object around it; else ""
	dlink   string   // object of an own device link (shared library, executable, closed static library)
	headers []string // order-only: files that its consumers may include
	include []string // folders that its consumers search
	embeds  []string // objects of embedded modules

	undeclared bool // a library behind -l, for which nobody wrote a prebuilt block

	arts []artifact

	round  int   // of the last walk that came by
	behind int   // of the last walk that left out what is behind it
	last   *bool // see isLast; nil as long as nobody asked
}

// object is a compiled source.
type object struct {
	path   string
	source manifest.Source
	device bool // holds device code

	bitcode map[string]string // of a HIP source in the modes rdc and lto: LLVM bitcode by architecture; nil if hipcc was one command
}

// attr is the position of an attribute of t, or of t itself. A gencode may be written as code.
func (t *target) attr(name string) manifest.Pos {
	keys := []string{name, "defaults." + name}
	if name == "gencode" {
		keys = []string{name, "code", "defaults.gencode", "defaults.code"}
	}
	for _, key := range keys {
		if p, ok := t.AttrPos[key]; ok {
			return p
		}
	}
	return t.Pos
}

func (b *builder) collect() {
	for _, mt := range b.project.Targets {
		t := &target{Target: mt, label: mt.Label()}
		b.targets[t.label] = t
		base := string(t.Kind) + "." + t.Base
		b.bases[base] = append(b.bases[base], t)
	}
	for _, mt := range b.project.Targets {
		t := b.targets[mt.Label()]
		for _, d := range mt.Deps {
			t.deps = append(t.deps, b.instances(d.Label)...)
		}
		for _, s := range mt.Sources {
			if g := b.targets[s.Generated]; g != nil {
				t.deps = append(t.deps, g)
			}
		}
	}
}

// instances are the targets a reference means: one, or every instance of a matrix module.
func (b *builder) instances(label string) []*target {
	if t := b.targets[label]; t != nil {
		return []*target{t}
	}
	return b.bases[label]
}

// sort puts dependencies first, otherwise targets as declared. There are no cycles: loading the manifest refuses them.
func (b *builder) sort() {
	seen := map[*target]bool{}
	var visit func(t *target)
	visit = func(t *target) {
		if seen[t] {
			return
		}
		seen[t] = true
		for _, d := range t.deps {
			visit(d)
		}
		b.order = append(b.order, t)
	}
	for _, mt := range b.project.Targets {
		visit(b.targets[mt.Label()])
	}
}

// inherit settles what flows along dependencies: architectures of targets that set none, and -fPIC
// down from shared libraries.
func (b *builder) inherit() {
	for _, t := range b.order {
		t.codes = b.expand(t)
		for _, d := range t.deps {
			if t.unbuilt == "" && d.unbuilt != "" {
				t.lacks = cmp.Or(d.lacks, d) // not d.unbuilt with all targets on the way: a deep chain of them has no end
				t.unbuilt = fmt.Sprintf("it needs %s: %s", t.lacks.label, t.lacks.unbuilt)
			}
		}
	}
	for i := len(b.order) - 1; i >= 0; i-- {
		t := b.order[i]
		t.pic = t.pic || t.Shared
		for _, d := range t.deps {
			if t.pic && d.Kind == manifest.Library && !d.Shared {
				d.pic = true
			}
			if t.pic && d.Kind == manifest.Module {
				d.pic = true
			}
		}
	}
}

func (b *builder) target(t *target) {
	t.node = &graph.Target{Label: t.label, Name: t.Name, Kind: string(t.Kind), Pos: graph.Pos(t.Pos)}
	for _, d := range t.deps {
		t.node.Deps = append(t.node.Deps, d.label)
	}
	b.graph.Targets = append(b.graph.Targets, t.node)
	if t.node.Unbuilt = t.unbuilt; t.unbuilt != "" {
		return
	}
	switch t.Kind {
	case manifest.Generate:
		b.generate(t)
	case manifest.Prebuilt:
		b.prebuilt(t)
	case manifest.Module:
		b.module(t)
	case manifest.Library:
		b.checkEmbeds(t)
		b.compileAll(t)
		b.library(t)
	case manifest.Executable:
		b.checkEmbeds(t)
		b.compileAll(t)
		b.executable(t)
	default:
		panic("BUG: unknown kind of target " + string(t.Kind))
	}
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

// twice reports a file that two actions write. Two of one target do so where a flag names a file beside an object.
func (b *problems) twice(t *target, w, a *graph.Action, file string) {
	if w.Target == t.label && a.InPlace {
		b.errorf(t.flag(t.Flags, file), "Put the flag into a partition of one source.", "%s: two sources write %s", t.label, file)
		return
	}
	b.add(Problem{Pos: t.Pos, Summary: fmt.Sprintf("%s and %s both write %s", w.Target, t.label, file),
		Detail: "Rename one of the two.", Also: manifest.Pos(w.Pos), AlsoSay: w.Target + " writes it first"})
}

// NativeTool is the name of the processor of this machine among the tools of an action that makes code for it.
const NativeTool = "native CPU"

// nativeCPU makes this machine's processor a tool of an action that makes code for it.
func (b *given) nativeCPU(a *graph.Action) {
	if b.facts.NativeCPU == "" || len(a.Tools) == 0 {
		return
	}
	if host.NativeCPU(a.Argv) || a.Driver().Argv == nil && slices.Contains(a.Tools, "nvcc") && host.NativeCPU(b.facts.NVCCFlags) {
		a.Tools = append(slices.Clip(a.Tools), NativeTool)
	}
}

// out is a path in the build tree.
func (b *given) out(elem ...string) string {
	return path.Join(append([]string{b.project.BuildDir}, elem...)...)
}

func (b *builder) generate(t *target) {
	a := &graph.Action{Kind: graph.Generate, Name: t.Name, Argv: t.Command, Inputs: t.Inputs, InPlace: true}
	dir := b.out(graph.GenDir, t.Name)
	for _, o := range t.Outputs {
		a.Outputs = append(a.Outputs, path.Join(dir, o))
	}
	for _, d := range t.deps {
		a.OrderOnly = append(a.OrderOnly, d.headers...)
		if d.file != "" {
			a.Inputs = append(a.Inputs, d.file)
		}
	}
	b.emit(t, a)
	t.node.Outputs = a.Outputs
	t.headers = a.Outputs
	t.include = []string{dir}
}

func (b *builder) groups() {
	for _, g := range b.project.Groups {
		n := &graph.Target{Label: "group." + g.Name, Name: g.Name, Kind: "group", Pos: graph.Pos(g.Pos)}
		for _, d := range g.Targets {
			for _, t := range b.instances(d.Label) {
				n.Deps = append(n.Deps, t.label)
			}
			if strings.HasPrefix(d.Label, "group.") {
				n.Deps = append(n.Deps, d.Label)
			}
		}
		b.graph.Targets = append(b.graph.Targets, n)
		if g.Name == "default" {
			b.graph.Default = []string{n.Label}
		}
	}
	if b.graph.Default == nil {
		for _, t := range b.order {
			if t.Kind != manifest.Prebuilt {
				b.graph.Default = append(b.graph.Default, t.label)
			}
		}
	}
}
