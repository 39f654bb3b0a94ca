package importer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Document is a manifest that records the origin of each line. A failed plan names lines, and
// Document can remove their origins.
type Document struct {
	Head   []string // comments at its start
	Lost   string   // the title of Notes
	Notes  []string // what is not in it, or not built by default, and why
	blocks []*block
	lines  []origin // of the last Text, by line
}

// block is a block of a manifest with its comments.
type block struct {
	comments   []string
	kind, name string
	attrs      []*attribute
	nested     []*block
}

// attribute is an expression, a list, a map of expressions, or a map of attributes.
type attribute struct {
	comments []string
	key      string
	expr     string
	items    []string
	open     string // "[", "{" or "concat(..., [" if there are items
	sub      []*attribute
}

// origin identifies what a line of the manifest contains.
type origin struct {
	block *block
	attr  *attribute
	item  int // of the attribute; -1 means the whole attribute
}

func (b *block) label() string { return strings.TrimSuffix(b.kind+"."+b.name, ".") }

// set sets an attribute to an expression, unless that is empty.
func (b *block) set(key, expr string, comments ...string) {
	if expr != "" {
		b.attrs = append(b.attrs, &attribute{key: key, expr: expr, comments: comments})
	}
}

// list sets an attribute to a list of strings.
func (b *block) list(key string, texts []string, comments ...string) {
	b.items(key, "[", quoted(texts), comments...)
}

func (b *block) items(key, open string, items []string, comments ...string) {
	if len(items) > 0 {
		b.attrs = append(b.attrs, &attribute{key: key, items: items, open: open, comments: comments})
	}
}

// attribute returns the attribute with a key, or nil.
func (b *block) attribute(key string) *attribute {
	if i := slices.IndexFunc(b.attrs, func(a *attribute) bool { return a.key == key }); i >= 0 {
		return b.attrs[i]
	}
	return nil
}

// text returns the attribute without comments, for comparison.
func (a *attribute) text() string {
	out := a.key + "=" + a.expr + strings.Join(a.items, ",")
	for _, s := range a.sub {
		out += ";" + s.text()
	}
	return out
}

// remove deletes an attribute of the block, or one inside of its maps of attributes.
func (b *block) remove(gone *attribute) {
	b.attrs = slices.DeleteFunc(b.attrs, func(a *attribute) bool {
		had := len(a.sub)
		a.sub = slices.DeleteFunc(a.sub, func(s *attribute) bool { return s == gone })
		return a == gone || had > 0 && len(a.sub) == 0
	})
}

// quote formats a text as an HCL string.
func quote(s string) string {
	return `"` + visible(quotes.Replace(s)) + `"`
}

var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "${", "$${", "%{", "%%{")

// visible escapes what a manifest must not hold: control characters, as names of files may have.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
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

func (w *writer) comments(indent string, texts []string) {
	for _, t := range texts {
		w.line(origin{}, "%s# %s", indent, visible(strings.ReplaceAll(t, "\n", " ")))
	}
}

// Text returns the manifest in the format of kbuild fmt.
func (d *Document) Text() string {
	w := &writer{}
	w.comments("", d.Head)
	for _, b := range d.blocks {
		w.line(origin{}, "")
		w.block(b, "")
	}
	if len(d.Notes) > 0 {
		w.line(origin{}, "")
		w.comments("", []string{d.Lost + ":"})
		for _, n := range d.Notes {
			w.comments("", []string{"- " + n})
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
	w.comments(indent, b.comments)
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

// attribute writes an attribute. Each of several items has its own line, so that a plan that
// rejects one costs only that one.
func (w *writer) attribute(b *block, a *attribute, indent string) {
	at := origin{b, a, -1}
	w.comments(indent, a.comments)
	end, comma := "]", ","
	switch {
	case a.open == "{":
		end, comma = "}", ""
	case strings.HasPrefix(a.open, "concat("):
		end = "])"
	}
	switch {
	case a.sub != nil:
		w.line(at, "%s%s = {", indent, a.key)
		for _, s := range a.sub {
			w.attribute(b, s, indent+"  ")
		}
		w.line(at, "%s}", indent)
	case a.open == "":
		w.line(at, "%s%s = %s", indent, a.key, a.expr)
	case len(a.items) == 1 && a.open == "{":
		w.line(at, "%s%s = { %s }", indent, a.key, a.items[0])
	case len(a.items) == 1:
		w.line(at, "%s%s = %s%s%s", indent, a.key, a.open, a.items[0], end)
	default:
		w.line(at, "%s%s = %s", indent, a.key, a.open)
		for i, item := range a.items {
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

// required lists the attributes that their block cannot be without.
var required = []string{"sources", "match", "archive", "shared"}

func (d *Document) drop(o origin, why string) {
	if strings.Contains(why, `lto = "none"`) && o.block.kind == "prebuilt" && o.attr == nil {
		o.block.set("lto", `"none"`, "Its code is not for LTO.")
		return
	}
	what := "all of it"
	switch {
	case o.attr == nil:
		d.remove(o.block)
	case o.item >= 0 && o.item < len(o.attr.items) && len(o.attr.items) > 1:
		what = o.attr.key + " " + o.attr.items[o.item]
		o.attr.items = slices.Delete(slices.Clone(o.attr.items), o.item, o.item+1)
	default:
		what = strings.TrimSpace(o.attr.key + " " + strings.Join(o.attr.items, ", ") + o.attr.expr)
		o.block.remove(o.attr)
		if slices.Contains(required, o.attr.key) {
			d.remove(o.block)
			what = "all of it, for " + what
		}
	}
	d.Notes = append(d.Notes, fmt.Sprintf("%s: %s: %s", o.block.label(), what, why))
}

// remove deletes a block and all references to it.
func (d *Document) remove(gone *block) {
	is := func(b *block) bool { return b == gone }
	d.blocks = slices.DeleteFunc(slices.Clone(d.blocks), is)
	for _, b := range d.blocks {
		b.nested = slices.DeleteFunc(b.nested, is)
		b.attrs = slices.DeleteFunc(b.attrs, func(a *attribute) bool {
			a.items = slices.DeleteFunc(a.items, func(i string) bool { return i == gone.label() })
			return a.open != "" && len(a.items) == 0 || a.expr == gone.label()
		})
	}
}

// UseCompiler sets the toolchain's compiler to the nvcc of the other build. It returns false if
// that is impossible or already done.
func (d *Document) UseCompiler(nvcc string) bool {
	i := slices.IndexFunc(d.blocks, func(b *block) bool { return b.kind == "toolchain" })
	if i < 0 || nvcc == "" || d.blocks[i].attribute("compiler") != nil {
		return false
	}
	d.blocks[i].set("compiler", quote(nvcc))
	return true
}

// Count returns the number of blocks of a kind.
func (d *Document) Count(kind string) (n int) {
	for _, b := range d.blocks {
		if b.kind == kind {
			n++
		}
	}
	return n
}

// HasTargets reports whether any target is left to build by default.
func (d *Document) HasTargets() bool {
	for _, b := range d.blocks {
		if b.kind == "group" && b.name == "default" {
			return len(b.attrs) > 0
		}
	}
	return d.Count("library")+d.Count("executable")+d.Count("module") > 0
}

// HasCUDA reports whether the manifest ships code for NVIDIA's GPUs.
func (d *Document) HasCUDA() bool {
	return slices.ContainsFunc(d.blocks, func(b *block) bool {
		return slices.ContainsFunc(b.attrs, func(a *attribute) bool {
			code := a.expr + strings.Join(a.items, ",")
			return a.key == "code" && strings.Contains(code, "sm_")
		})
	})
}
