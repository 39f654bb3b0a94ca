package plan

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
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
