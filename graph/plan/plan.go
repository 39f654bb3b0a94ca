// Package plan turns an evaluated project and facts about the host environment into a graph of
// actions. It is a pure function: it reads no files, no environment and no clock. One run reports
// all problems it finds, as diagnostics with the positions in the manifest that caused them.
package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Plan is the result of planning.
type Plan struct {
	Graph       *graph.Graph // nil if a diagnostic is an error
	Diagnostics manifest.Diagnostics
	Exports     []Export // set if Options.Exports is

	// dry runs that Facts.DryRuns lacks; a command without its dry run stays unsplit
	Questions []toolchain.Question
}

// New plans p from the facts f.
func New(p *manifest.Project, f Facts, o Options) Plan {
	b := &builder{
		project: p, facts: f, options: o,
		build: &toolchain.Build{Layout: toolchain.Layout{BuildDir: p.BuildDir}, Project: p, NoSplit: o.NoSplit, RequireSplit: o.RequireSplit,
			Answers: toolchain.Answers{Runs: f.DryRuns}},
		toolchains: f.Toolchains(),
		graph:      &graph.Graph{BuildDir: p.BuildDir},
		targets:    map[string]*target{},
		bases:      map[string][]*target{},
	}
	for language, tc := range b.toolchains {
		b.lacksCUDA = b.lacksCUDA || language != "cuda" && tc.Info().Missing == ""
	}
	for _, d := range f.Drivers() {
		if host.NativeCPU(d.Flags) {
			b.native = append(b.native, d.Name)
		}
	}
	b.lacksCUDA = b.lacksCUDA && b.toolchains["cuda"].Info().Missing != ""
	b.anyDevice = f.AnyStatic() || slices.ContainsFunc(p.Targets, func(t *manifest.Target) bool {
		return t.Kind == manifest.Prebuilt || slices.ContainsFunc(t.Sources, manifest.Source.IsDevice)
	})
	b.graph.Pools = map[string]int{graph.DeviceLinkPool: 0, graph.GPUPool: 1}
	b.collect()
	b.inherit()
	for _, t := range b.order {
		b.target(t)
	}
	b.checkLinks()
	b.tests()
	b.groups()
	made := Plan{Diagnostics: distinct(b.problems.List), Questions: b.build.Answers.Questions}
	if b.problems.HasErrors() {
		return made
	}
	if err := b.graph.Seal(); err != nil {
		panic("BUG: " + err.Error())
	}
	made.Graph = b.graph
	for _, t := range b.order {
		if o.Exports && t.unbuilt == "" && t.Kind != manifest.Generate {
			made.Exports = append(made.Exports, b.export(t))
		}
	}
	return made
}

// distinct returns each diagnostic once: every dependent of a shared library finds the same fault
// in it.
func distinct(list manifest.Diagnostics) (out manifest.Diagnostics) {
	seen := map[manifest.Diagnostic]bool{}
	for _, d := range list {
		if !seen[d] {
			seen[d], out = true, append(out, d)
		}
	}
	return out
}

// collect makes the targets and orders dependencies before their dependents. It keeps the order of
// declaration otherwise. There are no cycles: loading the manifest rejects them.
func (b *builder) collect() {
	for _, mt := range b.project.Targets {
		t := &target{written: mt, Target: toolchain.Target{
			Target: b.facts.Translate(mt), Label: mt.Label(), Library: b.facts.Prebuilt[mt.Archive+mt.SharedFile]}}
		b.targets[t.Label] = t
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

// inherit propagates properties along dependencies: architectures of targets that set none,
// unbuildable dependencies, and -fPIC down from shared libraries.
func (b *builder) inherit() {
	for _, t := range b.order {
		t.Codes = b.expand(t)
		for _, d := range t.deps {
			if t.unbuilt == "" && d.unbuilt != "" {
				// not d.unbuilt: along a deep chain the text would name every target on the way
				t.lacks = cmp.Or(d.lacks, d)
				t.unbuilt = fmt.Sprintf("it needs %s: %s", t.lacks.Label, t.lacks.unbuilt)
			}
		}
	}
	for i := len(b.order) - 1; i >= 0; i-- {
		t := b.order[i]
		t.PIC = t.PIC || t.Shared
		for _, d := range t.deps {
			d.PIC = d.PIC || t.PIC && (d.Kind == manifest.Module || d.Kind == manifest.Library && !d.Shared)
		}
	}
}

func (b *builder) target(t *target) {
	t.node = &graph.Target{Label: t.Label, Name: t.Name, Kind: string(t.Kind), Pos: graph.Pos(t.Pos)}
	for _, d := range t.deps {
		t.node.Deps = append(t.node.Deps, d.Label)
	}
	b.graph.Targets = append(b.graph.Targets, t.node)
	if t.node.Unbuilt = t.unbuilt; t.unbuilt != "" {
		return
	}
	b.facts.CheckHeaders(b.build, &b.problems, t.written)
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
		b.link(t, b.build.Out("bin", t.OutputName), graph.HostLink)
	default:
		panic("BUG: unknown kind of target " + string(t.Kind))
	}
}

func (b *builder) generate(t *target) {
	a := &graph.Action{Kind: graph.Generate, Name: t.Name, Argv: t.Command, Inputs: t.Inputs, InPlace: true}
	dir := b.build.Out(fileset.GenDir, fileset.Flat(t.Name))
	var files []string
	for _, o := range t.Outputs {
		files = append(files, path.Join(dir, o))
	}
	if t.Depfile != "" {
		a.Depfile = path.Join(dir, t.Depfile)
	}
	if a.Outputs = files; t.Patterns != nil {
		list, pack := fileset.ListAndPack(dir)
		a.Outputs, a.Work.Collect = []string{list, pack}, &graph.Collect{Dir: dir, Patterns: t.Patterns}
	}
	for _, d := range t.deps {
		a.OrderOnly = append(a.OrderOnly, d.headers...)
		if d.File != "" {
			a.Inputs = append(a.Inputs, d.File)
		}
	}
	b.emit(t, a)
	t.include = []string{dir}
	t.node.Outputs, t.headers = a.Outputs, a.Outputs
	if t.Patterns != nil && len(files) > 0 {
		b.emit(t, &graph.Action{Kind: graph.Extract, Name: t.Name, Argv: []string{dir}, Inputs: a.Outputs[1:], Outputs: files})
		// one file suffices, its action writes them all: hundreds of sources would wait for
		// hundreds of files
		t.node.Outputs, t.headers = files, files[:1]
	}
}

func (b *builder) groups() {
	for _, g := range b.project.Groups {
		n := &graph.Target{Label: "group." + g.Name, Name: g.Name, Kind: "group", Pos: graph.Pos(g.Pos)}
		for _, d := range g.Targets {
			for _, t := range b.instances(d.Label) {
				n.Deps = append(n.Deps, t.Label)
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
				b.graph.Default = append(b.graph.Default, t.Label)
			}
		}
	}
}
