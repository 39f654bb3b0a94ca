package plan

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
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

// An embedded module is a table of its artifacts in an object file:
//
//	gemm.f16.sm_80.cubin --\
//	gemm.f16.compute_80.ptx -> embed -> gemm_table.c -> cc -> gemm_table.o
//	gemm.f32.sm_80.cubin --/         \> gemm_table.h, which users include
//
// The source is C, so that the compiler lays out the table for every processor and checks it
// against the header. The bytes come in by .incbin, whose compile time does not grow with their
// number.

// embed plans one object and one header with the artifacts of all instances of a module. The last
// instance plans them, because embed belongs to the block and not to an instance.
func (b *builder) embed(t *target) {
	group := b.instances(string(t.Kind) + "." + t.Base)
	if len(group) == 0 {
		group = []*target{t}
	}
	if t != group[len(group)-1] {
		return
	}
	if b.facts.CC.Path == "" {
		b.problems.Errorf(t.Embed.Pos, b.facts.CC.Error, "no C compiler to embed %s", t.Label)
		return
	}
	symbol := t.Embed.Symbol
	dir := b.build.Out(fileset.GenDir, "module."+fileset.Flat(t.Base))
	source, header := path.Join(dir, symbol+".c"), path.Join(dir, symbol+".h")
	object := b.build.Out("obj", "module."+fileset.Flat(t.Base), symbol+".o")
	argv, inputs := embedArgs(symbol, group)
	b.emit(t, &graph.Action{Kind: graph.Embed, Name: symbol, Argv: argv, Inputs: inputs, Outputs: []string{source, header}})
	b.emit(t, &graph.Action{Kind: graph.HostCompile, Name: path.Base(source),
		Argv: host.Compile(b.facts.CC.Path, source, object, object+".d", "", host.Options{
			PIC: true, // the table is addresses, which the dynamic linker may fill in
		}),
		Inputs: append([]string{source, header}, inputs...), Outputs: []string{object}, Depfile: object + ".d", Tools: []string{"cc"}})
	t.node.Outputs = append(t.node.Outputs, object, header)
	for _, u := range group {
		u.headers, u.include = []string{header}, []string{dir}
	}
	t.embeds = []string{object}
}

// embedArgs returns the arguments of an Embed action, the symbol and five words for each toolchain.Artifact,
// and the files that it reads.
func embedArgs(symbol string, group []*target) (argv, inputs []string) {
	argv = []string{"embed", symbol}
	for _, u := range group {
		for _, a := range u.Artifacts {
			argv = append(argv, strings.TrimPrefix(u.Name[len(u.Base):], ":"), a.Source, a.Arch, a.Kind, a.Path)
			inputs = append(inputs, a.Path)
		}
	}
	return argv, inputs
}

// checkEmbeds rejects two modules with one symbol among the dependencies of t, even those of its
// shared libraries. The dynamic linker would bind the whole program to one of the two tables, and
// an include would find one of the two headers.
func (b *builder) checkEmbeds(t *target) {
	first := map[string]*target{}
	for _, m := range b.walk.exporters(t) {
		if m.Embed == nil {
			continue
		}
		other := first[m.Embed.Symbol]
		if other == nil {
			first[m.Embed.Symbol] = m
		} else if other.Base != m.Base {
			b.problems.Bothf(m.Embed.Pos, other.Embed.Pos, "the other one, of module."+other.Base, "Give each embed its own symbol.",
				"%s would hold two tables called %s", t.Label, m.Embed.Symbol)
		}
	}
}

// checkLinks plans the links that --check-link requests.
func (b *builder) checkLinks() {
	c := b.options.CheckLink
	if c == nil {
		return
	}
	names := map[string]bool{} // also the targets of each group
	for _, name := range c.Modules {
		names[name] = true
	}
	for _, group := range b.project.Groups {
		for _, d := range group.Targets {
			names[d.Label] = names[d.Label] || slices.Contains(c.Modules, group.Name) || slices.Contains(c.Modules, "group."+group.Name)
		}
	}
	for _, t := range b.order {
		emits := t.Kind == manifest.Module && slices.Contains(t.Emit, "ltoir")
		switch named := names[t.Label] || names[t.Name] || names[t.Base] || names[string(t.Kind)+"."+t.Base]; {
		case t.unbuilt != "" || !named && len(c.Modules) > 0:
		case emits: // linked with the modules that it depends on
			r := toolchain.CheckRequest{Build: b.build, Target: &t.Target, Archs: c.Archs}
			for _, u := range append([]*target{t}, b.walk.closure(t)...) {
				if u.Kind == manifest.Module && slices.Contains(u.Emit, "ltoir") && agree(t, u) {
					r.Inputs = append(r.Inputs, toolchain.LinkInput{Target: &u.Target, LTO: true})
				}
				if p, ok := linkInputOf(b.toolchain(t), &u.Target); ok && u.Kind == manifest.Prebuilt {
					r.Inputs = append(r.Inputs, p)
				}
			}
			checked := b.toolchain(t).Check(r)
			b.take(t, checked.Plan)
			t.node.Checks = append(t.node.Checks, checked.Outputs...)
		case named:
			b.problems.Errorf(t.Attr("emit"), `Add "ltoir" to the emit of a module, or leave it out of --check-link.`, "%s has no LTO-IR to link for %s", t.Label, toolchain.Spell(c.Archs))
		}
	}
}

// agree reports whether two matrix instances have equal values in the axes that both have. If a
// module depends on one with the same axes, each instance is linked with its counterpart.
func agree(t, u *target) bool {
	for _, a := range t.Matrix {
		for _, b := range u.Matrix {
			if a.Name == b.Name && a.Value != b.Value {
				return false
			}
		}
	}
	return true
}
