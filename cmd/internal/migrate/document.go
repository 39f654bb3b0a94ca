package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Document is a manifest that records the origin of each line. A failed plan names lines, and
// Document can remove their origins.
type Document struct {
	Head   []string // comments
	blocks []*block
	Notes  []Note
	lines  []origin // of the last Text, by line
}

// block is a block of a manifest.
type block struct {
	kind, name string
	attrs      []*attribute
	nested     []*block
}

// attribute is an expression, a list, a map of expressions, or a map of attributes.
type attribute struct {
	key   string
	expr  string
	items []string
	open  string // "[" or "{" if there are items
	sub   []*attribute
}

// origin identifies what a line of the manifest contains.
type origin struct {
	block *block
	attr  *attribute
	item  int // of the attribute; -1 means the whole attribute
}

func (b *block) label() string { return b.kind + "." + b.name }

func (b *block) set(key, expr string) {
	if expr != "" {
		b.attrs = append(b.attrs, &attribute{key: key, expr: expr})
	}
}

// list sets an attribute to a list of strings.
func (b *block) list(key string, texts []string) { b.items(key, "[", quoted(texts)) }

func (b *block) items(key, open string, items []string) {
	if len(items) > 0 {
		b.attrs = append(b.attrs, &attribute{key: key, items: items, open: open})
	}
}

// quote formats a text as an HCL string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func quoted(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, quote(t))
	}
	return out
}

// writer writes lines and records their origins.
type writer struct {
	text  strings.Builder
	lines []origin
}

func (w *writer) line(o origin, format string, args ...any) {
	fmt.Fprintf(&w.text, format+"\n", args...)
	w.lines = append(w.lines, o)
}

// Text returns the manifest in the format of kbuild fmt.
func (d *Document) Text() string {
	w := &writer{}
	for _, l := range d.Head {
		w.line(origin{}, "# %s", l)
	}
	for _, b := range d.blocks {
		w.line(origin{}, "")
		w.block(b, "")
	}
	if len(d.Notes) > 0 {
		w.line(origin{}, "")
		w.line(origin{}, "# Not carried over:")
		for _, n := range d.Notes {
			w.line(origin{}, "# - %s", strings.ReplaceAll(n.String(), "\n", " "))
		}
	}
	d.lines = w.lines
	text, diags := manifest.Format([]byte(w.text.String()), manifest.DefaultFile)
	if diags.HasErrors() { // the plan reports the errors
		return w.text.String()
	}
	return string(text)
}

func (w *writer) block(b *block, indent string) {
	name := ""
	if b.name != "" {
		name = " " + quote(b.name)
	}
	w.line(origin{b, nil, -1}, "%s%s%s {", indent, b.kind, name)
	for _, a := range b.attrs {
		w.attribute(b, a, indent+"  ")
	}
	for _, n := range b.nested {
		w.line(origin{}, "")
		w.block(n, indent+"  ")
	}
	w.line(origin{b, nil, -1}, "%s}", indent)
}

func (w *writer) attribute(b *block, a *attribute, indent string) {
	at := origin{b, a, -1}
	end := map[string]string{"[": "]", "{": "}"}[a.open]
	switch {
	case a.sub != nil:
		w.line(at, "%s%s = {", indent, a.key)
		for _, s := range a.sub {
			w.attribute(b, s, indent+"  ")
		}
		w.line(at, "%s}", indent)
	case a.open == "":
		w.line(at, "%s%s = %s", indent, a.key, a.expr)
	case len(a.items) == 1 && a.open == "[":
		w.line(at, "%s%s = [%s]", indent, a.key, a.items[0])
	case len(a.items) == 1:
		w.line(at, "%s%s = { %s }", indent, a.key, a.items[0])
	default:
		w.line(at, "%s%s = %s", indent, a.key, a.open)
		for i, item := range a.items {
			comma := map[string]string{"[": ","}[a.open]
			w.line(origin{b, a, i}, "%s  %s%s", indent, item, comma)
		}
		w.line(at, "%s%s", indent, end)
	}
}

// Fault is an error of a plan. Line counts from 1.
type Fault struct {
	Line int
	Text string
}

// Drop removes the lines that a plan rejected, and records them in Notes. It returns false if a
// fault is outside the blocks.
func (d *Document) Drop(faults []Fault) bool {
	var from []origin
	for _, f := range faults {
		if f.Line < 1 || f.Line > len(d.lines) || d.lines[f.Line-1].block == nil {
			return false
		}
		from = append(from, d.lines[f.Line-1])
	}
	// Go backwards, since items are addressed by index.
	for i := len(from) - 1; i >= 0; i-- {
		if o := from[i]; !slices.Contains(from[:i], o) {
			d.drop(o, faults[i].Text)
		}
	}
	return len(from) > 0
}

func (d *Document) drop(o origin, why string) {
	what := o.block.kind + " block"
	switch {
	case o.attr == nil:
		d.remove(o.block)
	case o.item >= 0 && o.item < len(o.attr.items) && len(o.attr.items) > 1:
		what = o.attr.key + " " + o.attr.items[o.item]
		o.attr.items = slices.Delete(slices.Clone(o.attr.items), o.item, o.item+1)
	default:
		what = strings.TrimSpace(o.attr.key + " " + strings.Join(o.attr.items, ", ") + o.attr.expr)
		d.removeAttribute(o.block, o.attr)
	}
	d.Notes = append(d.Notes, Note{o.block.label(), fmt.Sprintf("%s: %s", what, why)})
}

// removeAttribute removes an attribute from a block. If the block requires the attribute, the block
// is removed too.
func (d *Document) removeAttribute(b *block, a *attribute) {
	without := func(list []*attribute) []*attribute {
		return slices.DeleteFunc(list, func(have *attribute) bool { return have == a })
	}
	b.attrs = without(b.attrs)
	for _, f := range b.attrs {
		if f.sub = without(f.sub); f.key == "flags" && len(f.sub) == 0 {
			b.attrs = slices.DeleteFunc(b.attrs, func(have *attribute) bool { return have == f })
			break
		}
	}
	if a.key == "sources" || a.key == "match" || a.key == "code" && b.kind == "gencode" || a.key == "archive" || a.key == "shared" {
		d.remove(b)
	}
}

// remove deletes a block and all references to it.
func (d *Document) remove(gone *block) {
	d.blocks = slices.DeleteFunc(slices.Clone(d.blocks), func(b *block) bool { return b == gone })
	for _, b := range d.blocks {
		b.nested = slices.DeleteFunc(b.nested, func(n *block) bool { return n == gone })
		for _, a := range slices.Clone(b.attrs) {
			a.items = slices.DeleteFunc(a.items, func(item string) bool { return a.key == "deps" && item == gone.label() })
			if a.open != "" && len(a.items) == 0 || a.expr == gone.label() {
				b.attrs = slices.DeleteFunc(b.attrs, func(have *attribute) bool { return have == a })
			}
		}
	}
}

// UseCompiler sets the toolchain's compiler to the nvcc of the other build. It returns false if
// that is impossible or already done.
func (d *Document) UseCompiler(nvcc string) bool {
	for _, b := range d.blocks {
		if b.kind == "toolchain" && nvcc != "" && !slices.ContainsFunc(b.attrs, func(a *attribute) bool { return a.key == "compiler" }) {
			b.set("compiler", quote(nvcc))
			return true
		}
	}
	return false
}

// HasTargets reports whether any target is left to build.
func (d *Document) HasTargets() bool {
	return slices.ContainsFunc(d.blocks, func(b *block) bool { return b.kind == "library" || b.kind == "executable" || b.kind == "module" })
}
