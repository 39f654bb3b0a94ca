package manifest

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// A matrix is a map of lists. Its instances are the product: axes sorted by name, values in the
// written order, the last axis varying fastest. exclude removes the instances that match one of its
// objects in every axis that the object names.

// instance is one point of a matrix.
type instance struct {
	axes   []MatrixValue
	values map[string]cty.Value
}

// name returns for example gemm:dtype=f16,tile=64.
func (i instance) name(base string) string {
	var parts []string
	for _, a := range i.axes {
		parts = append(parts, a.Name+"="+a.Value)
	}
	return base + ":" + strings.Join(parts, ",")
}

// collectMatrices computes and counts the instances of all modules before it reads any of them,
// which takes a hundred times as long.
func (l *loader) collectMatrices() {
	l.matrices = map[*block][]instance{}
	sum := 0
	for _, b := range l.blocks {
		a := b.body.Attributes["matrix"]
		if b.kind != "module" || a == nil {
			continue
		}
		l.matrices[b] = l.matrix(b)
		if sum += len(l.matrices[b]); sum > maxInstances {
			l.errorAt(a.Expr.Range(), "", "the modules of this manifest have more than %d instances", maxInstances)
			clear(l.matrices)
			return
		}
	}
}

func (l *loader) matrix(b *block) []instance {
	r := l.reader(b, nil)
	f := r.field("matrix")
	if f == nil {
		return nil
	}
	if !isMap(f.val) {
		r.wrong(f, "a map of lists, such as { tile = [64, 128] }")
		return nil
	}
	axes := f.val.AsValueMap()
	if len(axes) == 0 {
		l.errorAt(f.rng, "", "the matrix of %s has no axis", b.heading())
		return nil
	}
	points := []instance{{values: map[string]cty.Value{}}}
	for _, name := range sortedKeys(axes) {
		values := r.axis(f, name, axes[name])
		if len(points)*len(values) > maxInstances {
			l.errorAt(f.rng, "", "the matrix of %s has more than %d instances", b.heading(), maxInstances)
			return nil
		}
		points = multiply(points, name, values)
	}
	return r.exclude(points, sortedKeys(axes))
}

func multiply(points []instance, axis string, values []cty.Value) []instance {
	var out []instance
	for _, p := range points {
		for _, v := range values {
			s, _ := asText(v)
			q := instance{axes: append(slices.Clone(p.axes), MatrixValue{axis, s}), values: map[string]cty.Value{axis: v}}
			maps.Copy(q.values, p.values)
			out = append(out, q)
		}
	}
	return out
}

// axis checks the values of one axis.
func (r *reader) axis(f *field, name string, v cty.Value) []cty.Value {
	rng := f.keyRange(name)
	if !hclsyntax.ValidIdentifier(name) {
		r.l.errorAt(rng, "It is read as matrix.NAME.", "%q is no name for an axis", name)
	}
	if !isList(v) {
		r.l.errorAt(rng, "", "the axis %s needs a list, not %s", name, typeName(v))
		return nil
	}
	var out []cty.Value
	seen := map[string]bool{}
	for _, e := range v.AsValueSlice() {
		s, ok := asText(e)
		switch {
		case !ok:
			r.l.errorAt(rng, "", "the axis %s needs strings, numbers or booleans, and one element is %s", name, typeName(e))
		case !targetName().MatchString(s) && !targetName().MatchString(strings.TrimPrefix(s, "-")):
			r.l.errorAt(rng, "Letters, digits and _ . + - may be used: values become parts of file names.", "%q cannot be a value of the axis %s", s, name)
		case seen[s]:
			r.l.errorAt(rng, "", "the axis %s has the value %s twice", name, s)
		default:
			seen[s] = true
			out = append(out, e)
		}
	}
	if isEmpty(v) {
		r.l.errorAt(rng, "", "the axis %s has no value", name)
	}
	return out
}

// exclude drops instances. An object that drops nothing is reported, since it is probably a
// mistake.
func (r *reader) exclude(points []instance, axes []string) []instance {
	f := r.field("exclude")
	if f == nil {
		return points
	}
	before := len(points)
	for i, e := range r.elements(f, "objects") {
		rng := elementRange(f, i)
		if !isMap(e) || len(e.AsValueMap()) == 0 {
			r.l.errorAt(rng, "", "exclude needs objects such as { tile = 128 }, and one element is %s", typeName(e))
			continue
		}
		if !r.knownAxes(e, rng, axes) {
			continue
		}
		n := len(points)
		if want, ok := texts(e); ok {
			points = slices.DeleteFunc(points, func(p instance) bool { return p.agrees(want) })
		}
		if len(points) == n {
			r.l.warnAt(rng, "", "this exclude matches no instance of %s", r.b.heading())
		}
	}
	if before > 0 && len(points) == 0 {
		r.l.errorAt(f.rng, "", "exclude leaves no instance of %s", r.b.heading())
	}
	return points
}

func (r *reader) knownAxes(e cty.Value, rng hcl.Range, axes []string) bool {
	ok := true
	for _, key := range sortedKeys(e.AsValueMap()) {
		if !slices.Contains(axes, key) {
			r.l.errorAt(rng, knownNames("axis", axes), "the matrix of %s has no axis %q%s", r.b.heading(), key, didYouMean(key, axes))
			ok = false
		}
	}
	return ok
}

// agrees compares texts: 128 and "128" are the same value, since they yield the same name.
func (i instance) agrees(want map[string]string) bool {
	return !slices.ContainsFunc(i.axes, func(a MatrixValue) bool { text, ok := want[a.Name]; return ok && text != a.Value })
}

// texts returns the values of an object. ok is false if one of them cannot be the value of an axis.
func texts(e cty.Value) (out map[string]string, ok bool) {
	out = map[string]string{}
	for key, v := range e.AsValueMap() {
		if out[key], ok = asText(v); !ok {
			return nil, false
		}
	}
	return out, true
}

// elementRange returns the range of element i of a list literal.
func elementRange(f *field, i int) hcl.Range {
	if t, ok := f.expr.(*hclsyntax.TupleConsExpr); ok && i < len(t.Exprs) {
		return t.Exprs[i].Range()
	}
	return f.rng
}
