package manifest

import (
	"bytes"
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

// Limits turn a slip of the pen into an error, instead of a kbuild that hangs or fills the memory: a
// product of long lists, a binary file in place of a manifest. They are no defence: a manifest may
// run any command, so only manifests of trusted users are read (trust.go).

const (
	// Limit of the brackets and signs in each other: at 100,000 the parser's stack takes a gigabyte.
	maxDepth = 10_000
	// Limit of the instances of for_each and matrix, in one block and in all.
	maxInstances = 10_000
	// Limit of the elements of a setproduct().
	maxProduct = 1_000_000
	// Limit of the diagnostics that are shown. The others are counted.
	maxDiagnostics = 1_000
	// Size in bytes above which a diagnostic does not show its line.
	tooLong = 4 << 10
)

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

// conversion returns the function tolist() or toset(), in linear time too.
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

// setProductFunc is setproduct() with a limit: three lists of 300 elements take gigabytes.
var setProductFunc = function.New(&function.Spec{
	VarParam: stdlib.SetProductFunc.VarParam(),
	Type: func(args []cty.Value) (cty.Type, error) {
		size := 1
		for i, a := range args {
			if a.IsKnown() && !a.IsNull() && a.CanIterateElements() && a.LengthInt() > 0 {
				if size *= a.LengthInt(); size > maxProduct {
					return cty.DynamicPseudoType, function.NewArgErrorf(i, "the product of the lists has more than %d elements", maxProduct)
				}
			}
		}
		return stdlib.SetProductFunc.ReturnTypeForValues(args)
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return stdlib.SetProductFunc.Call(args) },
})

// toNumber returns the function tonumber() for numbers that a double can hold. Others take megabytes
// as text, or are infinite, which no function expects.
func toNumber() function.Function {
	unbounded := stdlib.MakeToFunc(cty.Number)
	return function.New(&function.Spec{
		Params: unbounded.Params(),
		Type:   function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := unbounded.Call(args)
			if err == nil {
				err = soundNumber(v)
			}
			return v, err
		},
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

// curtail drops diagnostics beyond maxDiagnostics, and reports how many.
func (l *reports) curtail() {
	if more := len(l.diags) - maxDiagnostics; more > 0 {
		l.diags = append(l.diags[:maxDiagnostics],
			Diagnostic{Summary: fmt.Sprintf("and %d more like these", more)})
	}
}

// Numbers that a manifest or the user writes are limited to the range of a double, since HCL's own
// are unbounded: 1e999999 has a million digits as text. A division by zero is an error, where HCL
// has 1/0 = +Inf and 1 % 0 = 1.

// guard makes divisions check their divisor, and reports literals that are out of range.
func guard(n hclsyntax.Node) hcl.Diagnostics {
	return hclsyntax.VisitAll(n, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.BinaryOpExpr:
			if n.Op == hclsyntax.OpDivide || n.Op == hclsyntax.OpModulo {
				n.Op = &hclsyntax.Operation{Impl: divisor(n.Op.Impl), Type: n.Op.Type}
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

// divisor returns f with a check of its second argument.
func divisor(f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), Type: f.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[1].AsBigFloat().Sign() == 0 {
				return cty.DynamicVal, errors.New("division by zero")
			}
			return f.Call(args)
		},
	})
}

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
