package manifest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Phase two resolves every traversal such as library.solver.sources to an address before anything
// is evaluated. It rewrites the expression: the traversal becomes one variable of the evaluation
// context with that address as its name. This has three benefits. A misspelt name is reported with
// suggestions. The dependencies of an expression are a list of addresses, one per attribute, so
// only true cycles are cycles. And the context is a flat map that fills up as values become known.

// references are the dependencies of one expression.
type references struct {
	nodes    []*node              // to evaluate first
	places   map[string]hcl.Range // range of each address, first occurrence
	own      bool                 // uses matrix, each or self: has a value for each instance
	bad      bool                 // names something unknown: do not evaluate
	resolved bool

	node      *node // of the attribute of the expression, if something refers to it
	value     cty.Value
	evaluated bool // value is known
}

// resolveAll resolves every expression of the manifest.
func (l *evaluator) resolveAll() {
	for _, b := range l.blocks {
		l.resolveBlock(b, b)
	}
	for _, name := range sortedKeys(l.local) {
		l.resolve(l.local[name].Expr, nil, "")
	}
}

func (l *evaluator) resolveBlock(top, b *block) {
	for _, a := range b.attrs() {
		if b.kind == "variable" && a.Name == "type" {
			continue // a type is not an expression
		}
		l.resolve(a.Expr, top, a.Name)
	}
	for _, n := range b.nested {
		l.resolveBlock(top, n)
	}
}

// resolve rewrites an expression of an attribute. It runs once per expression: afterwards the
// original names are gone.
func (l *evaluator) resolve(e hclsyntax.Expression, b *block, attr string) {
	if r := l.refsOf(e); !r.resolved {
		r.resolved = true
		hclsyntax.Walk(e, &resolver{l: l, refs: r, block: b, attr: attr})
	}
}

// refsOf returns the references of an expression; they are empty before it is resolved.
func (e *evaluator) refsOf(expr hclsyntax.Expression) *references {
	r := e.refs[expr]
	if r == nil {
		r = &references{}
		e.refs[expr] = r
	}
	return r
}

// resolver visits an expression; loop variables of `for` hide global names.
type resolver struct {
	l      *evaluator
	refs   *references
	block  *block // nil in kernels.local.hcl
	attr   string
	hidden []map[string]struct{}

	indexed *hclsyntax.ScopeTraversalExpr // traversal that is indexed by a computed key
}

func (r *resolver) Enter(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case *hclsyntax.IndexExpr:
		if t, ok := n.Collection.(*hclsyntax.ScopeTraversalExpr); ok {
			r.indexed = t
		}
	case *hclsyntax.ScopeTraversalExpr:
		r.traversal(n)
	case *hclsyntax.FunctionCallExpr:
		r.call(n)
	case hclsyntax.ChildScope:
		r.hidden = append(r.hidden, n.LocalNames)
	}
	return nil
}

func (r *resolver) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if _, ok := n.(hclsyntax.ChildScope); ok {
		r.hidden = r.hidden[:len(r.hidden)-1]
	}
	return nil
}

func (r *resolver) fail(rng hcl.Range, detail, format string, args ...any) {
	r.refs.bad = true
	r.l.errorAt(rng, detail, format, args...)
}

func (r *resolver) call(n *hclsyntax.FunctionCallExpr) {
	if n.Name == "glob" && r.dir() != "" {
		n.Name = "glob\x00" + r.dir()
		if _, ok := r.l.ctx.Functions[n.Name]; !ok {
			r.l.ctx.Functions[n.Name] = r.l.globFunc(r.dir())
		}
	}
	if _, ok := r.l.ctx.Functions[n.Name]; ok {
		return
	}
	help := ""
	switch n.Name {
	case "file", "templatefile", "exec", "run", "shell", "env", "getenv", "timestamp", "uuid",
		"abspath":
		help = "Functions are pure: they read no file, environment or clock. Set a variable, or make " +
			"the file with a generate block."
	case "fileset", "wildcard":
		help = "Use glob(\"src/*.cu\")."
	}
	r.fail(n.NameRange, help, "no function named %q%s", n.Name,
		didYouMean(n.Name, sortedKeys(r.l.ctx.Functions)))
}

func (r *resolver) traversal(n *hclsyntax.ScopeTraversalExpr) {
	root := n.Traversal.RootName()
	for _, h := range r.hidden {
		if _, ok := h[root]; ok {
			return
		}
	}
	switch {
	case root == "var":
		r.named(n, "variable")
	case root == "local" || root == "gencode" || isTarget(root),
		root == "group" && r.block != nil && r.block.kind == "group":
		r.named(n, root)
	case root == "matrix":
		r.matrix(n)
	case root == "each":
		r.each(n)
	case root == "self":
		r.self(n)
	default:
		r.unknownRoot(n, root)
	}
}

// named resolves KIND.NAME and, for targets and gencode, KIND.NAME.ATTRIBUTE.
func (r *resolver) named(n *hclsyntax.ScopeTraversalExpr, kind string) {
	root := n.Traversal.RootName()
	name, _, ok := step(n.Traversal, 1)
	if !ok {
		r.fail(n.SrcRange, fmt.Sprintf("Write %s.NAME. %s", root, knownNames(kind, r.l.names[kind])),
			"%s alone is not a value", root)
		return
	}
	written := name
	name = r.l.qualified(kind, name, r.dir())
	if !r.l.has(kind, name) {
		r.unknown(n, kind, written, name)
		return
	}
	b := r.l.named[kind+"."+name]
	if key, ok := r.instance(n, b); ok {
		r.rewrite(n, r.l.whole(kind, name+":"+key), 3)
	} else if r.indexed == n && b != nil && b.hasEach() && len(n.Traversal) == 2 {
		r.rewrite(n, r.l.node(node{addr: b.key() + allInstances, rng: b.rng, block: b}), 2)
	} else if kind == "variable" || kind == "local" {
		r.rewrite(n, r.l.nodes[root+"."+name], 2)
	} else if attr, attrRng, ok := step(n.Traversal, 2); ok && kind != "group" {
		if Schema().Block(kind).Attribute(attr) == nil {
			r.refs.bad = true
			r.l.unknown(attrRng, "attribute", attr, Schema().Block(kind).attributeNames(),
				"a %s has no attribute %q", kind, attr)
			return
		}
		r.rewrite(n, r.l.view(b, attr, r.dir()), 3)
	} else {
		r.rewrite(n, r.l.whole(kind, name), 2)
	}
}

// instance returns the key in executable.bench["copy"].
func (r *resolver) instance(n *hclsyntax.ScopeTraversalExpr, b *block) (key string, ok bool) {
	if b == nil || !b.hasEach() || len(n.Traversal) < 3 {
		return "", false
	}
	if _, indexed := n.Traversal[2].(hcl.TraverseIndex); !indexed {
		return "", false
	}
	key, _, ok = step(n.Traversal, 2)
	return key, ok
}

// elsewhere returns help if the name exists with another kind.
func (r *resolver) elsewhere(kind, name string) string {
	for _, k := range slices.Concat(targetKinds(), []string{"variable", "local", "gencode"}) {
		if k == kind || !r.l.has(k, name) {
			continue
		}
		if k == "variable" {
			k = "var"
		}
		return fmt.Sprintf("There is a %s.%s.", k, name)
	}
	return ""
}

// unknown reports a reference to a name that does not exist. written is the name in the manifest,
// name the full name in the project.
func (r *resolver) unknown(n *hclsyntax.ScopeTraversalExpr, kind, written, name string) {
	_, rng, _ := step(n.Traversal, 1)
	known := r.l.names[kind]
	elsewhere := func(full string) bool {
		return path.Base(full) == written && dirAbove(full) != r.dir()
	}
	next, _, _ := step(n.Traversal, 2)
	switch i := slices.IndexFunc(known, elsewhere); {
	case strings.HasPrefix(written, "//") && r.dir() == "":
		r.fail(rng,
			"// is the folder of the build. If a manifest above imports this one, build there: "+
				"kbuild -C FOLDER, or kbuild -C ..", "no %s named %q", kind, written)
	case kind == "local" && i >= 0:
		r.fail(rng, "Another manifest has it, and locals belong to one; use a variable.",
			"no local named %q in this manifest", written)
	case kind == "local":
		own := slices.DeleteFunc(slices.Clone(known),
			func(full string) bool { return dirAbove(full) != r.dir() })
		for i := range own {
			own[i] = path.Base(own[i])
		}
		r.fail(rng, cmp.Or(r.elsewhere(kind, name), knownNames(kind, own)), "no local named %q%s",
			written, r.l.didYouMean(written, own))
	case kind != "variable" && slices.Contains(known, written):
		r.fail(rng, r.spelled(n, written), "no %s named %q", kind, name) // it is the full name
	case slices.Contains(known, name+"/"+next):
		r.fail(rng, r.spelled(n, name+"/"+next), "no %s named %q", kind, name)
	case i >= 0:
		r.fail(rng, r.spelled(n, known[i]), "no %s named %q; did you mean %q?", kind, name, known[i])
	default:
		r.fail(rng, cmp.Or(r.elsewhere(kind, name), knownNames(kind, known)), "no %s named %q%s", kind,
			name, r.l.didYouMean(name, known))
	}
}

// spelled returns help with the name of a target as the manifest of the expression writes it.
func (r *resolver) spelled(n *hclsyntax.ScopeTraversalExpr, name string) string {
	below, ok := strings.CutPrefix(name, r.dir()+"/")
	if !ok && r.dir() != "" {
		below = "//" + name
	}
	return fmt.Sprintf("Write %s[%q].", n.Traversal.RootName(), below)
}

// has reports whether there is a variable, local or block of that kind and name.
func (l *evaluator) has(kind, name string) bool {
	if kind == "local" {
		return l.nodes["local."+name] != nil
	}
	return l.named[kind+"."+name] != nil
}

// rewrite replaces the first steps of a traversal by the address of a node.
func (r *resolver) rewrite(n *hclsyntax.ScopeTraversalExpr, to *node, used int) {
	r.refs.nodes = append(r.refs.nodes, to)
	if r.refs.places == nil {
		r.refs.places = map[string]hcl.Range{}
	}
	if _, ok := r.refs.places[to.addr]; !ok {
		r.refs.places[to.addr] = n.SrcRange
	}
	t := hcl.Traversal{hcl.TraverseRoot{Name: to.addr, SrcRange: n.SrcRange}}
	n.Traversal = append(t, n.Traversal[used:]...)
}

// step returns the name at position i of a traversal: .name or ["name"].
func step(t hcl.Traversal, i int) (string, hcl.Range, bool) {
	if i >= len(t) {
		return "", hcl.Range{}, false
	}
	switch s := t[i].(type) {
	case hcl.TraverseAttr:
		rng := s.SrcRange
		if rng.End.Byte-rng.Start.Byte == len(s.Name)+1 { // without the dot
			rng.Start.Byte++
			rng.Start.Column++
		}
		return s.Name, rng, true
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() {
			return s.Key.AsString(), s.SrcRange, true
		}
	}
	return "", hcl.Range{}, false
}

func (r *resolver) matrix(n *hclsyntax.ScopeTraversalExpr) {
	b := r.block
	if b == nil || b.kind != "module" || b.body.Attributes["matrix"] == nil {
		r.fail(n.SrcRange, "Give the module an attribute matrix = { axis = [...] }.",
			"matrix is known only in a module that has one")
		return
	}
	if r.attr == "matrix" || r.attr == "exclude" {
		r.fail(n.SrcRange, "", "matrix is not known in the attribute %s", r.attr)
		return
	}
	r.refs.own = true
	axes, all := literalKeys(b.body.Attributes["matrix"].Expr)
	axis, rng, ok := step(n.Traversal, 1)
	if ok && all && !slices.Contains(axes, axis) {
		r.refs.bad = true
		r.l.unknown(rng, "axis", axis, axes, "the matrix of %s has no axis %q", b.heading(), axis)
	}
}

func (r *resolver) each(n *hclsyntax.ScopeTraversalExpr) {
	b := r.block
	switch name, rng, ok := step(n.Traversal, 1); {
	case b == nil || !b.hasEach():
		r.fail(n.SrcRange, "Give the block an attribute for_each = [...], if it is an executable, "+
			"a library or a test. For modules there is matrix.",
			"each is known only in a block that has for_each")
	case r.attr == "for_each":
		r.fail(n.SrcRange, "", "each is not known in the attribute for_each")
	case ok && name != "key" && name != "value":
		r.refs.bad = true
		r.l.unknown(rng, "name", name, []string{"key", "value"}, "each has no %q", name)
	default:
		r.refs.own = true
	}
}

// literalKeys returns the keys of an object literal; ok is false if one is computed.
func literalKeys(e hclsyntax.Expression) ([]string, bool) {
	obj, ok := e.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil, false
	}
	var keys []string
	for _, item := range obj.Items {
		k, ok := literalKey(item.KeyExpr)
		if !ok {
			return nil, false
		}
		keys = append(keys, k)
	}
	return keys, true
}

// selfNames are the attributes of `self` in the command of a generate block.
var selfNames = []string{"depfile", "dir", "inputs", "name", "outputs", "source_dir"}

func (r *resolver) self(n *hclsyntax.ScopeTraversalExpr) {
	b := r.block
	if b == nil || b.kind != "generate" || r.attr != "command" {
		r.fail(n.SrcRange, "", "self is known only in the command of a generate block")
		return
	}
	name, rng, ok := step(n.Traversal, 1)
	if ok && !slices.Contains(selfNames, name) {
		r.refs.bad = true
		r.l.unknown(rng, "name", name, selfNames, "self has no %q", name)
		return
	}
	r.refs.own = true
	for _, attr := range []string{"outputs", "inputs", "depfile"} {
		r.refs.nodes = append(r.refs.nodes, r.l.attribute(b, attr))
	}
}

func (r *resolver) unknownRoot(n *hclsyntax.ScopeTraversalExpr, root string) {
	roots := slices.Concat(targetKinds(), []string{"var", "local", "gencode"})
	help := fmt.Sprintf(
		"If text is meant, put it in quotes: %q. References start with var, local, gencode, or a kind "+
			"of target.", root)
	switch root {
	case "variable":
		help = "Variables are read as var.NAME."
	case "locals":
		help = "Local values are read as local.NAME."
	case "count", "path", "module_path", "data":
		help = "This is a word of Terraform. For many alike targets there are for_each in an " +
			"executable and matrix in a module."
	case "package", "cache", "defaults", "profile", "toolchain", "group", "kbuild", "test":
		help = "A " + root + " block has no value to refer to."
	}
	if len(n.Traversal) > 1 {
		help = strings.TrimPrefix(help, fmt.Sprintf("If text is meant, put it in quotes: %q. ", root))
	}
	attr, _, ok := step(n.Traversal, 1)
	if ok && slices.Contains(strings.Fields("cu cpp cc cxx c hip s S h cuh a so o"), attr) {
		help = fmt.Sprintf("If a file is meant, put it in quotes: %q.", root+"."+attr)
	}
	meant := didYouMean(root, roots)
	if root == "variable" || root == "locals" {
		meant = ""
	}
	r.fail(n.Traversal[0].SourceRange(), help, "nothing is named %q here%s", root, meant)
}
