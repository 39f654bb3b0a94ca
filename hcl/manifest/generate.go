package manifest

import (
	"cmp"
	"path"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// A generate block runs a command that writes files into BuildDir/gen/NAME. Everything else sees
// those paths: self.outputs in its own command, generate.NAME.outputs elsewhere.

func (l *loader) decodeGenerate(b *block) {
	r := l.reader(b, nil)
	r.required()
	t := r.newTarget(Generate)
	t.Outputs = plainTexts(l.outputs(b))
	t.Command = plainTexts(r.texts("command"))
	if f := r.field("command"); f != nil && isList(f.val) && (len(t.Command) == 0 || t.Command[0] == "") {
		l.errorAt(f.rng, `Write the program and its arguments: ["python3", "tools/make.py", self.outputs[0]]. There is no shell.`, "the command of %s is empty", b.heading())
	}
	for _, it := range r.texts("inputs") {
		p := r.sourcePath(it.text)
		if l.generated[p] != "" || l.mustExist(p, it.rng) {
			t.Inputs = append(t.Inputs, p)
		}
	}
	t.Memory = r.size("memory")
	l.project.Targets = append(l.project.Targets, t)
}

// self is what a command sees of its own block.
func (l *loader) self(b *block) map[string]cty.Value {
	return map[string]cty.Value{"self": cty.ObjectVal(map[string]cty.Value{
		"name":    cty.StringVal(path.Base(b.name)),
		"dir":     cty.StringVal(cmp.Or(b.dir, ".")),
		"outputs": rebased(l.value(attrAddr(b.key(), "outputs")), b.dir, ""),
		"inputs":  rebased(l.value(attrAddr(b.key(), "inputs")), b.dir, ""),
	})}
}

// outputs reads the outputs as declared.
func (l *loader) outputs(b *block) []item {
	var out []item
	first := map[string]hcl.Range{}
	r := l.reader(b, nil)
	if f := r.field("outputs"); f != nil && isEmpty(f.val) {
		l.errorAt(f.rng, "Name the files that the command writes.", "%s has no outputs", b.heading())
	}
	for _, it := range r.texts("outputs") {
		p := cleanPath(it.text)
		switch prev, twice := first[p]; {
		case filepath.IsAbs(p) || strings.HasPrefix(p, "../") || p == "..":
			l.errorAt(it.rng, "Outputs are relative to a folder of the build tree and stay in it.", "the output %s leaves the build tree", it.text)
			continue
		case p == "." || strings.HasSuffix(it.text, "/"):
			l.errorAt(it.rng, "Name every file.", "the output %q is no file", it.text)
			continue
		case twice:
			l.bothAt(it.rng, prev, "first here", "", "%s writes %s twice", b.heading(), p)
			continue
		}
		first[p] = it.rng
		out = append(out, item{p, it.rng})
	}
	return out
}

// outputPaths is the value of generate.NAME.outputs.
func (l *loader) outputPaths(b *block) cty.Value {
	a := b.body.Attributes["outputs"]
	if a == nil || !l.eval(a.Expr, nil).IsWhollyKnown() {
		return cty.DynamicVal
	}
	var list []string
	for _, it := range l.outputs(b) {
		list = append(list, l.buildPath("gen", genFolder(b.name), it.text))
	}
	return rebased(stringList(list), "", b.dir)
}

// collectOutputs learns which generate block makes which file.
func (l *loader) collectOutputs() {
	for _, b := range l.blocks {
		if b.kind != "generate" {
			continue
		}
		for _, it := range l.outputs(b) {
			l.generated[l.buildPath("gen", genFolder(b.name), it.text)] = b.key()
		}
	}
}
