package manifest

import (
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Phase three: values in the order of their dependencies. Everything that an expression refers to
// is a node, which is computed once, at its first use. If a node is used again while it is being
// computed, there is a cycle, and the stack is its path.

// evaluator evaluates the expressions of a manifest.
type evaluator struct {
	*catalog
	nodes map[string]*node // everything that is referred to, by address
	path  []*node          // nodes under evaluation, for cycles
	ctx   *hcl.EvalContext // functions, and the values of nodes by address
	refs  map[hclsyntax.Expression]*references

	instancesOf   map[*block][]instance
	instanceCount int
	outputsOf     map[*block]outputs // of generate blocks
}

// node is something with a value: var.x, local.y, gencode.server.code, library.solver.sources.
type node struct {
	addr  string
	rng   hcl.Range
	state nodeState

	expr  hclsyntax.Expression // of a local value, or of an attribute that is set
	block *block               // of a variable, an attribute, or all instances
	attr  string               // "" for a variable and for all instances
	view  bool                 // paths are relative to dir, not to the folder of the block
	dir   string

	// of a variable
	typ    cty.Type
	source string    // as Variable.Source
	setAt  hcl.Range // the effective value, or the block
}

type nodeState int

const (
	untouched nodeState = iota
	running
	known
)

// dot is behind the address of a block in that of an attribute. The zero byte distinguishes the
// attribute `sources` of a target "a" from a target "a.sources"; shown removes it.
const dot = "\x00."

// viewed separates the address of an attribute from the folder that its paths are relative to.
const viewed = "\x00\x00"

func shown(addr string) string {
	addr, _, _ = strings.Cut(addr, viewed)
	return strings.ReplaceAll(addr, "\x00", "")
}

// target is a reference to a whole block: library.solver, gencode.server.
type target struct{ kind, name string }

func (t *target) label() string { return t.kind + "." + t.name }

// referenceType is the type of references to whole blocks in expressions. Such a reference does not
// evaluate the block, so deps = [library.a] depends on no attribute of library.a.
var referenceType = cty.Capsule("reference", reflect.TypeFor[target]())

// declare creates the nodes of variables and local values. Those of attributes are created when a
// reference to them is resolved.
func (e *evaluator) declare() {
	for _, b := range e.blocks {
		switch b.kind {
		case "variable":
			e.declareVariable(b)
		case "locals":
			for _, a := range b.attrs() {
				addr := "local." + path.Join(b.dir, a.Name)
				if first := e.nodes[addr]; first != nil {
					e.bothAt(a.NameRange, first.rng, "first here", "", "%s is declared twice", addr)
					continue
				}
				e.names["local"] = append(e.names["local"], path.Join(b.dir, a.Name))
				e.nodes[addr] = &node{addr: addr, rng: a.NameRange, expr: a.Expr}
			}
		}
	}
}

// attribute returns the node of an attribute.
func (e *evaluator) attribute(b *block, name string) *node {
	n := e.node(node{addr: b.key() + dot + name, rng: b.rng, block: b, attr: name})
	if a := b.body.Attributes[name]; a != nil && n.expr == nil {
		n.rng, n.expr = a.NameRange, a.Expr
		e.refsOf(a.Expr).node = n
	}
	return n
}

// node returns the node with the address of n, which is n if there is none yet.
func (e *evaluator) node(n node) *node {
	if e.nodes[n.addr] == nil {
		e.nodes[n.addr] = &n
	}
	return e.nodes[n.addr]
}

// view returns the node of an attribute with paths relative to dir.
func (e *evaluator) view(b *block, name, dir string) *node {
	n := e.attribute(b, name)
	if b.dir == dir || !b.schema.Attribute(name).path {
		return n
	}
	return e.node(
		node{addr: n.addr + viewed + dir, rng: b.rng, block: b, attr: name, view: true, dir: dir})
}

// whole returns the node of a block, or of one of its instances. Its value is a reference.
func (e *evaluator) whole(kind, name string) *node {
	addr := kind + "." + name
	e.ctx.Variables[addr] = cty.CapsuleVal(referenceType, &target{kind, name})
	return &node{addr: addr}
}

// compute evaluates a node. An attribute that is not set has the value from `defaults`, or null.
func (e *evaluator) compute(n *node) cty.Value {
	switch b := n.block; {
	case b == nil:
		return e.eval(n.expr, nil)
	case b.kind == "variable":
		return e.variableValue(n)
	case n.attr == "":
		refs := map[string]cty.Value{} // for a computed key: executable.bench[local.k]
		for _, i := range e.instances(b) {
			refs[i.name] = cty.CapsuleVal(referenceType, &target{b.kind, b.name + ":" + i.name})
		}
		if len(refs) == 0 { // its for_each is reported
			return cty.DynamicVal
		}
		return cty.ObjectVal(refs)
	case n.view:
		return rebased(e.value(e.attribute(b, n.attr)), b.dir, n.dir)
	case b.kind == "generate" && n.attr == "outputs":
		return e.outputPaths(b)
	case n.expr != nil:
		return e.eval(n.expr, e.self(b, n.expr))
	default:
		d := e.defaultsFor(b, n.attr)
		if d == nil {
			return cty.NullVal(cty.DynamicPseudoType)
		}
		v := e.value(e.attribute(d, n.attr))
		if b.schema.Attribute(n.attr).path {
			v = rebased(v, d.dir, b.dir)
		}
		return v
	}
}

// value returns the value of a node. It is unknown if evaluation failed; the error was reported.
func (e *evaluator) value(n *node) cty.Value {
	if v, ok := e.ctx.Variables[n.addr]; ok {
		return v
	}
	if n.state == running {
		e.cycle(n)
		return cty.DynamicVal
	}
	n.state = running
	e.path = append(e.path, n)
	v := e.compute(n)
	e.path = e.path[:len(e.path)-1]
	if n.state == running {
		n.state = known
	} else {
		v = cty.DynamicVal // part of a cycle
	}
	e.ctx.Variables[n.addr] = v
	return v
}

// cycle reports the path from n back to n. It gives every node on the path an unknown value, so
// that the cycle is reported once.
func (e *evaluator) cycle(n *node) {
	loop := e.path[slices.Index(e.path, n):]
	var steps []string
	for _, m := range append(slices.Clone(loop), n) {
		steps = append(steps, shown(m.addr)+" ("+position(m.rng).String()+")")
	}
	for _, m := range loop {
		m.state = known
	}
	e.errorAt(n.rng, strings.Join(steps, "\n  needs "), "%s needs its own value", shown(n.addr))
}

// eval evaluates an expression after its dependencies. values are additional variables: matrix,
// each or self. An expression that uses none of these is evaluated once.
func (e *evaluator) eval(expr hclsyntax.Expression, values map[string]cty.Value) cty.Value {
	r := e.refsOf(expr)
	switch {
	case !r.resolved:
		panic("BUG: expression at " + expr.Range().String() + " was not resolved")
	case r.own && values == nil:
		return cty.DynamicVal // the caller has no instance; singleValue reports that
	case r.own:
		ctx := e.ctx.NewChild()
		ctx.Variables = values
		return e.evalIn(expr, r, ctx)
	case !r.evaluated:
		r.value, r.evaluated = e.evalIn(expr, r, e.ctx), true
	}
	return r.value
}

func (e *evaluator) evalIn(
	expr hclsyntax.Expression, r *references, ctx *hcl.EvalContext,
) cty.Value {
	if r.bad {
		return cty.DynamicVal
	}
	for _, n := range r.nodes {
		if !e.singleValue(n, r) {
			return cty.DynamicVal
		}
		e.value(n)
		if _, known := e.ctx.Variables[n.addr]; !known {
			return cty.DynamicVal // part of a cycle
		}
	}
	v, diags := expr.Value(ctx)
	e.addHCL(diags)
	if diags.HasErrors() {
		return cty.DynamicVal
	}
	return v
}

// singleValue reports a reference to an attribute whose value differs between instances.
func (e *evaluator) singleValue(n *node, r *references) bool {
	if n.block == nil || n.attr == "" || n.attr == "command" {
		return true
	}
	own := e.attribute(n.block, n.attr)
	if own.expr == nil || !e.refsOf(own.expr).own {
		return true
	}
	return e.errorAt(r.places[n.addr], "It differs between the instances: it uses matrix or each.",
		"%s has no single value", shown(n.addr))
}

// attributeValue returns the value of an attribute for an instance of its block.
func (e *evaluator) attributeValue(
	b *block, a *hclsyntax.Attribute, values map[string]cty.Value,
) cty.Value {
	r := e.refsOf(a.Expr)
	if n := r.node; n != nil && !r.own && !(b.kind == "generate" && a.Name == "outputs") {
		return e.value(n)
	}
	if values == nil {
		values = e.self(b, a.Expr)
	}
	return e.eval(a.Expr, values)
}

// find returns an attribute of a block, or that of `defaults` and the block of that.
func (e *evaluator) find(b *block, name string) (*hclsyntax.Attribute, *block) {
	a, headers := b.body.Attributes[name], b.headerOnly()
	if a != nil && (!headers || slices.Contains(passedOn, name)) {
		return a, b
	}
	if headers && name != "includes" && name != "labels" {
		return nil, nil // its dependents have their own defaults
	}
	if d := e.defaultsFor(b, name); d != nil && d.body.Attributes[name] != nil {
		return d.body.Attributes[name], d
	}
	return nil, nil
}

// field returns the value of an attribute for an instance, or nil if it is not set, null or
// unknown.
func (e *evaluator) field(b *block, name string, values map[string]cty.Value) *field {
	if a, of := e.find(b, name); a != nil {
		return e.valueOf(b, b.schema.Attribute(name), a, of, values)
	}
	return nil
}

// valueOf returns the value for b of an attribute of b, or of the block whose value b inherits.
func (e *evaluator) valueOf(
	b *block, row *Attribute, a *hclsyntax.Attribute, of *block, values map[string]cty.Value,
) *field {
	v := e.attributeValue(of, a, values)
	if row.path && of != b {
		v = rebased(v, of.dir, b.dir)
	}
	if !v.IsWhollyKnown() || v.IsNull() {
		return nil
	}
	return &field{e.reports, row, a.Expr.Range(), a.Expr, v}
}

// evaluateAll also finds the errors in values that no target uses.
func (e *evaluator) evaluateAll() {
	for _, addr := range sortedKeys(e.nodes) {
		e.value(e.nodes[addr])
	}
	for _, key := range sortedKeys(e.named) {
		b := e.named[key]
		if !isTarget(b.kind) && b.kind != "gencode" && b.kind != "test" {
			continue
		}
		for _, a := range b.attrs() {
			if b.schema.Attribute(a.Name) != nil {
				e.attributeValue(b, a, nil)
			}
		}
	}
}
