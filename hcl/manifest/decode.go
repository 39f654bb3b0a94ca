package manifest

import (
	"fmt"
	"math/big"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Decoding turns the attributes of a block into fields of plain Go data.
//
// An attribute is a row of the schema (its name, type, constraints and documentation) and a field
// whose tag has the name of the row. decode walks the rows of a block. For each it finds the
// expression, in the block or in `defaults`, evaluates it for one instance, and converts the value
// to the type of the field (set). So a new attribute is a row and a field, and no code can read an
// attribute that is not documented.
//
// An attribute that is null counts as not set, as in Terraform. An unknown value was already
// reported, and also counts as not set.
//
// Exceptions: rows without a field are read where they are used, such as for_each and the default
// of a variable. Rules about several attributes are in the code of the block, after decode.

// record has the attributes of a target, a partition or defaults: those that are fields of the
// result, and those from which fields are computed when all attributes are known.
type record struct {
	*Target
	b             *block
	Listed        []item         `attr:"sources"`
	Headers       []item         `attr:"public_headers"`
	Match         []item         `attr:"match"`
	Code          []gencode.Code `attr:"code"`
	Macros        []Define       `attr:"defines"`
	Language      string         `attr:"language"`
	Linkage       string         `attr:"type"`
	Standards     standard       `attr:"std"`
	CUDAStandards standard       `attr:"cuda_std"`
}

// standard has the standards that std or cuda_std names; "" means not set.
type standard struct{ cxx, c string }

// reference is a reference to a block, and its place.
type reference struct {
	*target
	rng hcl.Range
}

// form is the form that a string must have: that of a pattern, or one without an error.
type form struct {
	valid      func() *regexp.Regexp
	what, help string
	check      func(string) error
}

// pattern returns a regular expression that is compiled at its first use.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// reader reads the attributes of an instance of a block.
type reader struct {
	l      *loader
	b      *block
	values map[string]cty.Value // matrix or each
}

func (l *loader) reader(b *block, values map[string]cty.Value) *reader {
	return &reader{l, b, values}
}

// field is an attribute and its value.
type field struct {
	*reports
	row  *Attribute
	rng  hcl.Range // of the expression
	expr hclsyntax.Expression
	val  cty.Value
}

// item is an element of a list of texts.
type item struct {
	text string
	rng  hcl.Range
}

// decode reads the attributes of the block into a struct, and returns their positions.
func (r *reader) decode(into any) map[string]Pos {
	at, to := map[string]Pos{}, reflect.ValueOf(into).Elem()
	fields := r.l.fieldsOf(to.Type())
	for i := range r.b.schema.Attributes {
		row := &r.b.schema.Attributes[i]
		a, of := r.l.find(r.b, row.Name)
		switch {
		case a == nil && row.Required && !r.b.misspelt[row.Name]:
			r.l.errorAt(r.b.rng, row.missing, "%s has no %s", r.b.heading(), row.Name)
			continue
		case a == nil:
			continue
		case of != r.b:
			at["defaults."+row.Name] = position(a.NameRange)
		default:
			at[row.Name] = position(a.NameRange)
		}
		if index := fields[row.Name]; index != nil {
			if f := r.l.valueOf(r.b, row, a, of, r.values); f != nil {
				r.set(f, to.FieldByIndex(index).Addr().Interface())
			}
		}
	}
	if pos, ok := at["code"]; ok && r.b.schema.Attribute("gencode") != nil {
		at["gencode"] = pos // code replaces gencode
	}
	return at
}

// fieldsOf returns the index of the field of each attribute, for FieldByIndex.
func (l *loader) fieldsOf(t reflect.Type) map[string][]int {
	if l.fields[t] == nil {
		l.fields[t] = map[string][]int{}
		addFields(l.fields[t], t, nil)
	}
	return l.fields[t]
}

func addFields(to map[string][]int, t reflect.Type, above []int) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		f, index := t.Field(i), append(slices.Clip(above), i)
		if name := f.Tag.Get("attr"); name != "" {
			to[name] = index
		} else if f.Anonymous {
			addFields(to, f.Type, index)
		}
	}
}

// find returns the attribute of the block, or that of `defaults`.
func (r *reader) find(name string) *hclsyntax.Attribute {
	a, _ := r.l.find(r.b, name)
	return a
}

// field returns the value of an attribute, or nil if it is not set, null or unknown.
func (r *reader) field(name string) *field { return r.l.field(r.b, name, r.values) }

// fault reports an error at the value of an attribute.
func (r *reader) fault(name, detail, format string, args ...any) {
	r.l.errorAt(r.find(name).Expr.Range(), detail, format, args...)
}

// conflict reports an error at the name of an attribute that another one excludes.
func (r *reader) conflict(name, other, say, detail, format string, args ...any) {
	r.l.bothAt(r.find(name).NameRange, r.find(other).NameRange, say, detail, format, args...)
}

// set converts the value of f to the type of a field, and checks it as the row says.
func (r *reader) set(f *field, to any) {
	switch to := to.(type) {
	case *string:
		*to = r.text(f)
	case *bool:
		b := f.boolean()
		*to = b != nil && *b
	case **bool:
		*to = f.boolean()
	case *int:
		*to = f.integer()
	case *int64:
		*to = f.size()
	case *time.Duration:
		*to = f.duration()
	case *[]item:
		*to = f.items()
	case *[]string:
		*to = r.words(f)
	case *map[string]string:
		*to = map[string]string{}
		for k, v := range f.textMap() {
			if v != nil {
				(*to)[k] = *v
			}
		}
	case *[]Define:
		*to = r.defines(f)
	case *Flags:
		*to = r.flags(f)
	case *[]gencode.Code:
		*to = r.codes(f)
	case *Gencode:
		*to = r.gencode(f)
	case *standard:
		*to = f.standard()
	case *[]Dep:
		*to = r.deps(f)
	case *reference:
		*to = f.reference()
	default:
		panic(fmt.Sprintf("BUG: %s: no attribute has the type %T", f.row.Name, to))
	}
}

// wrong reports a value of a type that does not convert.
func (f *field) wrong(needs string) {
	help := ""
	if s, ok := asText(f.val); ok && f.val.Type() == cty.String && f.row.Type != "" &&
		strings.HasPrefix(needs, "a list of strings") {
		words := []string{s}
		if f.row.Name == "command" {
			words = strings.Fields(s)
		}
		for i, w := range words {
			words[i] = strconv.Quote(w)
		}
		help = fmt.Sprintf("Write %s = [%s].", f.row.Name, strings.Join(words, ", "))
	}
	f.errorAt(f.rng, help, "%s needs %s, not %s", f.row.Name, needs, typeName(f.val))
}

// text converts to a string: one of the words of its row, of the form of its row, or a path.
func (r *reader) text(f *field) string {
	s, ok := asText(f.val)
	switch row := f.row; {
	case !ok:
		f.wrong("a string")
	case row.Words != nil && !slices.Contains(row.Words, s):
		r.l.errorAt(f.rng, "One of: "+strings.Join(row.Words, ", ")+".",
			"%s = %q is not known%s", row.Name, s, didYouMean(s, row.Words))
		return ""
	case !r.hasForm(row, item{s, f.rng}) && row.form.check == nil:
		return ""
	case row.path && s == "":
		r.l.errorAt(f.rng, "", "%s is empty", row.Name)
	case row.path:
		return r.sourcePath(s)
	}
	return s
}

// hasForm reports whether a text has the form of its row, and an error otherwise.
func (r *reader) hasForm(row *Attribute, it item) bool {
	switch form := row.form; {
	case form == nil:
		return true
	case form.check != nil:
		err := form.check(it.text)
		if err != nil {
			r.l.errorAt(it.rng, form.help, "%s: %v", row.Name, err)
		}
		return err == nil
	case !form.valid().MatchString(it.text):
		return r.l.errorAt(it.rng, form.help, "%q is not a %s", it.text, form.what)
	}
	return true
}

// boolean converts to true or false, or returns nil.
func (f *field) boolean() *bool {
	v, err := convert.Convert(f.val, cty.Bool)
	if err != nil || v.IsNull() {
		f.wrong("true or false")
		return nil
	}
	b := v.True()
	return &b
}

// integer converts to a whole number within the bounds of its row.
func (f *field) integer() int {
	v, err := convert.Convert(f.val, cty.Number)
	if err != nil || v.IsNull() {
		f.wrong("a number")
		return 0
	}
	n, accuracy := v.AsBigFloat().Int64()
	if accuracy != big.Exact || n < f.row.Min || n > f.row.Max {
		f.errorAt(f.rng, "", "%s needs a whole number from %d to %d", f.row.Name, f.row.Min,
			f.row.Max)
		return 0
	}
	return int(n)
}

// size converts "4GiB" or a number of bytes.
func (f *field) size() int64 {
	s, ok := asText(f.val)
	if !ok {
		f.wrong(`a size such as "4GiB"`)
		return 0
	}
	n, err := ParseSize(s)
	if err != nil {
		f.errorAt(f.rng, "", "%s: %v", f.row.Name, err)
	}
	return n
}

// duration converts a time such as "90s"; a bare number is in seconds.
func (f *field) duration() time.Duration {
	s, ok := asText(f.val)
	if !ok {
		f.wrong(`a time such as "90s"`)
		return 0
	}
	written := s
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		f.errorAt(f.rng, "",
			`%s: %q is not a time; write for example "90s", "5m" or a number of seconds`,
			f.row.Name, written)
		return 0
	}
	return d
}

// elements returns the elements of a list or set.
func (f *field) elements(of string) []cty.Value {
	if !isList(f.val) {
		f.wrong("a list of " + of)
		return nil
	}
	return f.val.AsValueSlice()
}

// items converts to a list of strings.
func (f *field) items() []item {
	var out []item
	places := literals(f.expr)
	for _, e := range f.elements("strings") {
		s, ok := asText(e)
		if !ok {
			f.errorAt(f.rng, "", "%s needs a list of strings, and one element is %s", f.row.Name,
				typeName(e))
			continue
		}
		out = append(out, item{s, places.take(s, f.rng)})
	}
	return out
}

// words converts to a list of strings, and checks them as the row says.
func (r *reader) words(f *field) (out []string) {
	row := f.row
	for _, it := range f.items() {
		s := it.text
		switch {
		case row.Words != nil && !slices.Contains(row.Words, s):
			r.l.unknown(it.rng, "kind", s, row.Words, "%s: %q is not a kind of device code file",
				row.Name, s)
			continue
		case row.Words != nil && slices.Contains(out, s), row.option != "" && !r.isName(row, it):
			continue
		case row.form != nil:
			r.hasForm(row, it)
		case row.exists:
			s = r.sourcePath(s)
			if r.l.generated[s] == "" && !r.l.mustExist(s, it.rng) {
				continue
			}
		case row.path:
			s = inFolder(r.b.dir, cleanPath(s))
			if name := r.l.decomposed(s); name != "" && name != s {
				r.l.mustExist(s, it.rng)
			}
		}
		out = append(out, s)
	}
	return out
}

// isName reports options and file names in a list of names: libs = ["-lm", "libz.so"].
func (r *reader) isName(row *Attribute, it item) bool {
	if rest, ok := strings.CutPrefix(it.text, row.option); ok {
		return r.l.errorAt(it.rng, fmt.Sprintf("Write %q.", rest), "%s takes names, not options", row.Name)
	}
	if it.text == "" {
		return r.l.errorAt(it.rng, "", "%s has an empty element", row.Name)
	}
	// The linker would search for liblibz.so.so. It uses :libz.so.1 unchanged: that is a name.
	base := path.Base(it.text)
	stem, _, _ := strings.Cut(base, ".so")
	stem = strings.TrimSuffix(stem, ".a")
	if row.option != "-l" || stem == base || strings.HasPrefix(it.text, ":") {
		return true
	}
	help := fmt.Sprintf("Write %q; one of the project's is a target in deps, one that lies "+
		"elsewhere a prebuilt block, or has its folder in lib_dirs.", strings.TrimPrefix(stem, "lib"))
	return r.l.errorAt(it.rng, help, "%s takes names, and %s is a file", row.Name, it.text)
}

// textMap converts to a map of strings; a null value becomes nil.
func (f *field) textMap() map[string]*string {
	if !isMap(f.val) {
		f.wrong("a map")
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
			f.errorAt(f.keyRange(key), "",
				"%s: the value of %q must be a string, a number or a boolean, not %s",
				f.row.Name, key, typeName(v))
			continue
		}
		out[key] = &s
	}
	return out
}

// reference converts to a reference to a block.
func (f *field) reference() reference {
	if f.val.Type() != referenceType {
		f.errorAt(f.rng, fmt.Sprintf("Write %s.NAME, without quotes.", f.row.Name),
			"%s takes a reference, not %s", f.row.Name, typeName(f.val))
		return reference{}
	}
	return reference{f.val.EncapsulatedValue().(*target), f.rng}
}

// sourcePath returns a path as Project spells it: relative if it is inside the project.
func (r *reader) sourcePath(s string) string {
	if s == "" {
		return s
	}
	return r.rooted(inFolder(r.b.dir, cleanPath(s)))
}

// rooted returns a path as Project spells it. p is absolute or relative to the root.
func (r *reader) rooted(p string) string {
	if filepath.IsAbs(p) {
		if rel, err := filepath.Rel(r.l.project.Root, p); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return p
}

// cleanPath returns a path as a project spells it: slash-separated, relative to its root.
func cleanPath(s string) string { return path.Clean(filepath.ToSlash(s)) }

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

// keyRange returns the range of a key in a map literal, or that of the whole attribute.
func (f *field) keyRange(key string) hcl.Range { return f.under(key, f.val).rng }

// under returns the value of a key of a map as a field. Its range is that of the key in a map
// literal, or that of the whole attribute.
func (f *field) under(key string, val cty.Value) *field {
	row := &Attribute{Name: f.row.Name + "." + key}
	if obj, ok := f.expr.(*hclsyntax.ObjectConsExpr); ok {
		for _, it := range obj.Items {
			if k, ok := literalKey(it.KeyExpr); ok && k == key {
				return &field{f.reports, row, it.KeyExpr.Range(), it.ValueExpr, val}
			}
		}
	}
	return &field{f.reports, row, f.rng, f.expr, val}
}

// literalKey returns a key of a map literal; ok is false if it is computed.
func literalKey(e hclsyntax.Expression) (key string, ok bool) {
	if key = hcl.ExprAsKeyword(e); key != "" {
		return key, true
	}
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return "", false
	}
	return v.AsString(), true
}
