// Package reference writes kbuild's reference documentation: the manifest's attributes from
// manifest.Schema(), and the command line from kong's model. One traversal writes each for a
// terminal, as Markdown and as a man page. It does not know what an attribute means: all sentences
// come from the schema.
package reference

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Page is a document format. Texts mark `code` with backquotes.
type Page interface {
	Section(level int, title string)
	Text(s string)
	Item(term, s string) // a term of a list with its description
	Code(s string)
	See(where string) // a page of docs, with an anchor
}

// entry is a block, an attribute, or a key of an attribute.
type entry struct {
	path      string // library.partition.match
	block     *manifest.Block
	attribute *manifest.Attribute // nil means the block itself
}

// entries returns a block and everything in it, in the order of the schema.
func entries(path string, b *manifest.Block) (out []entry) {
	if path != "" {
		out = append(out, entry{path, b, nil})
		path += "."
	}
	for i := range b.Attributes {
		a := &b.Attributes[i]
		out = append(out, entry{path + a.Name, b, a})
		for j := range a.Keys {
			out = append(out, entry{path + a.Name + "." + a.Keys[j].Name, b, &a.Keys[j]})
		}
	}
	for _, n := range b.Blocks {
		out = append(out, entries(path+n.Name, n)...)
	}
	return out
}

// short returns the path without the enclosing block of a nested block. Nested blocks with the same
// name are the same everywhere.
func (e entry) short() string {
	_, rest, nested := strings.Cut(e.path, ".")
	if nested && manifest.Schema().Block(e.block.Name) == nil {
		return rest
	}
	return e.path
}

// same reports whether two entries have equal documentation, apart from their block.
func (e entry) same(f entry) bool {
	a, b := e.attribute, f.attribute
	if a == nil || b == nil {
		return a == b && e.block == f.block
	}
	return a.Name == b.Name && a.Text == b.Text && a.Becomes == b.Becomes && a.Required == b.Required && a.Default == b.Default
}

func (e entry) about() string {
	if e.attribute == nil {
		return e.block.Text
	}
	return e.attribute.Text
}

// write writes a block without its attributes, or an attribute.
func (s subject) write(p Page) {
	if s.attribute == nil {
		writeBlock(p, s.block)
		return
	}
	a := s.attribute
	p.Text(a.Text)
	p.Code(a.Example)
	p.Item("type", typeOf(a))
	switch {
	case a.Required:
		p.Item("default", "none, it must be written")
	case a.Default != "":
		p.Item("default", a.Default)
	}
	if from := inherited(s.block, a); from != "" {
		p.Item("inherited", from)
	}
	list(p, "also", s.also)
	var keys []string
	for _, k := range a.Keys {
		keys = append(keys, k.Name)
	}
	list(p, "keys", keys)
	if a.Becomes != "" {
		p.Item("becomes", a.Becomes)
	}
	if a.See != "" {
		p.See(a.See)
	}
}

func writeBlock(p Page, b *manifest.Block) {
	p.Text(b.Text)
	p.Code(b.Example)
	if b.Label != "" {
		p.Item("label", b.Label)
	}
	if b.Open != "" {
		p.Item("attributes", b.Open)
	}
	var own, defaults, blocks []string
	for i := range b.Attributes {
		a := &b.Attributes[i]
		if b.Inherits == "defaults" && inherited(b, a) != "" {
			defaults = append(defaults, a.Name)
		} else {
			own = append(own, a.Name)
		}
	}
	for _, n := range b.Blocks {
		blocks = append(blocks, n.Name)
	}
	list(p, "attributes", own)
	list(p, "of defaults", defaults)
	list(p, "blocks", blocks)
	if b.Once {
		p.Item("written", "once")
	}
	if b.See != "" {
		p.See(b.See)
	}
}

func typeOf(a *manifest.Attribute) string {
	switch {
	case len(a.Words) > 0:
		return string(a.Type) + ", of `" + strings.Join(a.Words, "`, `") + "`"
	case a.Max > 0:
		return string(a.Type) + ", from " + strconv.FormatInt(a.Min, 10) + " to " + strconv.FormatInt(a.Max, 10)
	case a.Type == manifest.SizeType:
		return "size, such as `\"4GiB\"` or `\"512M\"`, or a number of bytes"
	case a.Type == manifest.DurationType:
		return "time, such as `\"90s\"` or `\"5m\"`, or a number of seconds"
	case a.Type == manifest.KeysType:
		return "map of lists of strings"
	}
	return string(a.Type)
}

// inherited returns where an attribute comes from that its block does not set; "" if from nowhere.
func inherited(b *manifest.Block, a *manifest.Attribute) string {
	switch defaults := manifest.Schema().Block("defaults"); {
	case b.Inherits == "the target" && !a.Required && b.Attribute(a.Name) != nil:
		return "from the target"
	case (b.Inherits == "defaults" || b == defaults) && defaults.Attribute(a.Name) != nil:
		return "from `defaults`"
	}
	return ""
}

// subject is an entry and the names of entries with equal documentation.
type subject struct {
	entry
	also []string
}

// subjects merges entries with equal documentation.
func subjects(all []entry) []subject {
	var out []subject
	for _, e := range all {
		i := slices.IndexFunc(out, func(s subject) bool { return e.same(s.entry) })
		switch {
		case i < 0:
			out = append(out, subject{entry: e})
		case out[i].short() != e.short() && !slices.Contains(out[i].also, e.short()):
			out[i].also = append(out[i].also, e.short())
		}
	}
	return out
}

// list writes terms as one item, if there are any.
func list(p Page, term string, terms []string) {
	if len(terms) > 0 {
		p.Item(term, "`"+strings.Join(terms, "`, `")+"`")
	}
}

// Explain writes the entry of a name. The name is a block (library), an attribute of one
// (library.type) or of any block (opt), or a key of an attribute (flags.nvcc). If entries with that
// name differ, they are listed. Without a name the blocks are listed.
func Explain(w io.Writer, name string) error {
	p := &terminal{w: w}
	if name == "" {
		for _, b := range manifest.Schema().Blocks {
			p.Item(b.Name, firstSentence(b.Text))
		}
		p.Text("Try: `kbuild explain library`, `kbuild explain library.sources`, `kbuild explain flags.nvcc`")
		return nil
	}
	var found []entry
	for _, e := range entries("", manifest.Schema()) {
		if e.path == name || strings.HasSuffix(e.path, "."+name) {
			found = append(found, e)
		}
	}
	some := subjects(found)
	switch {
	case len(some) == 0:
		near := manifest.Nearest(name, explained())
		if _, attribute, ok := strings.Cut(name, "."); ok && near == "" {
			near = manifest.Nearest(attribute[strings.LastIndexByte(attribute, '.')+1:], explained())
		}
		if near != "" {
			return fmt.Errorf("a manifest has no %q; did you mean %q?", name, near)
		}
		return fmt.Errorf("a manifest has no %q; kbuild explain lists its blocks", name)
	case len(some) == 1:
		p.Section(1, some[0].short())
		some[0].write(p)
		return nil
	}
	for _, s := range some {
		p.Item(strings.Join(append([]string{s.short()}, s.also...), ", "), firstSentence(s.about()))
	}
	return nil
}

func firstSentence(s string) string {
	first, _, more := strings.Cut(s, ". ")
	if more {
		first += "."
	}
	return first
}

// explained returns the names that Explain accepts: blocks and attributes, qualified and
// unqualified.
func explained() []string {
	known := map[string]bool{}
	for _, e := range entries("", manifest.Schema()) {
		known[e.short()] = true
		known[e.path[strings.LastIndex(e.path, ".")+1:]] = true
	}
	return slices.Sorted(maps.Keys(known))
}
