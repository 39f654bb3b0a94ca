package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Variables: a declaration has a type and a default. The effective value is chosen in the order
// default < profile < kernels.local.hcl < KBUILD_VAR_name < --var. Only that value is converted to
// the type of the variable and validated.

// EnvPrefix is the prefix of environment variables that set variables.
const EnvPrefix = "KBUILD_VAR_"

func (l *evaluator) declareVariable(b *block) {
	n := &node{addr: "var." + b.name, rng: b.rng, block: b, typ: cty.DynamicPseudoType, setAt: b.rng}
	if a := b.body.Attributes["type"]; a != nil {
		typ, diags := typeexpr.TypeConstraint(a.Expr)
		for _, d := range diags {
			word := string(d.Subject.SliceBytes(l.project.sources[d.Subject.Filename]))
			l.errorAt(*d.Subject, d.Detail, "%q is not a type%s", word,
				didYouMean(word, strings.Fields("any bool list map number object set string tuple")))
		}
		if !diags.HasErrors() {
			n.typ = typ
		}
	}
	l.nodes[n.addr] = n
}

// checkOverrides reports overrides of variables that do not exist.
func (l *loader) checkOverrides() {
	for _, b := range l.blocks {
		if b.kind != "profile" {
			continue
		}
		for _, a := range b.attrs() { // even if this run does not use the profile
			if !l.has("variable", a.Name) {
				l.unknown(a.NameRange, "variable", a.Name, l.names["variable"],
					"%s sets %q, which is not a variable", b.heading(), a.Name)
			}
		}
	}
	l.project.Profiles = l.names["profile"]
	if l.opts.Profile != "" && l.named["profile."+l.opts.Profile] == nil {
		l.errorf(knownNames("profile", l.names["profile"]), "no profile named %q%s", l.opts.Profile,
			didYouMean(l.opts.Profile, l.names["profile"]))
	}
	for _, name := range sortedKeys(l.local) {
		l.checkVariable(Diagnostic{Pos: position(l.local[name].NameRange)}, name)
	}
	for _, name := range sortedKeys(l.opts.Vars) {
		l.checkVariable(Diagnostic{Summary: "--var " + name + ": "}, name)
	}
	for _, kv := range slices.Sorted(slices.Values(l.opts.Environ)) {
		key, _, _ := strings.Cut(kv, "=")
		if name, ok := strings.CutPrefix(key, EnvPrefix); ok { // projects share the environment
			l.checkVariable(Diagnostic{Severity: Warning, Summary: "environment " + key + ": "}, name)
		}
	}
}

// checkVariable adds a diagnostic if there is no variable of a name.
func (l *loader) checkVariable(d Diagnostic, name string) {
	if known := l.names["variable"]; !l.has("variable", name) {
		d.Summary += fmt.Sprintf("no variable named %q%s", name, didYouMean(name, known))
		d.Detail = knownNames("variable", known)
		l.addQuoted(d)
	}
}

// variableValue returns the effective value, converted to the type.
func (l *evaluator) variableValue(n *node) cty.Value {
	name := n.block.name
	if text, ok := l.opts.Vars[name]; ok {
		n.source = "--var"
		return l.textValue(n, "--var "+name, text)
	}
	if l.opts.Env != nil {
		if text, ok := l.opts.Env(EnvPrefix + name); ok {
			n.source = "environment " + EnvPrefix + name
			return l.textValue(n, n.source, text)
		}
	}
	if a := l.local[name]; a != nil {
		n.source = LocalFile
		return l.exprValue(n, a.Expr, l.typeOf(n))
	}
	if b := l.named["profile."+l.opts.Profile]; b != nil && l.opts.Profile != "" {
		if a := b.body.Attributes[name]; a != nil {
			n.source = "profile " + b.name
			return l.exprValue(n, a.Expr, l.typeOf(n))
		}
	}
	if a := n.block.body.Attributes["default"]; a != nil {
		n.source = "default"
		return l.exprValue(n, a.Expr, n.typ)
	}
	l.errorAt(n.block.rng,
		fmt.Sprintf("Pass --var %s=VALUE, set %s%s, or give it a default.", name, EnvPrefix, name),
		"variable %q has no value", name)
	return cty.DynamicVal
}

// typeOf returns the declared type. Without one, it is the type of a primitive default.
func (l *evaluator) typeOf(n *node) cty.Type {
	a := n.block.body.Attributes["default"]
	if a == nil || n.block.body.Attributes["type"] != nil {
		return n.typ
	}
	if t := l.eval(a.Expr, nil).Type(); t.IsPrimitiveType() {
		return t
	}
	return n.typ
}

func (l *evaluator) exprValue(n *node, e hclsyntax.Expression, typ cty.Type) cty.Value {
	n.setAt = e.Range()
	val := l.eval(e, nil)
	if holdsReference(val) {
		l.errorAt(e.Range(), "Variables hold text, numbers, booleans, and lists and maps of them.",
			"variable %q cannot hold a target or gencode", n.block.name)
		return cty.DynamicVal
	}
	out, err := converted(val, typ)
	if err != nil {
		l.bothAt(e.Range(), n.block.rng, "declared here", "", "variable %q: %s", n.block.name,
			typeError(err, typ))
		return cty.DynamicVal
	}
	if err := soundNumbers(out); err != nil {
		l.errorAt(e.Range(), "", "variable %q: %v", n.block.name, err)
		return cty.DynamicVal
	}
	if out.IsNull() {
		l.errorAt(e.Range(), "", "variable %q is null", n.block.name)
		return cty.DynamicVal
	}
	return out
}

func typeError(err error, typ cty.Type) string {
	if typ.IsPrimitiveType() {
		return "a " + typ.FriendlyName() + " is required"
	}
	return err.Error()
}

func holdsReference(v cty.Value) bool {
	found := false
	cty.Walk(v, func(_ cty.Path, e cty.Value) (bool, error) {
		found = found || e.Type() == referenceType
		return !found, nil
	})
	return found
}

// textValue parses a value given as text. Primitive types are taken literally, a list of primitive
// values may be "a,b,c", and anything else is an expression.
func (l *evaluator) textValue(n *node, from, text string) cty.Value {
	typ := l.typeOf(n)
	val, err := l.parseText(text, typ)
	if err == nil {
		err = soundNumbers(val)
	}
	if err == nil {
		return val
	}
	d := l.at(n.block.rng, "", fmt.Sprintf("%s=%s: %s", from, text, err))
	if typ.IsListType() || typ.IsSetType() {
		d.Detail = `Write a,b,c or ["a", "b", "c"].`
	}
	l.add(d)
	return cty.DynamicVal
}

func (l *evaluator) parseText(text string, typ cty.Type) (cty.Value, error) {
	if typ.IsPrimitiveType() {
		v, err := convert.Convert(cty.StringVal(text), typ)
		if err != nil {
			err = errors.New(typeError(err, typ))
		}
		return v, err
	}
	trimmed := strings.TrimSpace(text)
	if (typ.IsListType() || typ.IsSetType()) && typ.ElementType().IsPrimitiveType() &&
		!strings.HasPrefix(trimmed, "[") {
		var list []cty.Value
		for part := range strings.SplitSeq(trimmed, ",") {
			if p := strings.TrimSpace(part); p != "" {
				list = append(list, cty.StringVal(p))
			}
		}
		return convert.Convert(cty.TupleVal(list), typ)
	}
	if tooDeep([]byte(text)) >= 0 {
		return cty.DynamicVal, fmt.Errorf("more than %d nested brackets or signs", maxDepth)
	}
	e, diags := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos)
	if !diags.HasErrors() {
		diags = guard(e)
	}
	if typ == cty.DynamicPseudoType && (diags.HasErrors() || len(e.Variables()) > 0) {
		return cty.StringVal(text), nil
	}
	if diags.HasErrors() {
		return cty.DynamicVal, fmt.Errorf("no %s: %s", typ.FriendlyName(), diags[0].Summary)
	}
	val, diags := e.Value(nil)
	if diags.HasErrors() {
		why, _ := inOurWords(diags[0])
		return cty.DynamicVal, fmt.Errorf("no %s: %s", typ.FriendlyName(), why)
	}
	val, err := convert.Convert(val, typ)
	if err == nil && val.IsNull() {
		err = fmt.Errorf("null is not a value")
	}
	return val, err
}

func (l *loader) evaluateVariables() {
	for _, b := range l.blocks {
		if b.kind == "variable" {
			l.value(l.nodes["var."+b.name])
		}
	}
	for _, b := range l.blocks {
		if b.kind != "variable" {
			continue
		}
		n := l.nodes["var."+b.name]
		l.validate(n)
		out := Variable{Name: b.name, Type: "any", Source: n.source}
		if a := b.body.Attributes["type"]; a != nil {
			out.Type = string(a.Expr.Range().SliceBytes(l.project.sources[a.Expr.Range().Filename]))
		}
		l.reader(b, nil).decode(&out)
		if v := l.value(n); v.IsWhollyKnown() {
			if text, err := ctyjson.Marshal(v, v.Type()); err == nil {
				out.Value = string(text)
			}
		}
		l.project.Variables = append(l.project.Variables, out)
	}
}

// validate reports a failed condition with the author's message, at the value that fails it.
func (l *loader) validate(n *node) {
	for _, rule := range n.block.nested {
		var fields struct {
			Message string `attr:"error_message"`
		}
		l.reader(rule, nil).decode(&fields)
		cond := rule.body.Attributes["condition"]
		if cond == nil || rule.body.Attributes["error_message"] == nil {
			continue
		}
		val, err := convert.Convert(l.eval(cond.Expr, nil), cty.Bool)
		switch {
		case err != nil || val.IsNull():
			l.errorAt(cond.Expr.Range(), "", "a condition must be true or false")
		case val.IsKnown() && val.False():
			l.bothAt(n.setAt, cond.Expr.Range(), "does not hold",
				fmt.Sprintf("The value is from: %s.", n.source), "variable %q: %s", n.block.name, fields.Message)
		}
	}
}
