package plan

import (
	"cmp"
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
	tc, ok := b.toolchain(t), true
	for _, kind := range t.Emit {
		if emits := tc.Info().Emits; !slices.Contains(emits, kind) {
			b.problems.Errorf(t.Attr("emit"), "It can emit "+strings.Join(emits, ", ")+".", "%s ships %s, of which there is no %s", t.Label, tc.Info().Code, kind)
			ok = false
		}
	}
	if !ok {
		return
	}
	// LTO-IR is compiled relocatable, and one command compiles all code alike. Compiled in mode whole,
	// LTO-IR lacks the functions that other code would call (12.4).
	if other := slices.Concat(t.Codes.SASS, t.Codes.PTX); slices.Contains(t.Emit, "fatbin") && len(t.Codes.LTO) > 0 && len(other) > 0 {
		b.problems.Errorf(t.Attr("gencode"), "Emit the LTO-IR by a module of its own: what is loaded as it is, and what is linked first, are compiled differently.",
			"%s would hold %s and %s in one fatbin", t.Label, toolchain.Spell(other), toolchain.Spell(t.Codes.LTO))
	}
	r := toolchain.ModuleRequest{Build: b.build, Sources: b.sources(t), Target: &t.Target}
	// The files of all other kinds are made from one source each.
	linked := func(kind string) bool { return kind != "ltoir" && kind != "bitcode" }
	if !tc.Info().NoModules && t.Mode != "whole" && len(t.Codes.Shipped()) > 0 && slices.ContainsFunc(t.Emit, linked) {
		b.compileAll(t)
		r.Inputs = b.linkInputs(t, b.walk.linkage(t))
	}
	m := tc.Module(r)
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

// describe plans the manifest of a module instance: modules/gemm.f16.64.json. Its head holds what
// is known at plan time; the rest is read from the artifacts. The action's arguments are the files
// with the symbols of LTO-IR, one for each such toolchain.Artifact.
func (b *builder) describe(t *target, arts []toolchain.Artifact) {
	if len(arts) == 0 {
		return // a problem was reported
	}
	out := b.build.Out("modules", t.InstanceName()+".json")
	info, floats, own := b.toolchain(t).Info(), t.FloatOptions(), manifest.Source{Flags: &t.Flags}
	if i := slices.IndexFunc(t.Sources, func(s manifest.Source) bool { return s.Partition == "" }); i >= 0 {
		own = t.Sources[i]
	}
	m := modinfo.Manifest{
		Schema: modinfo.Schema, Module: cmp.Or(t.Base, t.Name), Variant: map[string]string{}, Mode: t.Mode,
		Compiler: info.Compiler, HostCompiler: info.HostCompiler,
		Options: modinfo.Options{
			Std: t.DeviceStd, Opt: info.Opt.Of(&t.Target, t.AnySource()),
			Defines:  b.build.Local(toolchain.Defines(own.Defines)),
			Includes: b.build.Local(slices.Concat(t.Includes, t.PrivateIncludes)),
			ArchList: b.build.Local(toolchain.CodeNames(t.Gencode.ArchList)), FastMath: t.FastMath,
			FTZ: floats.FTZ, PrecDiv: floats.PrecDiv, PrecSqrt: floats.PrecSqrt, FMAD: floats.FMAD,
			MaxRegisters: t.MaxRegisters, Debug: t.Debug, DeviceDebug: t.DeviceDebug,
			LineInfo: t.LineInfo, Flags: vendors.Flags(b.build, own.Flags),
		},
	}
	for _, v := range t.Matrix {
		m.Variant[v.Name] = v.Value
	}
	for _, s := range t.Sources { // partitions, in order of their first source
		if s.Partition == "" {
			continue
		}
		i := slices.IndexFunc(m.Partitions, func(p modinfo.Partition) bool { return p.Name == s.Partition })
		if i < 0 {
			i = len(m.Partitions)
			m.Partitions = append(m.Partitions, modinfo.Partition{Name: s.Partition, Mode: s.Mode, Std: s.Std,
				Opt: info.Opt.Of(&t.Target, s), Defines: b.build.Local(toolchain.Defines(s.Defines)),
				Includes: b.build.Local(s.Includes), Flags: vendors.Flags(b.build, s.Flags)})
		}
		m.Partitions[i].Sources = append(m.Partitions[i].Sources, s.Path)
	}
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
