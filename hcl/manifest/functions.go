package manifest

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions returns all functions of the language. They are pure, except that glob lists folders,
// which Project.Observed records.
func (l *evaluator) functions() map[string]function.Function {
	return map[string]function.Function{
		"concat": stdlib.ConcatFunc, "flatten": stdlib.FlattenFunc, "distinct": distinctFunc,
		"sort": stdlib.SortFunc, "reverse": stdlib.ReverseListFunc, "compact": stdlib.CompactFunc,
		"length": lengthFunc, "contains": stdlib.ContainsFunc, "element": stdlib.ElementFunc,
		"range": stdlib.RangeFunc, "setproduct": setProductFunc,
		"keys": stdlib.KeysFunc, "values": stdlib.ValuesFunc, "merge": stdlib.MergeFunc,
		"lookup": stdlib.LookupFunc,

		"join": stdlib.JoinFunc, "split": stdlib.SplitFunc, "replace": stdlib.ReplaceFunc,
		"format": stdlib.FormatFunc,
		"lower":  stdlib.LowerFunc, "upper": stdlib.UpperFunc, "trimspace": stdlib.TrimSpaceFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"startswith": textTest(strings.HasPrefix), "endswith": textTest(strings.HasSuffix),
		"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,

		"tostring": stdlib.MakeToFunc(cty.String), "tonumber": toNumber(),
		"tolist":   conversion(cty.List(cty.DynamicPseudoType)),
		"toset":    conversion(cty.Set(cty.DynamicPseudoType)),
		"coalesce": stdlib.CoalesceFunc, "min": stdlib.MinFunc, "max": stdlib.MaxFunc,
		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc,

		"basename": textFunc(path.Base), "dirname": textFunc(path.Dir), "glob": l.globFunc(""),
	}
}

// lengthFunc returns the number of elements, or of the characters of a string.
var lengthFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if args[0].Type() == cty.String {
			return cty.NumberIntVal(int64(utf8.RuneCountInString(args[0].AsString()))), nil
		}
		return stdlib.Length(args[0])
	},
})

func textFunc(f func(string) string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(f(args[0].AsString())), nil
		},
	})
}

func textTest(f func(s, part string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}, {Name: "part", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(f(args[0].AsString(), args[1].AsString())), nil
		},
	})
}
