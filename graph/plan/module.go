package plan

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// module plans the artifacts of one module instance, its manifest and its embedding.
func (b *builder) module(t *target) {
	vendor := b.vendorOf(t)
	if !b.checkEmits(t, vendor.info.Emits) {
		return
	}
	b.checkMixed(t)
	r := toolchain.ModuleRequest{Build: b.build, Sources: b.sources(t), Target: &t.Target}
	// The files of all other kinds are made from one source each.
	linked := func(kind string) bool { return kind != "ltoir" && kind != "bitcode" }
	if !vendor.info.NoModules && t.Mode != "whole" && len(t.Codes.Shipped()) > 0 && slices.ContainsFunc(t.Emit, linked) {
		b.compileAll(t)
		r.Inputs = b.linkInputs(t, b.walk.linkage(t))
	}
	m := vendor.Module(r)
	b.take(t, m.Plan)
	t.Artifacts = m.Artifacts
	for _, a := range t.Artifacts {
		t.node.Outputs = append(t.node.Outputs, a.Path)
	}
	b.describe(t, t.Artifacts)
	if t.Embed != nil {
		b.embed(t)
	}
}

// checkEmits rejects kinds of the other vendor.
func (b *builder) checkEmits(t *target, emits []string) bool {
	ok := true
	for _, kind := range t.Emit {
		if !slices.Contains(emits, kind) {
			b.problems.Errorf(t.Attr("emit"), "It can emit "+strings.Join(emits, ", ")+".", "%s ships %s, of which there is no %s", t.Label, t.Vendor(), kind)
			ok = false
		}
	}
	return ok
}

// checkMixed rejects a fatbin of LTO-IR and other code. LTO-IR is compiled relocatable, and one
// command compiles both alike. Compiled in mode whole, LTO-IR lacks the functions that other code
// would call (12.4).
func (b *builder) checkMixed(t *target) {
	other := slices.Concat(t.Codes.SASS, t.Codes.PTX)
	if slices.Contains(t.Emit, "fatbin") && len(t.Codes.LTO) > 0 && len(other) > 0 {
		b.problems.Errorf(t.Attr("gencode"), "Emit the LTO-IR by a module of its own: what is loaded as it is, and what is linked first, are compiled differently.",
			"%s would hold %s and %s in one fatbin", t.Label, toolchain.Spell(other), toolchain.Spell(t.Codes.LTO))
	}
}

// describe plans the manifest of a module instance: modules/gemm.f16.64.json. Its head holds what
// is known at plan time; the rest is read from the artifacts. The action's arguments are the files
// with the symbols of LTO-IR, one for each such toolchain.Artifact.
func (b *builder) describe(t *target, arts []toolchain.Artifact) {
	if len(arts) == 0 {
		return // a problem was reported
	}
	out := b.build.Out("modules", t.InstanceName()+".json")
	m := b.known(t)
	a := &graph.Action{Kind: graph.Manifest, Name: path.Base(out), Mode: t.Mode, Argv: []string{"manifest"}, Outputs: []string{out}}
	var symbols []string
	for _, art := range arts {
		m.Artifacts = append(m.Artifacts, modinfo.Artifact{File: strings.TrimPrefix(art.Path, path.Dir(out)+"/"), Kind: art.Kind, Arch: art.Arch})
		a.Inputs = append(a.Inputs, art.Path)
		if art.Symbols != "" {
			a.Argv, symbols = append(a.Argv, art.Symbols), append(symbols, art.Symbols)
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
func (b *builder) known(t *target) modinfo.Manifest {
	m := modinfo.Manifest{
		Schema: modinfo.Schema, Module: t.Base, Variant: map[string]string{}, Mode: t.Mode,
		Options: b.moduleOptions(t), Partitions: b.partitions(t),
		Compiler: b.vendorOf(t).info.Compiler, HostCompiler: b.vendorOf(t).info.HostCompiler,
	}
	if m.Module == "" {
		m.Module = t.Name
	}
	for _, v := range t.Matrix {
		m.Variant[v.Name] = v.Value
	}
	return m
}

func (b *builder) moduleOptions(t *target) modinfo.Options {
	own := manifest.Source{Flags: &t.Flags}
	if i := slices.IndexFunc(t.Sources, func(s manifest.Source) bool { return s.Partition == "" }); i >= 0 {
		own = t.Sources[i]
	}
	f := t.FloatOptions()
	return modinfo.Options{
		Std: t.DeviceStd, Opt: b.vendorOf(t).info.Opt.Of(&t.Target, t.AnySource()), Defines: b.build.Local(toolchain.Defines(own.Defines)), Includes: b.build.Local(slices.Concat(t.Includes, t.PrivateIncludes)),
		ArchList: b.build.Local(toolchain.CodeNames(t.Gencode.ArchList)), FastMath: t.FastMath,
		FTZ: f.FTZ, PrecDiv: f.PrecDiv, PrecSqrt: f.PrecSqrt, FMAD: f.FMAD,
		MaxRegisters: t.MaxRegisters, Debug: t.Debug, DeviceDebug: t.DeviceDebug, LineInfo: t.LineInfo, Flags: vendors.Flags(b.build, own.Flags),
	}
}

// partitions returns the groups of sources with settings of their own, in order of their first
// source.
func (b *builder) partitions(t *target) []modinfo.Partition {
	var out []modinfo.Partition
	for _, s := range t.Sources {
		if s.Partition == "" {
			continue
		}
		i := slices.IndexFunc(out, func(p modinfo.Partition) bool { return p.Name == s.Partition })
		if i < 0 {
			i = len(out)
			out = append(out, modinfo.Partition{Name: s.Partition, Mode: s.Mode, Std: s.Std, Opt: b.vendorOf(t).info.Opt.Of(&t.Target, s), Defines: b.build.Local(toolchain.Defines(s.Defines)), Includes: b.build.Local(s.Includes), Flags: vendors.Flags(b.build, s.Flags)})
		}
		out[i].Sources = append(out[i].Sources, s.Path)
	}
	return out
}
