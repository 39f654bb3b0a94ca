package manifest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// around is what the manifests of these tests hold besides: what examples refer to, and targets
// that take the defaults.
const around = `
gencode "server" { code = ["sm_80"] }
library "solver" { sources = ["src/util.c"] }
executable "check" { sources = ["src/util.c"] }
library "heir" { sources = ["src/a.cu"] }
executable "heir" { sources = ["src/b.cu"] }
module "heir" { sources = ["src/gemm.cu"] }
`

// beside are lines that an attribute needs in its block.
var beside = map[string]string{
	"module.exclude": "matrix = { tile = [64, 128] }", "variable.type": `default = ["a"]`, "variable.description": "default = 1",
	"toolchain.from": `version = "13.5.0"`, "library.soversion": `type = "shared"`,
}

// withAttribute gives a manifest with the line in a block that holds nothing else but what must be
// there, and the number of the line.
func withAttribute(path []*Block, a *Attribute, line string) (text string, at int) {
	var head, tail string
	for i, b := range path {
		label := ""
		switch {
		case b.Name == "toolchain":
			label = ` "cuda"`
		case b.Label != "":
			label = ` "x"`
		}
		head += b.Name + label + " {\n"
		tail += "}\n"
		for _, other := range b.Attributes {
			if other.Required && (other.Name != a.Name || i < len(path)-1) {
				head += other.Example + "\n"
			}
		}
		switch inner := i == len(path)-1; {
		case b.Name == "prebuilt" && a.Name != "archive" && a.Name != "shared":
			head += "archive = \"third_party/libspectra.a\"\n"
		case b.Name == "variable" && !inner:
			head += "default = 1\n"
		case inner && beside[b.Name+"."+a.Name] != "":
			head += beside[b.Name+"."+a.Name] + "\n"
		}
	}
	return head + line + "\n" + tail + around, strings.Count(head, "\n") + 1
}

// eachAttribute calls f for every attribute of the schema, with the blocks around it.
func eachAttribute(t *testing.T, f func(t *testing.T, path []*Block, a *Attribute)) {
	var walk func(path []*Block)
	walk = func(path []*Block) {
		b := path[len(path)-1]
		for i := range b.Attributes {
			a := &b.Attributes[i]
			t.Run(b.Name+"."+a.Name, func(t *testing.T) { f(t, path[1:], a) })
			for j := range a.Keys {
				t.Run(b.Name+"."+a.Name+"."+a.Keys[j].Name, func(t *testing.T) { f(t, path[1:], &a.Keys[j]) })
			}
		}
		for _, n := range b.Blocks {
			walk(append(slices.Clone(path), n))
		}
	}
	walk([]*Block{Schema()})
}

// An attribute that no code reads may have a value of any type. Code that asks for an attribute
// that is not in the schema panics.
func TestEveryAttributeIsRead(t *testing.T) {
	eachAttribute(t, func(t *testing.T, path []*Block, a *Attribute) {
		name, _, _ := strings.Cut(a.Example, " ") // flags, of flags.nvcc
		wrong := name + " = true"
		switch {
		case a.Type == AnyType:
			return
		case name != a.Name:
			wrong = name + " = { " + a.Name + " = true }"
		case slices.Contains([]Type{StringType, BoolType, NumberType, SizeType, DurationType, StandardType, TypeType}, a.Type):
			wrong = name + " = {}"
		}
		text, line := withAttribute(path, a, wrong)
		_, diags := try(text, Options{Version: "0.1.0"})
		if !slices.ContainsFunc(diags, func(d Diagnostic) bool { return d.Severity == Error && d.Pos.Line == line }) {
			t.Errorf("no error at line %d of\n%s\n%s", line, text, rendered(diags))
		}
	})
}

// A tag that no row has is a mistake: nothing sets its field.
func TestTagsAreRows(t *testing.T) {
	rows := map[string]bool{}
	var walk func(b *Block)
	walk = func(b *Block) {
		for _, a := range b.Attributes {
			rows[a.Name] = true
		}
		for _, n := range b.Blocks {
			walk(n)
		}
	}
	walk(Schema())
	l := newLoader(Options{})
	for _, v := range []any{record{}, Source{}, Toolchain{}, Cache{}, Package{}, Variable{}, Gencode{}, Group{}, Test{}, Embed{}} {
		fields := l.fieldsOf(reflect.TypeOf(v))
		if len(fields) == 0 {
			t.Errorf("%T has no tags", v)
		}
		for name := range fields {
			if !rows[name] {
				t.Errorf("%T: no row %s", v, name)
			}
		}
	}
}

// Examples are manifests that load; every row says what a reader looks for.
func TestExamples(t *testing.T) {
	loads := func(t *testing.T, text string) {
		t.Helper()
		if _, diags := try(text, Options{Version: "0.1.0"}); diags.HasErrors() {
			t.Errorf("%s\n%s", text, rendered(diags))
		}
	}
	eachAttribute(t, func(t *testing.T, path []*Block, a *Attribute) {
		if a.Type == "" || !strings.HasSuffix(a.Text, ".") || !strings.Contains(a.Example, a.Name+" = ") || a.Max < a.Min {
			t.Errorf("the row is incomplete: %+v", *a)
		}
		if word := strings.Trim(a.Default, `"[]`); len(a.Words) > 0 && strings.HasPrefix(a.Default, `"`) && !slices.Contains(a.Words, word) {
			t.Errorf("the default %s is none of %q", a.Default, a.Words)
		}
		if path[0].Name == "module" && len(path) == 2 && a.Name == "code" {
			return // the files of a module are for one list of code
		}
		text, _ := withAttribute(path, a, a.Example)
		loads(t, text)
		for _, word := range a.Words {
			if name, _, _ := strings.Cut(a.Example, " "); a.Type == StringType {
				text, _ := withAttribute(path, a, name+` = "`+word+`"`)
				loads(t, text)
			}
		}
	})
	var walk func(b *Block)
	walk = func(b *Block) {
		for _, n := range b.Blocks {
			if !strings.HasSuffix(n.Text, ".") || !strings.Contains(n.Example, n.Name) {
				t.Errorf("%s: the row is incomplete", n.Name)
			}
			loads(t, n.Example)
			walk(n)
		}
	}
	walk(Schema())
}
