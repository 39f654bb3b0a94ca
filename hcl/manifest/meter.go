package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// Limits of evaluation. A few lines of a manifest can request more than any machine has: locals
// that each contain the previous one twice, nested loops, setproduct(). So the loader measures the
// inputs and outputs of expressions, in bytes that hardly depend on the machine, and stops at a
// limit.
//
// Growth has three sources. A name is charged for each mention before the expression is evaluated
// (eval). A function is charged before it is called (charged). An iteration of `for` is charged by
// metered. The rest of an expression is as large as its inputs.
//
// A million iterations take a second. 50 targets that each filter one list of 10,000 files take
// half a second.

const (
	maxValue = 16 << 20  // one value
	maxMade  = 96 << 20  // all values that are created
	maxHeld  = 256 << 20 // all values that are read, plus maxMade
	perRound = 256       // an iteration of `for`
	perValue = 64        // an element, without its content
	// Limit of a number's exponent, in bits: 1e1000000000 is short until it is converted to text.
	maxDigits = 4096
)

// meter counts the cost of evaluation so far.
type meter struct {
	made, held int64
	spent      bool // no more is evaluated
}

// sizeOf returns the size of a value, up to about most. It counts a shared part once for each use,
// since code that walks the value does so too.
func sizeOf(v cty.Value, most int64) int64 {
	size := int64(perValue)
	t := v.Type()
	switch {
	case v.IsNull() || !v.IsKnown():
	case t == cty.String:
		size += int64(len(v.AsString()))
	case t == cty.Number:
		if exp := v.AsBigFloat().MantExp(nil); exp > maxDigits || exp < -maxDigits {
			return most + 1
		}
	case isList(v) || isMap(v):
		for it := v.ElementIterator(); size <= most && it.Next(); {
			key, e := it.Element()
			if key.Type() == cty.String && isMap(v) {
				size += int64(len(key.AsString()))
			}
			size += sizeOf(e, most-size)
		}
	}
	return size
}

// errSpent returns the error after which no more is evaluated.
func errSpent() error {
	return fmt.Errorf("evaluating this manifest takes too much (more than %d MiB of values); is there a list that grows in each step, or a loop in a loop?", maxHeld>>20)
}

// hold charges values that are read, and returns an error at the limit.
func (m *meter) hold(n int64) error {
	if m.held += n; m.held > maxHeld || m.spent {
		m.spent = true
		return errSpent()
	}
	return nil
}

// make charges a new value of about n bytes.
func (m *meter) make(n int64) error {
	if n > maxValue {
		return fmt.Errorf("this makes a value of more than %d MiB", maxValue>>20)
	}
	if m.made += n; m.made > maxMade {
		m.spent = true
	}
	return m.hold(n)
}

// size returns the size of a named value, measured once.
func (l *loader) size(addr string) int64 {
	n, ok := l.sizes[addr]
	if v, known := l.ctx.Variables[addr]; !ok && known {
		n = sizeOf(v, maxValue)
		l.sizes[addr] = n
	}
	return n
}

// sizeAll returns the total size of several named values.
func (l *loader) sizeAll(addrs []string) (n int64) {
	for _, a := range addrs {
		n += l.size(a)
	}
	return n
}

// tooMuch reports err at the expression that exceeded a limit.
func (l *loader) tooMuch(e hclsyntax.Expression, err error) {
	l.errorAt(e.Range(), "", "%s", err.Error())
}

// metered is an expression that a `for` evaluates in each iteration.
type metered struct {
	hclsyntax.Expression
	l      *loader
	addrs  []string // addresses that it refers to, once per mention
	locals []string // loop variables that it refers to
	from   int      // index of its first address in references.addrs of the whole expression
}

// Value implements hcl.Expression.
func (m *metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	cost := perRound + m.l.sizeAll(m.addrs)
	for _, name := range m.locals {
		cost += sizeOf(lookup(ctx, name), maxValue)
	}
	err := m.l.meter.hold(cost)
	if err == nil {
		v, diags := m.Expression.Value(ctx)
		if err = m.l.meter.make(sizeOf(v, maxValue)); err == nil {
			return v, diags
		}
	}
	rng := m.Range()
	return cty.DynamicVal, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: err.Error(), Subject: &rng}}
}

func lookup(ctx *hcl.EvalContext, name string) cty.Value {
	for ; ctx != nil; ctx = ctx.Parent() {
		if v, ok := ctx.Variables[name]; ok {
			return v
		}
	}
	return cty.DynamicVal
}

// meterLoop wraps the parts of a `for` in metered.
func (l *loader) meterLoop(e *hclsyntax.ForExpr) {
	for _, part := range []*hclsyntax.Expression{&e.KeyExpr, &e.ValExpr, &e.CondExpr} {
		if *part != nil {
			*part = &metered{Expression: *part, l: l}
		}
	}
}

// charged wraps functions to charge their calls in advance.
func (l *loader) charged(functions map[string]function.Function) map[string]function.Function {
	for name, f := range functions {
		if name == "can" || name == "try" { // their arguments are expressions
			continue
		}
		params, listed := f.Params(), name == "setproduct" || name == "tolist" || name == "toset"
		for i := range params {
			if t := params[i].Type; t.IsListType() && t.ElementType() == cty.DynamicPseudoType {
				params[i].Type, listed = cty.DynamicPseudoType, true
			}
		}
		functions[name] = function.New(&function.Spec{
			Params: params, VarParam: f.VarParam(),
			Type: func(args []cty.Value) (cty.Type, error) {
				if err := l.charge(name, args); err != nil {
					return cty.DynamicPseudoType, err
				}
				args, err := l.asLists(listed, f, args)
				if err != nil {
					return cty.DynamicPseudoType, err
				}
				return f.ReturnTypeForValues(args)
			},
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				args, err := l.asLists(listed, f, args)
				if err != nil {
					return cty.DynamicVal, err
				}
				return f.Call(args)
			},
		})
	}
	return functions
}

// asLists converts arguments to the parameter types of f, uniform lists without comparing all
// types.
func (l *loader) asLists(listed bool, f function.Function, args []cty.Value) ([]cty.Value, error) {
	if !listed {
		return args, nil
	}
	args = slices.Clone(args)
	for i, p := range f.Params()[:min(len(args), len(f.Params()))] {
		if !args[i].IsKnown() || args[i].IsNull() {
			continue
		}
		v, err := l.asList(args[i], p.Type)
		if err != nil {
			return nil, function.NewArgError(i, err)
		}
		args[i] = v
	}
	for i := len(f.Params()); i < len(args); i++ {
		args[i] = uniform(args[i])
	}
	return args, nil
}

// asList is convert.Convert, but charges its quadratic cost: Convert compares the types of all
// elements of a tuple with each other.
func (l *loader) asList(v cty.Value, t cty.Type) (cty.Value, error) {
	v = uniform(v)
	if v.Type().IsTupleType() && v.IsKnown() && !v.IsNull() {
		n := int64(v.LengthInt())
		if err := l.meter.hold(times(n, n)); err != nil {
			return v, err
		}
	}
	return convert.Convert(v, t)
}

// uniform converts a tuple to a list if all elements have the same primitive type.
func uniform(v cty.Value) cty.Value {
	if !v.Type().IsTupleType() || !v.IsKnown() || v.IsNull() || v.LengthInt() == 0 {
		return v
	}
	types := v.Type().TupleElementTypes()
	if !types[0].IsPrimitiveType() || slices.ContainsFunc(types, func(t cty.Type) bool { return t != types[0] }) {
		return v
	}
	return cty.ListVal(v.AsValueSlice())
}

// charge charges a call for its arguments and its result.
func (l *loader) charge(name string, args []cty.Value) error {
	var in int64
	for _, a := range args {
		size := sizeOf(a, maxValue)
		if size > maxValue {
			return l.meter.make(size)
		}
		in += size
	}
	if err := l.meter.hold(in); err != nil {
		return err
	}
	if !cty.TupleVal(args).IsWhollyKnown() || slices.ContainsFunc(args, func(v cty.Value) bool { return v.IsNull() }) {
		return nil
	}
	return l.meter.make(in + grown(name, args))
}

// grown returns an upper bound of the result's size beyond that of the arguments, in bytes.
func grown(name string, args []cty.Value) int64 {
	text := func(i int) string {
		if i < len(args) && args[i].Type() == cty.String {
			return args[i].AsString()
		}
		return ""
	}
	switch name {
	case "setproduct":
		return product(args)
	case "join":
		count := int64(0)
		for _, a := range args[min(1, len(args)):] {
			if isList(a) {
				count += int64(a.LengthInt())
			}
		}
		return times(int64(len(text(0))), count)
	case "replace":
		if s := text(0); strings.HasPrefix(text(1), "/") {
			return times(int64(len(s)+1), int64(len(text(2)))) + times(int64(len(s)), int64(strings.Count(text(2), "$")))
		}
		return times(int64(strings.Count(text(0), text(1))), int64(len(text(2))))
	case "split":
		return times(int64(strings.Count(text(1), text(0))+1), perValue)
	case "regex", "regexall":
		return times(int64(len(text(1))+1), times(int64(strings.Count(text(0), "(")+1), perValue))
	case "format":
		return widths(text(0))
	}
	return 0
}

// times multiplies without overflow, up to maxHeld.
func times(a, b int64) int64 {
	if a > 0 && b > maxHeld/a {
		return maxHeld
	}
	return a * b
}

// product returns the size of the result of setproduct: a list of lists.
func product(args []cty.Value) int64 {
	n := int64(perValue)
	for _, a := range args {
		if isList(a) {
			n = times(n, int64(a.LengthInt()))
		}
	}
	return times(n, int64(len(args)+1))
}

// widths returns the sum of the numbers in a format, which are widths of columns. formatFunc
// refuses numbers of more than three digits.
func widths(format string) int64 {
	var sum, n int64
	for _, c := range format + "." {
		switch {
		case c >= '0' && c <= '9':
			n = min(10*n+int64(c-'0'), maxHeld)
		case n < 1000:
			sum, n = sum+n, 0
		default:
			n = 0
		}
	}
	return sum
}

// distinctFunc is distinct() in linear time: cty compares each element with every other.
var distinctFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.List(cty.DynamicPseudoType)}},
	Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
	Impl: func(args []cty.Value, want cty.Type) (cty.Value, error) {
		if !args[0].IsWhollyKnown() {
			return cty.UnknownVal(want), nil
		}
		var out []cty.Value
		seen := map[int][]cty.Value{}
		for it := args[0].ElementIterator(); it.Next(); {
			_, v := it.Element()
			same := seen[v.Hash()]
			if !slices.ContainsFunc(same, v.RawEquals) {
				seen[v.Hash()] = append(same, v)
				out = append(out, v)
			}
		}
		if len(out) == 0 {
			return cty.ListValEmpty(want.ElementType()), nil
		}
		return cty.ListVal(out), nil
	},
})
