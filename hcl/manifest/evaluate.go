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

// Phase three: values in the order they need each other. Each thing with a value is a node,
// computed on first use and kept. A node met again while it is being computed is a cycle, and the
// stack is its path.

// node is a thing with a value: var.x, local.y, gencode.server.code, library.solver.sources.
type node struct {
	addr    string
	rng     hcl.Range
	expr    hclsyntax.Expression // nil: compute
	compute func() cty.Value
	state   nodeState
}

type nodeState int

const (
	untouched nodeState = iota
	running
	known
)

// attrAddr is the address of an attribute. The zero byte keeps the attribute `sources` of a target
// "a" apart from a target "a.sources"; shown drops it.
func attrAddr(key, attr string) string { return key + "\x00." + attr }

func shown(addr string) string {
	addr, _, _ = strings.Cut(addr, viewed)
	return strings.ReplaceAll(addr, "\x00", "")
}

// target is a reference to a block as a whole: library.solver, gencode.server.
type target struct{ kind, name string }

func (t *target) label() string { return t.kind + "." + t.name }

// referenceType is the type of whole blocks in expressions; they have no value of their own, so
// that deps = [library.a] needs nothing of library.a to be evaluated.
var referenceType = cty.Capsule("reference", reflect.TypeFor[target]())

// declare makes a node for everything that can be referred to, and gives whole blocks their value.
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

// declareAttrs makes a node for each attribute of a block; one that is not written reads as the
// value of `defaults`, or null.
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
		if isPath(name) {
			v = rebased(v, d.dir, b.dir)
		}
		return v
	}
	return cty.NullVal(cty.DynamicPseudoType)
}

// defaultsFor gives the block `defaults` if an attribute that b does not set takes its value from
// there. Whoever asks for an attribute that the schema does not have is wrong: nothing would
// describe it.
func (l *loader) defaultsFor(b *block, name string) *block {
	a := b.schema.Attribute(name)
	if a == nil {
		panic("BUG: the schema of " + b.kind + " has no attribute " + name)
	}
	// code and gencode are two spellings of one thing, and a target that has one must not take the
	// other.
	other := b.body.Attributes[map[string]string{"code": "gencode", "gencode": "code"}[name]]
	if a.Inherited && b.schema.Inherits == "defaults" && other == nil {
		return l.nearestDefaults(b.dir, name)
	}
	return nil
}

// value gives the value of a node. It is unknown if that cannot be had; the reason was reported.
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

// cycle reports the path from n back to n. Every node on it gets an unknown value, so that the
// cycle is reported once.
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

// eval evaluates an expression after everything it needs; extra are names known only here.
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
		return cty.DynamicVal // read without an instance; reported where it was asked for
	}
	if extra != nil {
		ctx = l.ctx.NewChild()
		ctx.Variables = extra
	}
	return l.metered(e, ctx, r.addrs)
}

// metered evaluates an expression that names addrs, unless that takes too much. That is said once,
// by whoever needs it first.
func (l *loader) metered(e hclsyntax.Expression, ctx *hcl.EvalContext, addrs []string) cty.Value {
	if l.meter.spent {
		return cty.DynamicVal
	}
	if err := l.meter.hold(l.sizeAll(addrs)); err != nil {
		l.tooMuch(e, err)
		return cty.DynamicVal
	}
	v, diags := e.Value(ctx)
	err := l.meter.make(sizeOf(v, maxValue))
	switch {
	case l.meter.spent: // it may be behind a try()
		l.tooMuch(e, errSpent())
		return cty.DynamicVal
	case err != nil && !diags.HasErrors():
		l.tooMuch(e, err)
		return cty.DynamicVal
	}
	l.addHCL(diags)
	if diags.HasErrors() {
		return cty.DynamicVal
	}
	return v
}

// instanceless refuses to read an attribute of a module that is different in each instance.
func (l *loader) instanceless(addr string, r *references) bool {
	own, _, _ := strings.Cut(addr, viewed)
	n := l.nodes[own]
	if n == nil || n.expr == nil || l.refs[n.expr] == nil || !l.refs[n.expr].matrix {
		return true
	}
	l.errorAt(r.places[addr], "It differs between the instances: it uses matrix or each.", "%s has no single value", shown(addr))
	return false
}
