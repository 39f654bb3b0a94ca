package manifest

import (
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// decodeModule makes one target, or one for each instance of the matrix.
func (l *loader) decodeModule(b *block) {
	if b.body.Attributes["matrix"] == nil {
		if a := b.body.Attributes["exclude"]; a != nil {
			l.errorAt(a.NameRange, "Remove it, or add matrix = { axis = [...] }.", "exclude needs a matrix")
		}
		l.project.Targets = append(l.project.Targets, l.reader(b, nil).module())
		return
	}
	for _, inst := range l.matrices[b] {
		r := l.reader(b, map[string]cty.Value{"matrix": cty.ObjectVal(inst.values)})
		t := r.module()
		t.Name, t.Matrix = inst.name(b.name), inst.axes
		l.project.Targets = append(l.project.Targets, t)
	}
}

func (r *reader) module() *Target {
	t := r.newTarget(Module)
	r.compile(t)
	t.Sources = r.sources(t)
	t.Emit = r.emit()
	for _, n := range r.b.nested {
		if n.kind == "embed" {
			t.Embed = r.embed(n)
		}
	}
	return t
}

// emit reads what files a module ships; a fatbin unless it says otherwise.
func (r *reader) emit() []string {
	var out []string
	emits, seen := r.b.schema.Attribute("emit").Words, map[string]bool{}
	for _, it := range r.texts("emit") {
		switch {
		case !slices.Contains(emits, it.text):
			r.l.errorAt(it.rng, knownNames("kind", emits), "emit: %q is no kind of device code file%s", it.text, didYouMean(it.text, emits))
		case !seen[it.text]:
			seen[it.text] = true
			out = append(out, it.text)
		}
	}
	if len(out) == 0 {
		return []string{"fatbin"}
	}
	return out
}
