package manifest

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Phase four starts here: attributes to plain Go values. An attribute that is null counts as not
// set, as in Terraform. An unknown value was already reported and also counts as not set.

// reader reads the attributes of one block, for one instance of a matrix or of for_each.
type reader struct {
	l     *loader
	b     *block
	extra map[string]cty.Value // matrix, each, self
}

func (l *loader) reader(b *block, extra map[string]cty.Value) *reader {
	return &reader{l: l, b: b, extra: extra}
}

// field is an attribute and its value.
type field struct {
	name string
	rng  hcl.Range // of the expression
	expr hclsyntax.Expression
	val  cty.Value
}

// item is an element of a list of texts.
type item struct {
	text string
	rng  hcl.Range
}

// find returns the attribute of the block, or that of `defaults`.
func (r *reader) find(name string) *hclsyntax.Attribute {
	if a := r.b.body.Attributes[name]; a != nil {
		return a
	}
	if d := r.l.defaultsFor(r.b, name); d != nil {
		return d.body.Attributes[name]
	}
	return nil
}

// field returns the value of an attribute, or nil if it is not set, null or unknown.
func (r *reader) field(name string) *field {
	a := r.find(name)
	if a == nil {
		return nil
	}
	v := r.value(name, a)
	if !v.IsWhollyKnown() || v.IsNull() {
		return nil
	}
	return &field{name, a.Expr.Range(), a.Expr, v}
}

// value returns the value of the attribute's node if there is one and the value is the same for all
// instances. The node of outputs contains paths in the build tree; the reader needs them as
// declared.
func (r *reader) value(name string, a *hclsyntax.Attribute) cty.Value {
	if r.extra == nil || !r.l.refs[a.Expr].matrix {
		if addr := attrAddr(r.b.key(), name); r.l.nodes[addr] != nil && !(r.b.kind == "generate" && name == "outputs") {
			return r.l.value(addr)
		}
	}
	return r.l.eval(a.Expr, r.extra)
}

func (r *reader) wrong(f *field, needs string) {
	help := ""
	if s, ok := asText(f.val); ok && f.val.Type() == cty.String && strings.HasPrefix(needs, "a list of strings") {
		words := []string{s}
		if f.name == "command" {
			words = strings.Fields(s)
		}
		help = fmt.Sprintf("Write %s = [%s].", f.name, quoted(words))
	}
	r.l.errorAt(f.rng, help, "%s needs %s, not %s", f.name, needs, typeName(f.val))
}

// quoted returns words in the syntax of a list.
func quoted(words []string) string {
	for i, w := range words {
		words[i] = strconv.Quote(w)
	}
	return strings.Join(words, ", ")
}

// typeName describes the type of a value in terms of the language.
func typeName(v cty.Value) string {
	switch t := v.Type(); {
	case v.IsNull():
		return "null"
	case t == referenceType:
		return v.EncapsulatedValue().(*target).label()
	case t.IsTupleType() || t.IsListType():
		return "a list"
	case t.IsSetType():
		return "a set"
	case t.IsObjectType() || t.IsMapType():
		return "a map"
	default:
		return "a " + t.FriendlyName()
	}
}

// isList reports whether v is a list, a set or a tuple, and not null.
func isList(v cty.Value) bool {
	t := v.Type()
	return !v.IsNull() && (t.IsTupleType() || t.IsListType() || t.IsSetType())
}

// isEmpty reports whether v is a list without elements.
func isEmpty(v cty.Value) bool { return isList(v) && v.LengthInt() == 0 }

// isMap reports whether v is a map or an object, and not null.
func isMap(v cty.Value) bool {
	t := v.Type()
	return !v.IsNull() && (t.IsObjectType() || t.IsMapType())
}

// asText converts strings, numbers and booleans.
func asText(v cty.Value) (string, bool) {
	if v.IsNull() || !v.Type().IsPrimitiveType() {
		return "", false
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil || s.IsNull() || !s.IsKnown() {
		return "", false
	}
	return s.AsString(), true
}

// text reads a string. ok is false if it is not set or not a string.
func (r *reader) text(name string) (s string, ok bool) {
	f := r.field(name)
	if f == nil {
		return "", false
	}
	if s, ok = asText(f.val); !ok {
		r.wrong(f, "a string")
	}
	return s, ok
}

// enum reads an attribute whose value must be one of its Words.
func (r *reader) enum(name string) string {
	words := r.b.schema.Attribute(name).Words
	s, ok := r.text(name)
	if ok && !slices.Contains(words, s) {
		rng := r.find(name).Expr.Range()
		r.l.errorAt(rng, "One of: "+strings.Join(words, ", ")+".", "%s = %q is not known%s", name, s, didYouMean(s, words))
		return ""
	}
	return s
}

// boolean reads true or false; nil if it is not set.
func (r *reader) boolean(name string) *bool {
	f := r.field(name)
	if f == nil {
		return nil
	}
	v, err := convert.Convert(f.val, cty.Bool)
	if err != nil || v.IsNull() {
		r.wrong(f, "true or false")
		return nil
	}
	b := v.True()
	return &b
}

func (r *reader) isTrue(name string) bool {
	b := r.boolean(name)
	return b != nil && *b
}

// integer reads a whole number within the bounds of its attribute; 0 if it is not set.
func (r *reader) integer(name string) int {
	f := r.field(name)
	if f == nil {
		return 0
	}
	v, err := convert.Convert(f.val, cty.Number)
	if err != nil || v.IsNull() {
		r.wrong(f, "a number")
		return 0
	}
	a := r.b.schema.Attribute(name)
	n, accuracy := v.AsBigFloat().Int64()
	if accuracy != big.Exact || n < a.Min || n > a.Max {
		r.l.errorAt(f.rng, "", "%s needs a whole number from %d to %d", name, a.Min, a.Max)
		return 0
	}
	return int(n)
}

// size reads memory = "4GiB" or a number of bytes.
func (r *reader) size(name string) int64 {
	f := r.field(name)
	if f == nil {
		return 0
	}
	s, ok := asText(f.val)
	if !ok {
		r.wrong(f, `a size such as "4GiB"`)
		return 0
	}
	n, err := ParseSize(s)
	if err != nil {
		r.l.errorAt(f.rng, "", "%s: %v", name, err)
	}
	return n
}

// duration reads a time such as "90s"; a bare number is in seconds. It returns 0 if it is not set.
func (r *reader) duration(name string) time.Duration {
	f := r.field(name)
	if f == nil {
		return 0
	}
	s, ok := asText(f.val)
	if !ok {
		r.wrong(f, `a time such as "90s"`)
		return 0
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		r.l.errorAt(f.rng, "", `%s: %q is no time; write for example "90s", "5m" or a number of seconds`, name, strings.TrimSuffix(s, "s"))
		return 0
	}
	return d
}

// elements returns the elements of a list or set.
func (r *reader) elements(f *field, of string) []cty.Value {
	if !isList(f.val) {
		r.wrong(f, "a list of "+of)
		return nil
	}
	return f.val.AsValueSlice()
}

// texts reads a list of strings.
func (r *reader) texts(name string) []item { return r.textItems(r.field(name)) }

func (r *reader) textItems(f *field) []item {
	if f == nil {
		return nil
	}
	var out []item
	places := literals(f.expr)
	for _, e := range r.elements(f, "strings") {
		s, ok := asText(e)
		if !ok {
			r.l.errorAt(f.rng, "", "%s needs a list of strings, and one element is %s", f.name, typeName(e))
			continue
		}
		out = append(out, item{s, places.take(s, f.rng)})
	}
	return out
}

// plainTexts returns the texts without their ranges.
func plainTexts(items []item) []string {
	var out []string
	for _, it := range items {
		out = append(out, it.text)
	}
	return out
}

// places are the ranges of the texts and references in an expression.
type places map[string][]hcl.Range

// take returns the next range of s. The last range is returned for all later calls.
func (p places) take(s string, otherwise hcl.Range) hcl.Range {
	list := p[s]
	switch len(list) {
	case 0:
		return otherwise
	case 1:
		return list[0]
	}
	p[s] = list[1:]
	return list[0]
}

// literals returns the ranges of all string literals in an expression.
func literals(e hclsyntax.Expression) places {
	p := places{}
	hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		if m, ok := n.(*counted); ok {
			n = m.Expression
		}
		switch n := n.(type) {
		case *hclsyntax.TemplateExpr:
			if n.IsStringLiteral() {
				if v, diags := n.Value(nil); !diags.HasErrors() && v.IsKnown() {
					p[v.AsString()] = append(p[v.AsString()], n.Range())
				}
			}
		case *hclsyntax.ScopeTraversalExpr:
			p[n.Traversal.RootName()] = append(p[n.Traversal.RootName()], n.Range())
		}
		return nil
	})
	return p
}

// textMap reads a map of strings; a null value becomes nil.
func (r *reader) textMap(name string) map[string]*string {
	f := r.field(name)
	if f == nil {
		return nil
	}
	if !isMap(f.val) {
		r.wrong(f, "a map")
		return nil
	}
	out := map[string]*string{}
	for key, v := range f.val.AsValueMap() {
		if v.IsNull() {
			out[key] = nil
			continue
		}
		s, ok := asText(v)
		if !ok {
			r.l.errorAt(r.keyRange(f, key), "", "%s: the value of %q must be a string, a number or a boolean, not %s", name, key, typeName(v))
			continue
		}
		out[key] = &s
	}
	return out
}

// keyRange returns the range of a key in a map literal, or that of the whole attribute.
func (r *reader) keyRange(f *field, key string) hcl.Range {
	obj, ok := f.expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return f.rng
	}
	for _, it := range obj.Items {
		k := hcl.ExprAsKeyword(it.KeyExpr)
		if k == "" {
			if v, diags := it.KeyExpr.Value(nil); !diags.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
				k = v.AsString()
			}
		}
		if k == key {
			return it.KeyExpr.Range()
		}
	}
	return f.rng
}

func (r *reader) labels() map[string]string {
	m := r.textMap("labels")
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range m {
		if v != nil {
			out[k] = *v
		}
	}
	return out
}

// reservedWords reports attributes that are reserved for later versions.
func (r *reader) reservedWords() {
	for _, known := range r.b.schema.Attributes {
		if a := r.b.body.Attributes[known.Name]; a != nil && known.Reserved {
			r.l.errorAt(a.NameRange, "Remove it; kbuild works without.", "%s is reserved and not built yet", known.Name)
		}
	}
}

// required reports required attributes that are missing.
func (r *reader) required() {
	for _, a := range r.b.schema.Attributes {
		if a.Required && r.b.body.Attributes[a.Name] == nil && !r.b.misspelt[a.Name] {
			r.l.errorAt(r.b.rng, "", "%s has no %s", r.b.heading(), a.Name)
		}
	}
}

// attrPos returns the position of each attribute.
func (r *reader) attrPos() map[string]Pos {
	out := map[string]Pos{}
	for _, known := range r.b.schema.Attributes {
		name := known.Name
		a := r.find(name)
		switch {
		case a == nil:
		case r.b.body.Attributes[name] != nil:
			out[name] = position(a.NameRange)
		default:
			out["defaults."+name] = position(a.NameRange)
		}
	}
	if pos, ok := out["code"]; ok {
		out["gencode"] = pos // code replaces gencode
	}
	return out
}

// cIdentifier reports whether s can be an identifier in C.
func cIdentifier(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// libraryFile reports whether s is a file name where the linker expects the name of a library: it
// would search for liblibz.so.so. The linker uses :libz.so.1 unchanged, so that is a valid name.
func libraryFile(s string) (name string, ok bool) {
	base := s[strings.LastIndexByte(s, '/')+1:]
	stem, _, _ := strings.Cut(base, ".so")
	stem = strings.TrimSuffix(stem, ".a")
	if stem == base || strings.HasPrefix(s, ":") {
		return "", false
	}
	return strings.TrimPrefix(stem, "lib"), true
}

// noPrefix reads a list of names and reports options in it: libs = ["-lm"].
func (r *reader) noPrefix(name, option string) []string {
	var out []string
	for _, it := range r.texts(name) {
		if rest, ok := strings.CutPrefix(it.text, option); ok {
			r.l.errorAt(it.rng, fmt.Sprintf("Write %q.", rest), "%s takes names, not options", name)
			continue
		}
		if it.text == "" {
			r.l.errorAt(it.rng, "", "%s has an empty element", name)
			continue
		}
		if base, isFile := libraryFile(it.text); isFile && option == "-l" {
			help := fmt.Sprintf("Write %q; one of the project's is a target in deps, one that lies elsewhere a prebuilt block, or has its folder in lib_dirs.", base)
			r.l.errorAt(it.rng, help, "%s takes names, and %s is a file", name, it.text)
			continue
		}
		out = append(out, it.text)
	}
	return out
}
