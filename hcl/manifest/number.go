package manifest

import (
	"errors"
	"regexp"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

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

// soundArithmetic makes operators check their operands and results, and reports literals that are
// out of range.
func soundArithmetic(n hclsyntax.Node) hcl.Diagnostics {
	ops := soundOperators()
	return hclsyntax.VisitAll(n, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.BinaryOpExpr:
			if op := ops[n.Op]; op != nil {
				n.Op = op
			}
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

// soundOperators maps each arithmetic operator to its checked version.
func soundOperators() map[*hclsyntax.Operation]*hclsyntax.Operation {
	ops := map[*hclsyntax.Operation]*hclsyntax.Operation{}
	for _, op := range []*hclsyntax.Operation{
		hclsyntax.OpAdd, hclsyntax.OpSubtract, hclsyntax.OpMultiply,
	} {
		ops[op] = &hclsyntax.Operation{Impl: sound(op.Impl), Type: op.Type}
	}
	for _, op := range []*hclsyntax.Operation{hclsyntax.OpDivide, hclsyntax.OpModulo} {
		ops[op] = &hclsyntax.Operation{Impl: sound(notByZero(op.Impl)), Type: op.Type}
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

func notByZero(f function.Function) function.Function {
	return wrapped(f, func(args []cty.Value) (cty.Value, error) {
		if args[1].AsBigFloat().Sign() == 0 {
			return cty.DynamicVal, errors.New("division by zero")
		}
		return f.Call(args)
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
	wideVerb = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`%[^a-zA-Z%]*[0-9]{4,}`)
	})
	floatVerb = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`%[^a-zA-Z%]*[eEfgG]`)
	})
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
