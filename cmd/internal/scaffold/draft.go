package scaffold

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Draft is a manifest that records the origin of each line. Lines that the planner rejects can
// therefore be removed.
type Draft struct {
	Programs, Libraries int
	LeftOut             []string // what is missing, or not built by default, and why
	nothing             bool     // buildable: every target lacks something
	blocks              []*block
	lines               []origin
}

// block is a block of a manifest with its comments.
type block struct {
	comments   []string
	kind, name string
	attrs      []*attribute
	nested     []*block
}

// attribute is an expression, or a list or map of expressions.
type attribute struct {
	comments []string
	key      string
	expr     string
	items    []string
	open     string // "[" or "{" if there are items
	sub      []*attribute
}

// origin identifies what a line of the manifest contains.
type origin struct {
	block *block
	attr  *attribute
	item  int // -1 means the whole attribute
}

// Fault is an error of a plan. Line counts from 1.
type Fault struct {
	Line int
	Text string
}

func (b *block) label() string { return b.kind + "." + b.name }

func (b *block) set(key, expr string, comments ...string) {
	b.attrs = append(b.attrs, &attribute{key: key, expr: expr, comments: comments})
}

func (b *block) list(key string, texts []string, comments ...string) {
	b.items(key, "[", quoted(texts), comments...)
}

func (b *block) items(key, open string, items []string, comments ...string) {
	if len(items) > 0 {
		b.attrs = append(b.attrs, &attribute{key: key, items: items, open: open, comments: comments})
	}
}

// quote formats a text as an HCL string.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "${", "$${", "%{", "%%{", "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

func quoted(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, quote(t))
	}
	return out
}

type draftWriter struct {
	text  strings.Builder
	lines []origin
}

func (w *draftWriter) line(at origin, format string, args ...any) {
	fmt.Fprintf(&w.text, format+"\n", args...)
	w.lines = append(w.lines, at)
}

func (w *draftWriter) comment(indent, text string) {
	w.line(origin{}, "%s# %s", indent, strings.ReplaceAll(text, "\n", " "))
}

// Text returns the manifest in the format of kbuild fmt.
func (d *Draft) Text() string {
	w := &draftWriter{}
	w.comment("", "kernels.hcl: written by kbuild init. See kbuild's docs/init.md and docs/manifest.md.")
	for _, b := range d.blocks {
		w.line(origin{}, "")
		w.block(b, "")
	}
	if len(d.LeftOut) > 0 {
		w.line(origin{}, "")
		w.comment("", "Left out, or not built by default:")
		for _, n := range d.LeftOut {
			w.comment("", "- "+n)
		}
	}
	d.lines = w.lines
	text, diags := manifest.Format([]byte(w.text.String()), manifest.DefaultFile)
	if diags.HasErrors() { // the plan reports the errors
		return w.text.String()
	}
	return string(text)
}

func (w *draftWriter) block(b *block, indent string) {
	for _, c := range b.comments {
		w.comment(indent, c)
	}
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

func (w *draftWriter) attribute(b *block, a *attribute, indent string) {
	at := origin{b, a, -1}
	for _, c := range a.comments {
		w.comment(indent, c)
	}
	end := map[string]string{"[": "]", "{": "}"}[a.open]
	if strings.HasPrefix(a.open, "concat(") {
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
	case len(strings.Join(a.items, ", ")) < 100 && a.open == "[" && (a.key != "sources" || len(a.items) == 1):
		w.line(at, "%s%s = [%s]", indent, a.key, strings.Join(a.items, ", "))
	case len(a.items) == 1:
		w.line(at, "%s%s = %s %s %s", indent, a.key, a.open, a.items[0], end)
	default:
		w.line(at, "%s%s = %s", indent, a.key, a.open)
		for i, item := range a.items {
			w.line(origin{b, a, i}, "%s  %s%s", indent, item, map[bool]string{true: ","}[a.open != "{"])
		}
		w.line(at, "%s%s", indent, end)
	}
}

// Drop removes the lines that a plan rejected, and records them in LeftOut. It returns false if a
// fault is outside the manifest's blocks.
func (d *Draft) Drop(faults []Fault) bool {
	var from []origin
	for _, f := range faults {
		if f.Line < 1 || f.Line > len(d.lines) || d.lines[f.Line-1].block == nil {
			return false
		}
		from = append(from, d.lines[f.Line-1])
	}
	for i := len(from) - 1; i >= 0; i-- { // backwards, since items are addressed by index
		if o := from[i]; !slices.Contains(from[:i], o) {
			d.drop(o, faults[i].Text)
		}
	}
	return len(from) > 0
}

func (d *Draft) drop(o origin, why string) {
	if strings.Contains(why, `lto = "none"`) && o.block.kind == "prebuilt" && o.attr == nil {
		o.block.set("lto", `"none"`, "Its code is not for LTO.")
		return
	}
	what := "all of it"
	switch {
	case o.attr == nil || len(o.block.attrs) == 1:
		d.remove(o.block)
	case o.attr.key == "code" && o.block.kind == "gencode" || o.attr.key == "sources" && (o.item < 0 || len(o.attr.items) == 1):
		d.remove(o.block)
	case o.item >= 0 && o.item < len(o.attr.items) && len(o.attr.items) > 1:
		what = o.attr.key + " " + o.attr.items[o.item]
		o.attr.items = slices.Delete(slices.Clone(o.attr.items), o.item, o.item+1)
	default:
		what = strings.TrimSpace(o.attr.key + " " + strings.Join(o.attr.items, ", ") + o.attr.expr)
		o.block.without(o.attr)
	}
	d.LeftOut = append(d.LeftOut, fmt.Sprintf("%s: %s: %s", o.block.label(), what, why))
}

// without removes an attribute from a block or from one of its attributes.
func (b *block) without(gone *attribute) {
	is := func(a *attribute) bool { return a == gone }
	for _, a := range slices.Clone(b.attrs) {
		if a.sub != nil {
			if a.sub = slices.DeleteFunc(a.sub, is); len(a.sub) == 0 {
				b.attrs = slices.DeleteFunc(b.attrs, func(have *attribute) bool { return have == a })
			}
		}
	}
	b.attrs = slices.DeleteFunc(b.attrs, is)
}

// remove deletes a block and all references to it.
func (d *Draft) remove(gone *block) {
	d.blocks = slices.DeleteFunc(slices.Clone(d.blocks), func(b *block) bool { return b == gone })
	for _, b := range d.blocks {
		b.nested = slices.DeleteFunc(b.nested, func(n *block) bool { return n == gone })
		for _, a := range slices.Clone(b.attrs) {
			a.items = slices.DeleteFunc(a.items, func(item string) bool { return item == gone.label() })
			if a.open != "" && len(a.items) == 0 || a.expr == gone.label() {
				b.attrs = slices.DeleteFunc(b.attrs, func(have *attribute) bool { return have == a })
			}
		}
	}
	d.blocks = slices.DeleteFunc(d.blocks, func(b *block) bool { return b.kind == "group" && len(b.attrs) == 0 })
	d.count()
}

// count updates Programs and Libraries.
func (d *Draft) count() {
	d.Programs, d.Libraries = 0, 0
	for _, b := range d.blocks {
		switch b.kind {
		case "executable":
			d.Programs++
		case "library":
			d.Libraries++
		}
	}
}

// HasTargets reports whether any target is left to build by default.
func (d *Draft) HasTargets() bool {
	for _, b := range d.blocks {
		if b.kind == "group" && b.name == "default" {
			return len(b.attrs) > 0
		}
	}
	return !d.nothing && d.Programs+d.Libraries > 0
}

// HasCUDA reports whether the manifest ships NVIDIA code.
func (d *Draft) HasCUDA() bool {
	return slices.ContainsFunc(d.blocks, func(b *block) bool {
		return b.kind == "variable" && slices.ContainsFunc(b.attrs, func(a *attribute) bool {
			return a.key == "default" && strings.Contains(strings.Join(a.items, ","), "sm_")
		})
	})
}
