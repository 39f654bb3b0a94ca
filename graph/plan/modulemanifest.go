package plan

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// describe plans the manifest of a module instance: modules/gemm.f16.64.json. Its head holds what
// is known at plan time; the rest is read from the artifacts. The action's arguments are the files
// with the symbols of LTO-IR, one for each such artifact.
func (b *builder) describe(t *target, arts []artifact) {
	if len(arts) == 0 {
		return // a problem was reported
	}
	out := b.out("modules", instanceName(t)+".json")
	m := b.known(t)
	a := &graph.Action{Kind: graph.Manifest, Name: path.Base(out), Mode: t.Mode, Argv: []string{"manifest"}, Outputs: []string{out}}
	var symbols []string
	for _, art := range arts {
		m.Artifacts = append(m.Artifacts, modinfo.Artifact{File: strings.TrimPrefix(art.path, path.Dir(out)+"/"), Kind: art.kind, Arch: art.arch})
		a.Inputs = append(a.Inputs, art.path)
		if art.symbols != "" {
			a.Argv, symbols = append(a.Argv, art.symbols), append(symbols, art.symbols)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	head := graph.ManifestTemplate(text)
	a.Work.Manifest, a.Inputs = &head, append(a.Inputs, symbols...)
	b.emit(t, a)
	t.node.Outputs = append(t.node.Outputs, out)
}

// known returns the part of the manifest of t that is known at plan time.
func (g *given) known(t *target) modinfo.Manifest {
	m := modinfo.Manifest{
		Schema: modinfo.Schema, Module: t.Base, Variant: map[string]string{}, Mode: t.Mode,
		Options: g.moduleOptions(t), Partitions: g.partitions(t),
	}
	if t.isHIP() {
		k := g.facts.HIP
		m.Compiler = modinfo.Tool{Name: path.Base(k.Driver.Path), Version: k.Driver.Version, Digest: k.Driver.ID}
		m.HostCompiler = modinfo.Tool{Name: path.Base(k.Clang.Path), Version: k.Clang.Version, Digest: k.Clang.ID}
	} else {
		k := g.facts.CUDA
		m.Compiler = modinfo.Tool{Name: "nvcc", Version: k.Version, Build: k.Build, Digest: k.NVCC.ID}
		m.HostCompiler = modinfo.Tool{Name: path.Base(k.HostCXX.Path), Version: k.HostCXX.Version, Digest: k.HostCXX.ID}
	}
	if m.Module == "" {
		m.Module = t.Name
	}
	for _, v := range t.Matrix {
		m.Variant[v.Name] = v.Value
	}
	return m
}

func (g *given) moduleOptions(t *target) modinfo.Options {
	own := manifest.Source{Flags: &t.Flags}
	if i := slices.IndexFunc(t.Sources, func(s manifest.Source) bool { return s.Partition == "" }); i >= 0 {
		own = t.Sources[i]
	}
	f := floats(t)
	return modinfo.Options{
		Std: t.DeviceStd, Opt: g.optOf(t, t.anySource()), Defines: g.local(defines(own.Defines)), Includes: g.local(slices.Concat(t.Includes, t.PrivateIncludes)),
		ArchList: g.local(names(t.Gencode.ArchList)), FastMath: t.FastMath,
		FTZ: f.ftz, PrecDiv: f.precDiv, PrecSqrt: f.precSqrt, FMAD: f.fmad,
		MaxRegisters: t.MaxRegisters, Debug: t.Debug, DeviceDebug: t.DeviceDebug, LineInfo: t.LineInfo, Flags: g.flags(own.Flags),
	}
}

// optOf returns the optimisation level of a source as its compiler spells it.
func (g *given) optOf(t *target, s manifest.Source) string {
	if t.isHIP() {
		return g.hipOpt(t, s)
	}
	return optLevel(t, s)
}

// partitions returns the groups of sources with settings of their own, in order of their first
// source.
func (g *given) partitions(t *target) []modinfo.Partition {
	var out []modinfo.Partition
	for _, s := range t.Sources {
		if s.Partition == "" {
			continue
		}
		i := slices.IndexFunc(out, func(p modinfo.Partition) bool { return p.Name == s.Partition })
		if i < 0 {
			i = len(out)
			out = append(out, modinfo.Partition{Name: s.Partition, Mode: s.Mode, Std: s.Std, Opt: g.optOf(t, s), Defines: g.local(defines(s.Defines)), Includes: g.local(s.Includes), Flags: g.flags(s.Flags)})
		}
		out[i].Sources = append(out[i].Sources, s.Path)
	}
	return out
}

func (g *given) flags(f *manifest.Flags) modinfo.Flags {
	return modinfo.Flags{NVCC: g.local(f.NVCC), CICC: g.local(f.CICC), PTXAS: g.local(f.PTXAS), NVLink: g.local(f.NVLink),
		HIP: g.local(f.HIP), LLD: g.local(f.LLD), Host: g.local(f.Host)}
}

// local returns list with paths of the project made relative to it. The result is never nil.
func (g *given) local(list []string) []string {
	out := []string{}
	for _, s := range list {
		out = append(out, strings.ReplaceAll(s, g.project.Root+"/", ""))
	}
	return out
}
