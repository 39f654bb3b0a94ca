package plan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// GPUTool is the tool that represents the GPUs of this machine and their driver in keys of tests.
const GPUTool = "gpu"

// tests plans the test runs. They are targets, but not default targets.
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
		a := &graph.Action{Kind: graph.Test, Name: m.Name, Argv: append([]string{of.File}, m.Args...), Env: m.Env, Outputs: []string{b.build.Out(graph.TestDir, strings.ReplaceAll(m.Name, ":", ".")+".log")}}
		a.Work.Test = &graph.TestRun{LibDirs: libDirs, GPU: m.NeedsGPU, Each: m.EachTime, Timeout: m.Timeout}
		for _, t := range needs {
			n.Deps, n.Unbuilt = appendNew(n.Deps, t.Label), cmp.Or(n.Unbuilt, t.unbuilt)
			a.Inputs = appendNew(a.Inputs, t.node.Outputs...)
			for _, s := range b.walk.closure(t) {
				if s.Shared || s.SharedFile != "" { // also dependencies of shared libraries
					a.Inputs = appendNew(a.Inputs, s.File)
				}
			}
		}
		if n.Unbuilt != "" {
			continue
		}
		a.Inputs = appendNew(a.Inputs, m.Data...)
		b.emit(&target{Target: toolchain.Target{Label: n.Label, Target: &manifest.Target{Pos: m.Pos, Memory: m.Memory}}, node: n}, a)
		if m.NeedsGPU {
			a.Pool, a.Tools = graph.GPUPool, []string{GPUTool}
		}
		n.Outputs = a.Outputs
	}
}

// LibraryFolders returns the folders in which a built program may find shared libraries that its
// run path does not cover. They are absolute or relative to the project root: lib_dirs of the
// manifest, folders of libraries that prebuilt ones need, and those of the toolkit. Folders that
// the loader searches anyway are omitted. A library that a target names in its deps is found by the
// run path in the target's file.
func LibraryFolders(p *manifest.Project, f Facts) (dirs []string) {
	prebuilt := map[string]string{}
	for _, t := range p.Targets {
		dirs = appendNew(dirs, t.LibDirs...)
		if t.SharedFile != "" {
			prebuilt[t.Label()] = path.Dir(t.SharedFile)
			dirs = appendNew(dirs, f.Behind[t.SharedFile].Beside...)
		}
	}
	for _, t := range p.Targets {
		for _, d := range t.Deps {
			if dir, ok := prebuilt[d.Label]; ok && t.SharedFile != "" {
				dirs = appendNew(dirs, dir)
			}
		}
	}
	dirs = appendNew(dirs, f.LibDirs()...)
	return slices.DeleteFunc(dirs, func(dir string) bool { return ofSystem(dir) || path.Base(dir) == "stubs" })
}

// ofSystem reports whether linkers and the loader search dir by default.
func ofSystem(dir string) bool {
	return strings.HasPrefix(dir, "/usr/lib") || strings.HasPrefix(dir, "/lib")
}
