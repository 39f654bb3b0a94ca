package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Instancing: one block of a manifest may stand for several targets.
//
// A target is an instance of a block: the attributes of the block, the variables that they may use
// in addition to those of the project, and a label. for_each and matrix are two ways to write a
// list of instances; import is neither, as it adds a folder to the labels and paths of all blocks
// of a file (block.dir).
//
//	for_each  an element of a list of strings, or a key of a map: each.key and each.value.
//	          bench with the keys copy and scale has the targets bench:copy and bench:scale
//	matrix    a point of the product of lists: axes sorted by name, values in the written order,
//	          the last axis varying fastest; matrix.AXIS. gemm:dtype=f16,tile=64. exclude removes
//	          the points that match one of its objects in every axis that the object names
//
// A reference to a block refers to all its instances. bench["copy"] is one of them, and
// bench[local.k] one with a computed key.
//
// An attribute that uses each or matrix has a value for each instance, and no value of its own. All
// others are evaluated once. The instances of all blocks are known and counted before the first is
// decoded, which takes a hundred times as long; a block with neither attribute has one instance.

// instance is one instance of a block.
type instance struct {
	name   string               // behind the colon of the label; "" for the only instance
	axes   []MatrixValue        // of a matrix
	values map[string]cty.Value // each or matrix
}

// manifold returns the attribute that makes several instances of the block, or nil.
func (b *block) manifold() *hclsyntax.Attribute {
	for _, name := range []string{"for_each", "matrix"} {
		if b.schema.Attribute(name) != nil && b.body.Attributes[name] != nil {
			return b.body.Attributes[name]
		}
	}
	return nil
}

// hasEach reports whether the block has a for_each.
func (b *block) hasEach() bool { a := b.manifold(); return a != nil && a.Name == "for_each" }

// instances returns the instances of a block.
func (e *evaluator) instances(b *block) []instance {
	if list, ok := e.instancesOf[b]; ok {
		return list
	}
	list := []instance{{}}
	if a := b.manifold(); a != nil {
		switch f := e.field(b, a.Name, nil); {
		case f == nil:
			list = nil
		case a.Name == "for_each":
			list = f.forEach(b)
		default:
			list = f.matrix(b, e.field(b, "exclude", nil))
		}
		before := e.instanceCount
		if e.instanceCount += len(list); e.instanceCount > maxInstances {
			list = nil
			if before <= maxInstances {
				e.errorAt(a.Expr.Range(), "",
					"for_each and matrix have more than %d instances in this manifest", maxInstances)
			}
		}
	}
	e.instancesOf[b] = list
	return list
}

// forEach returns the instances of for_each; those of a map are sorted by key.
func (f *field) forEach(b *block) (list []instance) {
	var keys []string
	values := map[string]cty.Value{}
	switch {
	case isMap(f.val):
		values = f.val.AsValueMap()
		keys = sortedKeys(values)
	case isList(f.val):
		for _, it := range f.items() {
			keys, values[it.text] = append(keys, it.text), cty.StringVal(it.text)
		}
	default:
		f.wrong("a list of strings or a map")
		return nil
	}
	seen := map[string]bool{}
	for _, key := range keys {
		switch {
		case !targetName().MatchString(key):
			f.errorAt(f.keyRange(key), "Letters, digits and _ . + - may be used: keys become names of files.",
				"%q cannot be a key of for_each", key)
		case seen[key]:
			f.errorAt(f.rng, "", "for_each has %s twice", key)
		}
		seen[key] = true
		list = append(list, instance{name: key, values: map[string]cty.Value{"each": cty.ObjectVal(
			map[string]cty.Value{"key": cty.StringVal(key), "value": values[key]})}})
	}
	if len(list) == 0 {
		f.errorAt(f.rng, "Without an element there is nothing to build.",
			"for_each of %s is empty", b.heading())
	}
	return list
}

// matrix returns the instances of a matrix without those that x, if any, excludes.
func (f *field) matrix(b *block, x *field) []instance {
	if !isMap(f.val) {
		f.wrong("a map of lists, such as { tile = [64, 128] }")
		return nil
	}
	axes := f.val.AsValueMap()
	if len(axes) == 0 {
		f.errorAt(f.rng, "", "the matrix of %s has no axis", b.heading())
		return nil
	}
	list := []instance{{values: map[string]cty.Value{}}}
	for _, axis := range sortedKeys(axes) {
		values := f.axis(axis, axes[axis])
		if len(list)*len(values) > maxInstances {
			f.errorAt(f.rng, "", "the matrix of %s has more than %d instances", b.heading(),
				maxInstances)
			return nil
		}
		var product []instance
		for _, i := range list {
			for _, v := range values {
				text, _ := asText(v)
				q := instance{axes: append(slices.Clip(i.axes), MatrixValue{axis, text}),
					values: maps.Clone(i.values)}
				q.values[axis] = v
				q.name = strings.TrimPrefix(i.name+","+axis+"="+text, ",")
				product = append(product, q)
			}
		}
		list = product
	}
	if x != nil {
		list = x.exclude(b, list, sortedKeys(axes))
	}
	for i := range list {
		list[i].values = map[string]cty.Value{"matrix": cty.ObjectVal(list[i].values)}
	}
	return list
}

// axis checks the values of one axis.
func (f *field) axis(name string, v cty.Value) (out []cty.Value) {
	rng := f.keyRange(name)
	if !hclsyntax.ValidIdentifier(name) {
		f.errorAt(rng, "It is read as matrix.NAME.", "%q is not a name for an axis", name)
	}
	if !isList(v) {
		f.errorAt(rng, "", "the axis %s needs a list, not %s", name, typeName(v))
		return nil
	}
	seen := map[string]bool{}
	for _, value := range v.AsValueSlice() {
		s, ok := asText(value)
		switch {
		case !ok:
			f.errorAt(rng, "",
				"the axis %s needs strings, numbers or booleans, and one element is %s",
				name, typeName(value))
		case !targetName().MatchString(s) && !targetName().MatchString(strings.TrimPrefix(s, "-")):
			f.errorAt(rng, "Letters, digits and _ . + - may be used: values become parts of file names.",
				"%q cannot be a value of the axis %s", s, name)
		case seen[s]:
			f.errorAt(rng, "", "the axis %s has the value %s twice", name, s)
		default:
			seen[s] = true
			out = append(out, value)
		}
	}
	if isEmpty(v) {
		f.errorAt(rng, "", "the axis %s has no value", name)
	}
	return out
}

// exclude drops instances. An object that drops nothing is reported, since it is probably a
// mistake. Values are compared as texts: 128 and "128" yield the same name.
func (f *field) exclude(b *block, list []instance, axes []string) []instance {
	before := len(list)
	for i, object := range f.elements("objects") {
		rng := f.rng
		if t, ok := f.expr.(*hclsyntax.TupleConsExpr); ok && i < len(t.Exprs) {
			rng = t.Exprs[i].Range()
		}
		if !isMap(object) || len(object.AsValueMap()) == 0 {
			f.errorAt(rng, "",
				"exclude needs objects such as { tile = 128 }, and one element is %s", typeName(object))
			continue
		}
		want, known, comparable := map[string]string{}, true, true
		for _, key := range sortedKeys(object.AsValueMap()) {
			if !slices.Contains(axes, key) {
				f.unknown(rng, "axis", key, axes, "the matrix of %s has no axis %q", b.heading(), key)
				known = false
			}
			text, ok := asText(object.AsValueMap()[key])
			want[key], comparable = text, comparable && ok
		}
		n := len(list)
		differs := func(a MatrixValue) bool { text, ok := want[a.Name]; return ok && text != a.Value }
		if known && comparable {
			list = slices.DeleteFunc(list, func(i instance) bool {
				return !slices.ContainsFunc(i.axes, differs)
			})
		}
		if known && len(list) == n {
			d := f.at(rng, "", "this exclude matches no instance of "+b.heading())
			d.Severity = Warning
			f.add(d)
		}
	}
	if before > 0 && len(list) == 0 {
		f.errorAt(f.rng, "", "exclude leaves no instance of %s", b.heading())
	}
	return list
}

// allInstances is the suffix of the address of all instances of a block as a map.
const allInstances = "\x00[]"

// hasInstance reports an error if the for_each of a block does not have the key of t.
func (e *evaluator) hasInstance(t *target, rng hcl.Range) bool {
	name, key, one := strings.Cut(t.name, ":")
	if !one {
		return true
	}
	var keys []string
	for _, i := range e.instances(e.named[t.kind+"."+name]) {
		keys = append(keys, i.name)
	}
	if slices.Contains(keys, key) {
		return true
	} else if keys == nil { // its for_each is reported
		return false
	}
	summary, detail := noInstance(t.kind+"."+name, key, keys)
	return e.errorAt(rng, detail, "%s", summary)
}

// noInstance describes a key that the for_each of a block does not have.
func noInstance(label, key string, keys []string) (summary, detail string) {
	return fmt.Sprintf("for_each of %s has no %q%s", label, key, didYouMean(key, keys)),
		knownNames("key", keys)
}

// unknownKey describes a computed key that the for_each of a block does not have; ok is false if h
// is another error.
func unknownKey(h *hcl.Diagnostic) (summary, detail string, ok bool) {
	index, ok := h.Expression.(*hclsyntax.IndexExpr)
	if !ok || h.Summary != "Invalid index" {
		return "", "", false
	}
	all, ok := index.Collection.(*hclsyntax.ScopeTraversalExpr)
	if !ok || !strings.HasSuffix(all.Traversal.RootName(), allInstances) {
		return "", "", false
	}
	refs, diags := all.Value(h.EvalContext)
	key, more := index.Key.Value(h.EvalContext)
	name, err := convert.Convert(key, cty.String)
	if diags.HasErrors() || more.HasErrors() || err != nil || !name.IsKnown() || name.IsNull() {
		return "", "", false
	}
	label := strings.TrimSuffix(all.Traversal.RootName(), allInstances)
	summary, detail = noInstance(label, name.AsString(), sortedKeys(refs.AsValueMap()))
	return summary, detail, true
}
