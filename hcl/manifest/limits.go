package manifest

import (
	"bytes"
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

// count wraps the part of a loop that is evaluated in each of its rounds.
func (r *rounds) count(e *hclsyntax.ForExpr) {
	part := &e.ValExpr
	if e.CondExpr != nil {
		part = &e.CondExpr
	}
	*part = &counted{*part, r}
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

// checkText reports a file that is not text, of which HCL would report every byte. The diagnostic
// has no source line, which may harm the terminal.
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
		for i := 0; i != at && i < len(src); {
			r, n := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && n == 1 {
				at = i
				break
			}
			i += n
		}
	}
	if at < 0 {
		return l.checkWords(file, src)
	}
	before := src[:at]
	pos := Pos{file, bytes.Count(before, []byte("\n")) + 1,
		utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1}
	l.add(Diagnostic{Pos: pos, Detail: "Manifests are text in UTF-8.",
		Summary: fmt.Sprintf("%s is no text: it holds the byte 0x%02x", file, src[at])})
	return false
}

// checkWords reports a file of more words than a manifest has, such as data in JSON. Words in
// strings count.
func (l *sourceTree) checkWords(file string, src []byte) bool {
	words, within := 0, false
	for _, c := range src {
		letter := c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c >= utf8.RuneSelf
		if !letter && c != ' ' && c != '\t' || letter && !within {
			words++
		}
		within = letter
	}
	if words > maxWords {
		l.add(Diagnostic{Pos: Pos{file, 1, 1}, Detail: "Put lists of files into glob(), and alike " +
			"targets into a module with a matrix.",
			Summary: fmt.Sprintf("%s has more than %d words", file, maxWords)})
	}
	return words <= maxWords
}

// curtail adds a diagnostic with the number of those that were dropped.
func (l *reports) curtail() {
	if l.dropped > 0 {
		l.diags = append(l.diags,
			Diagnostic{Summary: fmt.Sprintf("and %d more like these", l.dropped)})
	}
}
