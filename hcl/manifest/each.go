package manifest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// for_each creates an executable, a library or a test for each element of a list of strings or a
// map. The element or map key is each.key, and the map value is each.value. bench with the keys
// copy and scale has the targets bench:copy and bench:scale, and a reference to bench refers to
// both.

// each is one element of for_each.
type each struct {
	key   string
	value cty.Value
}

// values returns the variables that the attributes of the instance can use.
func (e each) values() map[string]cty.Value {
	return map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(e.key), "value": e.value})}
}

// collectEach evaluates all for_each attributes before any block is decoded, since references to
// instances are checked against their keys.
func (l *loader) collectEach() {
	l.each = map[*block][]each{}
	sum := 0
	for _, b := range l.blocks {
		a := b.body.Attributes["for_each"]
		if !b.hasEach() {
			continue
		}
		l.each[b] = l.reader(b, nil).forEach()
		if sum += len(l.each[b]); sum > maxInstances {
			l.errorAt(a.Expr.Range(), "", "for_each makes more than %d instances in this manifest", maxInstances)
			clear(l.each)
			return
		}
	}
}

// forEach reads the elements; those of a map are sorted by key.
func (r *reader) forEach() (list []each) {
	f := r.field("for_each")
	if f == nil {
		return nil
	}
	switch {
	case isMap(f.val):
		values := f.val.AsValueMap()
		for _, key := range sortedKeys(values) {
			list = append(list, each{key, values[key]})
		}
	case isList(f.val):
		for _, it := range r.items(f) {
			list = append(list, each{it.text, cty.StringVal(it.text)})
		}
	default:
		r.wrong(f, "a list of strings or a map")
		return nil
	}
	seen := map[string]bool{}
	for _, e := range list {
		switch {
		case !targetName().MatchString(e.key):
			r.l.errorAt(f.keyRange(e.key), "Letters, digits and _ . + - may be used: keys become names of files.", "%q cannot be a key of for_each", e.key)
		case seen[e.key]:
			r.l.errorAt(f.rng, "", "for_each has %s twice", e.key)
		}
		seen[e.key] = true
	}
	if len(list) == 0 {
		r.l.errorAt(f.rng, "Without an element there is nothing to build.", "for_each of %s is empty", r.b.heading())
	}
	return list
}

// hasEach reports whether the block has a for_each.
func (b *block) hasEach() bool {
	return b.schema.Attribute("for_each") != nil && b.body.Attributes["for_each"] != nil
}

// instances reads a block once for each element of its for_each, or once without for_each.
func (l *loader) instances(b *block, read func(r *reader, e each)) {
	if !b.hasEach() {
		read(l.reader(b, nil), each{})
		return
	}
	for _, e := range l.each[b] {
		read(l.reader(b, e.values()), e)
	}
}

// named sets the name of an instance. Its output file is named after the key unless output_name is
// set.
func (e each) named(t *Target, b *block) *Target {
	if e.key == "" {
		return t
	}
	t.Name, t.Each = b.name+":"+e.key, e.key
	if b.body.Attributes["output_name"] == nil {
		t.OutputName = path.Join(b.dir, e.key)
	}
	return t
}

// instances is the suffix of the address of all instances of a block as a map.
const instances = "\x00[]"

// unknownKey describes a computed key that the for_each of a block does not have; ok is false if h
// is another error.
func unknownKey(h *hcl.Diagnostic) (summary, detail string, ok bool) {
	index, ok := h.Expression.(*hclsyntax.IndexExpr)
	if !ok || h.Summary != "Invalid index" {
		return "", "", false
	}
	all, ok := index.Collection.(*hclsyntax.ScopeTraversalExpr)
	if !ok || !strings.HasSuffix(all.Traversal.RootName(), instances) {
		return "", "", false
	}
	refs, diags := all.Value(h.EvalContext)
	key, more := index.Key.Value(h.EvalContext)
	name, err := convert.Convert(key, cty.String)
	if diags.HasErrors() || more.HasErrors() || err != nil || !name.IsKnown() || name.IsNull() {
		return "", "", false
	}
	keys := slices.Sorted(maps.Keys(refs.AsValueMap()))
	summary, detail = noInstance(strings.TrimSuffix(all.Traversal.RootName(), instances), name.AsString(), keys)
	return summary, detail, true
}

// noInstance describes a key that the for_each of a block does not have.
func noInstance(label, key string, keys []string) (summary, detail string) {
	return fmt.Sprintf("for_each of %s has no %q%s", label, key, didYouMean(key, keys)), knownNames("key", keys)
}

// byKey returns the address of the instances of a block as a map, for a computed key:
// executable.bench[local.k].
func (l *loader) byKey(b *block) string {
	addr := b.key() + instances
	l.nodes[addr] = &node{addr: addr, rng: b.rng, compute: func() cty.Value {
		list := l.each[b]
		if list == nil { // evaluated for another for_each, before collectEach got here
			list = l.reader(b, nil).forEach()
		}
		refs := map[string]cty.Value{}
		for _, e := range list {
			refs[e.key] = cty.CapsuleVal(referenceType, &target{b.kind, b.name + ":" + e.key})
		}
		return cty.ObjectVal(refs)
	}}
	return addr
}

func (r *resolver) each(n *hclsyntax.ScopeTraversalExpr) {
	b := r.scope.block
	switch name, rng, ok := step(n.Traversal, 1); {
	case b == nil || !b.hasEach():
		r.fail(n.SrcRange, "Give the block an attribute for_each = [...], if it is an executable, a library or a test. For modules there is matrix.", "each is known only in a block that has for_each")
	case r.scope.attr == "for_each":
		r.fail(n.SrcRange, "", "each is not known in the attribute for_each")
	case ok && name != "key" && name != "value":
		r.fail(rng, "Known: key, value.", "each has no %q%s", name, didYouMean(name, []string{"key", "value"}))
	default:
		r.refs.matrix = true
	}
}
