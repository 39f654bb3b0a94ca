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

// Phase three: values in the order of their dependencies. Everything that has a value is a node,
// which is computed once at its first use. If a node is used again while it is being computed,
// there is a cycle, and the stack is its path.

// node is something with a value: var.x, local.y, gencode.server.code, library.solver.sources.
type node struct {
	addr    string
	rng     hcl.Range
	expr    hclsyntax.Expression // nil if compute is set
	compute func() cty.Value
	state   nodeState
}

type nodeState int

const (
	untouched nodeState = iota
	running
	known
)

// attrAddr returns the address of an attribute. The zero byte distinguishes the attribute `sources`
// of a target "a" from a target "a.sources"; shown removes it.
func attrAddr(key, attr string) string { return key + "\x00." + attr }

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

// declare creates a node for everything that can be referenced, and sets the value of whole blocks.
func (l *loader) declare() {
	l.ctx.Variables = map[string]cty.Value{}
	for _, b := range l.blocks {
		switch {
		case b.kind == "variable":
			l.declareVariable(b)
		case b.kind == "locals":
			l.declareLocals(b)
		case b.kind == "test":
			l.declareAttrs(b)
		case b.kind == "group":
			l.ctx.Variables[b.key()] = cty.CapsuleVal(referenceType, &target{b.kind, b.name})
		case b.kind == "gencode" || isTarget(b.kind):
			l.ctx.Variables[b.key()] = cty.CapsuleVal(referenceType, &target{b.kind, b.name})
			l.declareAttrs(b)
		case b.kind == "defaults":
			l.declareAttrs(b)
		}
	}
}

func (l *loader) declareLocals(b *block) {
	for _, a := range b.attrs() {
		addr := "local." + path.Join(b.dir, a.Name)
		if first := l.nodes[addr]; first != nil {
			l.bothAt(a.NameRange, first.rng, "first here", "", "%s is declared twice", addr)
			continue
		}
		l.names["local"] = append(l.names["local"], path.Join(b.dir, a.Name))
		l.nodes[addr] = &node{addr: addr, rng: a.NameRange, expr: a.Expr}
	}
}

// declareAttrs creates a node for each attribute of a block. An attribute that is not set has the
// value from `defaults`, or null.
func (l *loader) declareAttrs(b *block) {
	for _, known := range b.schema.Attributes {
		name := known.Name
		n := &node{addr: attrAddr(b.key(), name), rng: b.rng}
		if a := b.body.Attributes[name]; a != nil {
			n.rng, n.expr = a.NameRange, a.Expr
		} else {
			n.compute = func() cty.Value { return l.inherited(b, name) }
		}
		l.nodes[n.addr] = n
	}
	if b.kind == "generate" {
		n := l.nodes[attrAddr(b.key(), "outputs")]
		n.expr, n.compute = nil, func() cty.Value { return l.outputPaths(b) }
		if a := b.body.Attributes["command"]; a != nil {
			n := l.nodes[attrAddr(b.key(), "command")]
			n.expr, n.compute = nil, func() cty.Value { return l.eval(a.Expr, l.self(b)) }
		}
	}
}

func (l *loader) inherited(b *block, name string) cty.Value {
	if d := l.defaultsFor(b, name); d != nil {
		v := l.value(attrAddr(d.key(), name))
		if b.schema.Attribute(name).path {
			v = rebased(v, d.dir, b.dir)
		}
		return v
	}
	return cty.NullVal(cty.DynamicPseudoType)
}

// defaultsFor returns the `defaults` block that provides an attribute which b does not set, or nil.
// An attribute outside the schema is a bug: it would be undocumented.
func (l *loader) defaultsFor(b *block, name string) *block {
	a := b.schema.Attribute(name)
	if a == nil {
		panic("BUG: the schema of " + b.kind + " has no attribute " + name)
	}
	// code and gencode are two spellings of the same setting. A target that sets one must not
	// inherit the other.
	other := b.body.Attributes[map[string]string{"code": "gencode", "gencode": "code"}[name]]
	if a.Inherited && b.schema.Inherits == "defaults" && other == nil {
		return l.nearestDefaults(b.dir, name)
	}
	return nil
}

// value returns the value of a node. It is unknown if evaluation failed; the error was reported.
func (l *loader) value(addr string) cty.Value {
	if v, ok := l.ctx.Variables[addr]; ok {
		return v
	}
	n := l.nodes[addr]
	if n == nil {
		return cty.DynamicVal
	}
	if n.state == running {
		l.cycle(n)
		return cty.DynamicVal
	}
	n.state = running
	l.path = append(l.path, n)
	var v cty.Value
	if n.compute != nil {
		v = n.compute()
	} else {
		v = l.eval(n.expr, nil)
	}
	l.path = l.path[:len(l.path)-1]
	if n.state == running {
		n.state = known
	} else {
		v = cty.DynamicVal // part of a cycle
	}
	l.ctx.Variables[addr] = v
	return v
}

// cycle reports the path from n back to n. It gives every node on the path an unknown value, so
// that the cycle is reported once.
func (l *loader) cycle(n *node) {
	i := slices.Index(l.path, n)
	loop := l.path[i:]
	var steps []string
	for _, m := range append(slices.Clone(loop), n) {
		steps = append(steps, shown(m.addr)+" ("+position(m.rng).String()+")")
	}
	for _, m := range loop {
		m.state = known
	}
	l.errorAt(n.rng, strings.Join(steps, "\n  needs "), "%s needs its own value", shown(n.addr))
}

// eval evaluates an expression after its dependencies. extra are additional variables, such as
// matrix.
func (l *loader) eval(e hclsyntax.Expression, extra map[string]cty.Value) cty.Value {
	r := l.refs[e]
	if r == nil {
		panic("BUG: expression at " + e.Range().String() + " was not resolved")
	}
	if r.bad {
		return cty.DynamicVal
	}
	for _, addr := range r.addrs {
		if !l.instanceless(addr, r) {
			return cty.DynamicVal
		}
		l.value(addr)
		if _, known := l.ctx.Variables[addr]; !known {
			return cty.DynamicVal // part of a cycle
		}
	}
	ctx := l.ctx
	if r.matrix && extra == nil {
		return cty.DynamicVal // the caller has no instance; instanceless reports that
	}
	if extra != nil {
		ctx = l.ctx.NewChild()
		ctx.Variables = extra
	}
	if l.rounds.spent() != nil {
		return cty.DynamicVal
	}
	v, diags := e.Value(ctx)
	if err := l.rounds.spent(); err != nil { // a try() may have hidden it
		l.errorAt(e.Range(), "", "%v", err)
		return cty.DynamicVal
	}
	l.addHCL(diags)
	if diags.HasErrors() {
		return cty.DynamicVal
	}
	return v
}

// instanceless reports a reference to an attribute whose value differs between instances.
func (l *loader) instanceless(addr string, r *references) bool {
	own, _, _ := strings.Cut(addr, viewed)
	n := l.nodes[own]
	if n == nil || n.expr == nil || l.refs[n.expr] == nil || !l.refs[n.expr].matrix {
		return true
	}
	l.errorAt(r.places[addr], "It differs between the instances: it uses matrix or each.", "%s has no single value", shown(addr))
	return false
}
