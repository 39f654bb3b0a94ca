package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// checkLinks plans the links that --check-link requests.
func (b *builder) checkLinks() {
	c := b.options.CheckLink
	if c == nil {
		return
	}
	names := b.named(c.Modules)
	for _, t := range b.order {
		emits := t.Kind == manifest.Module && slices.Contains(t.Emit, "ltoir")
		switch named := t.isNamed(names); {
		case t.unbuilt != "" || !named && len(c.Modules) > 0:
		case emits:
			b.checkModule(t, c.Archs)
		case named:
			b.problems.Errorf(t.Attr("emit"), `Add "ltoir" to the emit of a module, or leave it out of --check-link.`, "%s has no LTO-IR to link for %s", t.Label, toolchain.Spell(c.Archs))
		}
	}
}

// named returns the set of given names, with the labels of the targets in each named group.
func (b *builder) named(names []string) map[string]bool {
	out := map[string]bool{}
	for _, name := range names {
		out[name] = true
	}
	for _, group := range b.project.Groups {
		if !slices.Contains(names, group.Name) && !slices.Contains(names, "group."+group.Name) {
			continue
		}
		for _, d := range group.Targets {
			out[d.Label] = true
		}
	}
	return out
}

// isNamed reports whether names contains t, by itself or as an instance of a matrix.
func (t *target) isNamed(names map[string]bool) bool {
	return names[t.Label] || names[t.Name] || names[t.Base] || names[string(t.Kind)+"."+t.Base]
}

// checkModule plans the links of one module with the modules that it depends on.
func (b *builder) checkModule(t *target, archs []gencode.Code) {
	r := toolchain.CheckRequest{Build: b.build, Target: &t.Target, Archs: archs}
	for _, u := range append([]*target{t}, b.walk.closure(t)...) {
		if u.Kind == manifest.Module && slices.Contains(u.Emit, "ltoir") && agree(t, u) {
			r.Inputs = append(r.Inputs, toolchain.LinkInput{Target: &u.Target, LTO: true})
		}
		if p, ok := b.linkInputOf(t, &u.Target); ok && u.Kind == manifest.Prebuilt {
			r.Inputs = append(r.Inputs, p)
		}
	}
	c := b.vendorOf(t).Check(r)
	b.take(t, c.Plan)
	t.node.Checks = append(t.node.Checks, c.Outputs...)
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
