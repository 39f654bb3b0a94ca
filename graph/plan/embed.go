package plan

import (
	"path"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

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
