package plan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// GPUTool is the name of the tool that stands for the GPUs of this machine and their driver, in keys of tests.
const GPUTool = "gpu"

// tests plans the runs of tests. They are targets, and what is built where nobody names anything has none of them.
func (b *builder) tests() {
	libDirs := LibraryFolders(b.project, b.facts)
	for _, m := range b.project.Tests {
		of := b.targets[m.Executable]
		if of == nil {
			continue // the manifest has an error
		}
		n := &graph.Target{Label: "test." + m.Name, Name: m.Name, Kind: "test", Pos: graph.Pos(m.Pos)}
		b.graph.Targets = append(b.graph.Targets, n)
		needs := []*target{of}
		for _, d := range m.Deps {
			needs = append(needs, b.instances(d.Label)...)
		}
		a := &graph.Action{Kind: graph.Test, Name: m.Name, Argv: append([]string{of.file}, m.Args...), Env: m.Env, Outputs: []string{b.out(graph.TestDir, strings.ReplaceAll(m.Name, ":", ".")+".log")}}
		a.Work.Test = &graph.TestRun{LibDirs: libDirs, GPU: m.NeedsGPU, Each: m.EachTime, Timeout: m.Timeout}
		for _, t := range needs {
			n.Deps, n.Unbuilt = appendNew(n.Deps, t.label), cmp.Or(n.Unbuilt, t.unbuilt)
			a.Inputs = appendNew(a.Inputs, t.node.Outputs...)
			for _, s := range b.linkage(t).shared {
				a.Inputs = appendNew(a.Inputs, s.file)
			}
		}
		if n.Unbuilt != "" {
			continue
		}
		a.Inputs = appendNew(a.Inputs, m.Data...)
		b.emit(&target{Target: &manifest.Target{Pos: m.Pos, Memory: m.Memory}, label: n.Label, node: n}, a)
		if m.NeedsGPU {
			a.Pool, a.Tools = graph.GPUPool, []string{GPUTool}
		}
		n.Outputs = a.Outputs
	}
}

// LibraryFolders are where a program that was built may find shared libraries that its own path does not lead to, absolute or from the root of the project: what
// the manifest names with lib_dirs, and the folders of the toolkit, unless the loader looks there anyway. Libraries of the project it finds by itself.
func LibraryFolders(p *manifest.Project, f Facts) (dirs []string) {
	add := func(dir string) {
		system := strings.HasPrefix(dir, "/usr/lib") || strings.HasPrefix(dir, "/lib")
		if !system && !slices.Contains(dirs, dir) && path.Base(dir) != "stubs" {
			dirs = append(dirs, dir)
		}
	}
	for _, t := range p.Targets {
		for _, dir := range t.LibDirs {
			add(dir)
		}
	}
	if f.CUDA != nil {
		for _, dir := range f.CUDA.LibDirs {
			add(dir)
		}
	}
	return dirs
}
