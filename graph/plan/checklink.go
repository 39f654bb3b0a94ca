package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

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
