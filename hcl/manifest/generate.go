package manifest

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/kbuild-dev/kbuild/graph/fileset"
)

// A generate block runs a command that writes files into BuildDir/gen/NAME. Its own command refers
// to their paths as self.outputs, other blocks as generate.NAME.outputs.
//
// If outputs contains a folder or a pattern, the files are dynamic outputs: they are known only
// after the command has run. Then they are those of the list that it left in the build tree
// (fileset.ListAndPack). Without such a list Load returns only the targets that these commands
// need: see Project.Pending.

func (r *reader) generate() *Target {
	l, b, t := r.l, r.b, r.newTarget(Generate).Target
	t.Patterns, t.Outputs = l.outputs(b).patterns(), l.outputs(b).files
	f := r.field("command")
	if f != nil && isList(f.val) && (len(t.Command) == 0 || t.Command[0] == "") {
		l.errorAt(f.rng, `Write the program and its arguments: ["python3", "tools/make.py", `+
			`self.outputs[0]]. There is no shell.`, "the command of %s is empty", b.heading())
	}
	if t.Depfile != "" {
		t.Depfile = cleanPath(t.Depfile)
	}
	return t
}

// self returns the variable self if an expression of a block uses it, as its command may.
func (l *evaluator) self(b *block, expr hclsyntax.Expression) map[string]cty.Value {
	if b.kind != "generate" || !l.refsOf(expr).own {
		return nil
	}
	depfile := l.value(l.attribute(b, "depfile"))
	if name, ok := asText(depfile); ok {
		depfile = cty.StringVal(l.genPath(b, name))
	}
	writes := rebased(l.value(l.attribute(b, "outputs")), b.dir, "")
	if patterns := l.outputs(b).patterns(); patterns != nil {
		var list []string
		for _, p := range patterns { // of a folder its path
			list = append(list, l.genPath(b, strings.TrimSuffix(p, "**")))
		}
		writes = stringList(list)
	}
	return map[string]cty.Value{"self": cty.ObjectVal(map[string]cty.Value{
		"name":       cty.StringVal(path.Base(b.name)),
		"source_dir": cty.StringVal(cmp.Or(b.dir, ".")),
		"dir":        cty.StringVal(l.genPath(b)),
		"depfile":    depfile,
		"outputs":    writes,
		"inputs":     rebased(l.value(l.attribute(b, "inputs")), b.dir, ""),
	})}
}

// outputs are the files that the command of a generate block writes.
type outputs struct {
	declared []string // relative to the folder of the block; a folder is a pattern
	dynamic  bool     // one is a pattern, for files whose names only the command knows
	files    []string // the outputs, or if they are dynamic those of the command's last run
	known    bool     // files are known
}

// patterns returns the declared outputs if they are dynamic.
func (o outputs) patterns() []string {
	if o.dynamic {
		return o.declared
	}
	return nil
}

// outputs returns the outputs of a block.
func (l *evaluator) outputs(b *block) outputs {
	out, ok := l.outputsOf[b]
	if !ok {
		out = l.readOutputs(b)
		l.outputsOf[b] = out
	}
	return out
}

func (l *evaluator) readOutputs(b *block) (out outputs) {
	f := l.field(b, "outputs", nil)
	if f == nil {
		return outputs{known: true}
	}
	if isEmpty(f.val) {
		l.errorAt(f.rng, "Name the files that the command writes.", "%s has no outputs", b.heading())
	}
	first := map[string]hcl.Range{}
	for _, it := range f.items() {
		p := cleanPath(it.text)
		_, badPattern := path.Match(it.text, "")
		switch prev, twice := first[p]; {
		case filepath.IsAbs(p) || strings.HasPrefix(p, "../") || p == "..":
			l.errorAt(it.rng, "Outputs are relative to a folder of the build tree and stay in it.",
				"the output %s leaves the build tree", it.text)
			continue
		case p == "." && it.text != "./":
			l.errorAt(it.rng, `For all files that the command writes: "./".`,
				"the output %q is not a file", it.text)
			continue
		case badPattern != nil:
			l.errorAt(it.rng, "", "in the output %q a bracket is not closed", it.text)
			continue
		case twice:
			l.bothAt(it.rng, prev, "first here", "", "%s writes %s twice", b.heading(), p)
			continue
		}
		first[p] = it.rng
		if strings.HasSuffix(it.text, "/") {
			p = path.Join(p, "**")
		}
		out.declared = append(out.declared, p)
		out.dynamic = out.dynamic || strings.ContainsAny(p, "*?[")
	}
	if !out.dynamic {
		out.files, out.known = out.declared, true
	} else if !l.opts.IgnoreDynamic {
		name, _ := fileset.ListAndPack(l.genPath(b))
		if text, err := l.fsys.read(l.project.Root, name); err == nil {
			out.files, _ = fileset.ReadList(text)
		}
		out.known = out.files != nil
	}
	return out
}

// keepPending drops all targets except those that the runnable pending commands need. A command
// can run if the values of everything that it needs are known.
func (l *loader) keepPending(pending []*block) {
	needed := map[string]bool{}
	for _, b := range pending {
		if need := map[string]bool{}; l.known(b, need) {
			l.project.Pending = append(l.project.Pending, b.key())
			maps.Copy(needed, need)
		}
	}
	if len(l.project.Pending) == 0 {
		b := pending[0]
		l.errorAt(b.rng, "Name the outputs of one of the two.",
			"%s needs files whose names are known only when another such command has run, which needs it",
			b.heading())
	}
	l.blocks = slices.DeleteFunc(l.blocks, func(b *block) bool {
		return isTarget(b.kind) && !needed[b.key()] || b.kind == "test" || b.kind == "group"
	})
}

// known reports whether the values of b and of its dependencies are known. It adds the blocks to
// needed.
func (l *loader) known(b *block, needed map[string]bool) bool {
	if needed[b.key()] {
		return true
	}
	needed[b.key()] = true
	r := l.reader(b, nil)
	var needs []string // labels of blocks
	for _, a := range b.attrs() {
		if b.schema.Attribute(a.Name) == nil || b.kind == "generate" && a.Name == "outputs" ||
			l.refsOf(a.Expr).own && b.kind != "generate" {
			continue
		}
		v := l.attributeValue(b, a, nil)
		if !v.IsWhollyKnown() {
			return false
		}
		if (a.Name == "inputs" || a.Name == "sources") && isList(v) {
			for _, e := range v.AsValueSlice() {
				text, _ := asText(e)
				needs = append(needs, l.generated[r.sourcePath(text)])
			}
		}
	}
	if f := r.field("deps"); f != nil {
		for _, d := range r.deps(f) {
			base, _, _ := strings.Cut(d.Label, ":")
			needs = append(needs, base)
		}
	}
	for _, label := range needs {
		if other := l.named[label]; other != nil && !l.known(other, needed) {
			return false
		}
	}
	return true
}

// outputPaths returns the value of generate.NAME.outputs.
func (l *evaluator) outputPaths(b *block) cty.Value {
	a := b.body.Attributes["outputs"]
	if a == nil || !l.eval(a.Expr, nil).IsWhollyKnown() {
		return cty.DynamicVal
	}
	out := l.outputs(b)
	if !out.known {
		return cty.DynamicVal
	}
	var list []string
	for _, f := range out.files {
		list = append(list, l.genPath(b, f))
	}
	return rebased(stringList(list), "", b.dir)
}

// genPath returns a path in the output folder of a block.
func (l *sourceTree) genPath(b *block, elem ...string) string {
	return l.buildPath(append([]string{"gen", fileset.Flat(b.name)}, elem...)...)
}
