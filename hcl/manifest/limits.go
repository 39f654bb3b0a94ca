package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Limits turn a slip of the pen into an error, instead of a kbuild that hangs or fills the memory:
// a loop in a loop, a product of long lists, a binary file in place of a manifest. They are no
// defence: a manifest may run any command, so only manifests of trusted users are read (trust.go).
//
// Values grow in two ways that a line of a manifest can multiply: iterations of `for`, and
// setproduct(). Both count against maxRounds. All other functions return about what they are given.

const (
	maxRounds = 1_000_000 // iterations and elements of products; a million takes a second
	// Limit of the words and signs of a file: HCL's parser takes 300 bytes for each.
	maxWords = 2_000_000
	// Limit of the brackets and signs in each other: at 100,000 the parser's stack takes a gigabyte.
	maxDepth = 10_000
	// Limit of the instances of for_each and matrix, in one block and in all.
	maxInstances = 10_000
	// Limit of the sources of all targets: each takes a kilobyte before planning starts.
	maxSources = 200_000
	// Limit of the diagnostics that are kept. The others are counted.
	maxDiagnostics = 1_000
	// Size in bytes above which a diagnostic does not show its line.
	tooLong = 4 << 10
)

// rounds counts the rounds of all loops of a manifest. Above maxRounds nothing is evaluated.
type rounds int

// take counts n more rounds, and returns an error above the limit.
func (r *rounds) take(n int) error {
	*r = min(*r+rounds(n), maxRounds+1)
	return r.spent()
}

// spent returns an error above the limit.
func (r *rounds) spent() error {
	if *r <= maxRounds {
		return nil
	}
	return fmt.Errorf("the loops of this manifest have more than %d rounds; "+
		"is there a loop in a loop?", maxRounds)
}

// counted is the part of a `for` that is evaluated in each round.
type counted struct {
	hclsyntax.Expression
	rounds *rounds
}

// Value implements hcl.Expression.
func (c *counted) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if err := c.rounds.take(1); err != nil {
		return cty.DynamicVal, hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: err.Error(), Subject: c.Range().Ptr(),
		}}
	}
	return c.Expression.Value(ctx)
}

// guard makes loops count their rounds and operators check their operands and results. It reports
// literals that are out of range.
func (r *rounds) guard(n hclsyntax.Node) hcl.Diagnostics {
	ops := soundOperators()
	return hclsyntax.VisitAll(n, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ForExpr:
			part := &n.ValExpr // evaluated in each round
			if n.CondExpr != nil {
				part = &n.CondExpr
			}
			*part = &counted{*part, r}
		case *hclsyntax.BinaryOpExpr:
			n.Op = cmp.Or(ops[n.Op], n.Op)
		case *hclsyntax.LiteralValueExpr:
			if err := soundNumber(n.Val); err != nil {
				return hcl.Diagnostics{{
					Severity: hcl.DiagError, Summary: err.Error(), Subject: n.SrcRange.Ptr(),
				}}
			}
		}
		return nil
	})
}

// setProduct returns setproduct(), which counts the elements of its result.
func (r *rounds) setProduct() function.Function {
	return wrapped(stdlib.SetProductFunc, func(args []cty.Value) (cty.Value, error) {
		n := 1
		for _, a := range args {
			if isList(a) {
				n = min(n*a.LengthInt(), maxRounds+1)
			}
		}
		if err := r.take(n); err != nil {
			return cty.DynamicVal, err
		}
		return stdlib.SetProductFunc.Call(args)
	})
}

// converted is convert.Convert. For a tuple of unknown types, that compares each element with
// every other: this takes a list instead if all have one type.
func converted(v cty.Value, to cty.Type) (cty.Value, error) {
	if v.Type().IsTupleType() && v.IsKnown() && !v.IsNull() && v.LengthInt() > 0 {
		types := v.Type().TupleElementTypes()
		if types[0].IsPrimitiveType() &&
			!slices.ContainsFunc(types, func(t cty.Type) bool { return t != types[0] }) {
			v = cty.ListVal(v.AsValueSlice())
		}
	}
	return convert.Convert(v, to)
}

// conversion returns the function tolist() or toset().
func conversion(to cty.Type) function.Function {
	slow := stdlib.MakeToFunc(to)
	return function.New(&function.Spec{
		Params: slow.Params(),
		Type: func(args []cty.Value) (cty.Type, error) {
			v, err := converted(args[0], to)
			if err != nil {
				return slow.ReturnTypeForValues(args)
			}
			return v.Type(), nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return converted(args[0], to) },
	})
}

// distinctFunc is distinct() in linear time: cty compares each element with every other.
var distinctFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		list, err := converted(args[0], cty.List(cty.DynamicPseudoType))
		if err != nil {
			err = function.NewArgError(0, err)
		}
		return list.Type(), err
	},
	Impl: func(args []cty.Value, want cty.Type) (cty.Value, error) {
		list, err := converted(args[0], want)
		if err != nil || !list.IsWhollyKnown() {
			return cty.UnknownVal(want), err
		}
		var out []cty.Value
		seen := map[int][]cty.Value{}
		for _, v := range list.AsValueSlice() {
			hash := v.Hash()
			if !slices.ContainsFunc(seen[hash], v.RawEquals) {
				seen[hash] = append(seen[hash], v)
				out = append(out, v)
			}
		}
		if len(out) == 0 {
			return cty.ListValEmpty(want.ElementType()), nil
		}
		return cty.ListVal(out), nil
	},
})

// marks are the byte order marks of other encodings.
var marks = []struct{ mark, encoding string }{
	{"\xff\xfe\x00\x00", "UTF-32"}, {"\x00\x00\xfe\xff", "UTF-32"},
	{"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"},
}

// checkText reports a file that HCL must not parse: it reports every byte of what is not text. The
// diagnostic has no source line, which may harm the terminal.
func (l *sourceTree) checkText(file string, src []byte) bool {
	for _, m := range marks {
		if bytes.HasPrefix(src, []byte(m.mark)) {
			l.add(Diagnostic{Pos: Pos{file, 1, 1}, Detail: "Save it as UTF-8.",
				Summary: fmt.Sprintf("%s is %s, not UTF-8", file, m.encoding)})
			return false
		}
	}
	at := bytes.IndexByte(src, 0)
	if !utf8.Valid(src) {
		at = bytes.IndexByte(bytes.ToValidUTF8(src, []byte{0}), 0)
	}
	fault := Diagnostic{Detail: "Manifests are UTF-8 text."}
	if at >= 0 {
		fault.Summary = fmt.Sprintf("%s is not text: it has the byte 0x%02x", file, src[at])
	} else if at = tooDeep(src); at >= 0 {
		fault.Summary = fmt.Sprintf("%s has more than %d nested brackets or signs", file, maxDepth)
		fault.Detail = "Close the brackets that are open, or name the parts in locals { ... }."
	} else if at = tooLarge(src); at >= 0 {
		fault.Summary = fmt.Sprintf("%s has more than %d words", file, maxWords)
		fault.Detail = "Put lists of files into glob(), and alike targets into a module with a matrix."
		at = 0
	} else {
		return true
	}
	before := src[:at]
	fault.Pos = Pos{file, bytes.Count(before, []byte("\n")) + 1,
		utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1}
	l.add(fault)
	return false
}

// tooDeep returns the offset where brackets and signs are nested too deeply; -1 if they are not.
// HCL's parser calls itself for each of them, and Go ends a process whose stack is too large.
// Brackets in strings and comments count.
func tooDeep(src []byte) int {
	open, signs := 0, 0
	for i, c := range src {
		switch c {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open = max(open-1, 0)
		case '-', '!':
			signs++
		case ' ', '\t', '\r', '\n':
		default:
			signs = 0
		}
		if open+signs > maxDepth {
			return i
		}
	}
	return -1
}

// tooLarge returns the offset where a file has more words than a manifest, as data in JSON has; -1
// if it has fewer. Words in strings count.
func tooLarge(src []byte) int {
	words, within := 0, false
	for i, c := range src {
		letter := c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c >= utf8.RuneSelf
		if !letter && c != ' ' && c != '\t' || letter && !within {
			if words++; words > maxWords {
				return i
			}
		}
		within = letter
	}
	return -1
}

// curtail adds a diagnostic with the number of those that were dropped.
func (l *reports) curtail() {
	if l.dropped > 0 {
		l.diags = append(l.diags,
			Diagnostic{Summary: fmt.Sprintf("and %d more like these", l.dropped)})
	}
}

// Numbers of the language are limited to the range of a double. HCL's own are unbounded and allow
// division by zero: 1/0 is +Inf, 1 % 0 is 1, and 1e999999 has a million digits as text. Each is an
// error where it arises, even if it would not be visible later: "${1/0}" is a text, and 1/(1/0) is
// 0.

// Exponents of two of the largest and the smallest double.
const (
	maxExponent = 1024
	minExponent = -1073
)

// soundNumber returns an error for a number that is infinite or outside the range. Values of other
// types are valid.
func soundNumber(v cty.Value) error {
	if !v.IsKnown() || v.IsNull() || v.Type() != cty.Number {
		return nil
	}
	f := v.AsBigFloat()
	switch exponent := f.MantExp(nil); {
	case f.IsInf():
		return errors.New("an infinite number")
	case f.Sign() == 0:
		return nil
	case exponent > maxExponent:
		return errors.New("a number above 1.8e308")
	case exponent < minExponent:
		return errors.New("a number closer to zero than 5e-324")
	}
	return nil
}

// soundNumbers applies soundNumber to all values in v.
func soundNumbers(v cty.Value) error {
	return cty.Walk(v, func(_ cty.Path, e cty.Value) (bool, error) { return true, soundNumber(e) })
}

// soundOperators maps each arithmetic operator to its checked version.
func soundOperators() map[*hclsyntax.Operation]*hclsyntax.Operation {
	ops := map[*hclsyntax.Operation]*hclsyntax.Operation{}
	for _, op := range []*hclsyntax.Operation{
		hclsyntax.OpAdd, hclsyntax.OpSubtract, hclsyntax.OpMultiply,
	} {
		ops[op] = &hclsyntax.Operation{Impl: sound(op.Impl), Type: op.Type}
	}
	for _, op := range []*hclsyntax.Operation{hclsyntax.OpDivide, hclsyntax.OpModulo} {
		impl := wrapped(op.Impl, func(args []cty.Value) (cty.Value, error) {
			if args[1].AsBigFloat().Sign() == 0 {
				return cty.DynamicVal, errors.New("division by zero")
			}
			return op.Impl.Call(args)
		})
		ops[op] = &hclsyntax.Operation{Impl: sound(impl), Type: op.Type}
	}
	return ops
}

// sound returns f with checks that its arguments and its result are sound numbers.
func sound(f function.Function) function.Function {
	return wrapped(f, func(args []cty.Value) (cty.Value, error) {
		for i, a := range args {
			if err := soundNumber(a); err != nil {
				return cty.DynamicVal, function.NewArgErrorf(i, "%v", err)
			}
		}
		v, err := f.Call(args)
		if err == nil {
			err = soundNumber(v)
		}
		return v, err
	})
}

// wrapped returns f with another implementation.
func wrapped(f function.Function, call func([]cty.Value) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: f.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return call(args) },
	})
}

var (
	wideVerb  = pattern(`%[^a-zA-Z%]*[0-9]{4,}`)
	floatVerb = pattern(`%[^a-zA-Z%]*[eEfgG]`)
)

// formatFunc is format of cty, which passes widths and numbers to Go's fmt.
var formatFunc = wrapped(stdlib.FormatFunc, func(args []cty.Value) (cty.Value, error) {
	format := args[0].AsString()
	if verb := wideVerb().FindString(format); verb != "" {
		return cty.DynamicVal, function.NewArgErrorf(0,
			"a width, precision or index of more than 3 digits in %q", format)
	}
	for i, v := range args[1:] {
		if v.Type() == cty.String && floatVerb().MatchString(format) {
			if n, err := convert.Convert(v, cty.Number); err == nil {
				v = n // as the verb does
			}
		}
		if err := soundNumber(v); err != nil {
			return cty.DynamicVal, function.NewArgErrorf(i+1, "%v", err)
		}
	}
	return stdlib.FormatFunc.Call(args)
})
