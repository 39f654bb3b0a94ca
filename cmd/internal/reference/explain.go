package reference

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Explain writes the entry of a name. The name is a block (library), an attribute of one
// (library.type) or of any block (opt), or a key of an attribute (flags.nvcc). If entries with that
// name differ, they are listed. Without a name the blocks are listed.
func Explain(w io.Writer, name string) error {
	p := &terminal{w: w}
	if name == "" {
		for _, b := range manifest.Schema().Blocks {
			p.item(b.Name, firstSentence(b.Text))
		}
		p.text("Try: `kbuild explain library`, `kbuild explain library.sources`, `kbuild explain flags.nvcc`")
		return nil
	}
	all := entries("", manifest.Schema())
	var found []entry
	for _, e := range all {
		if e.path == name || strings.HasSuffix(e.path, "."+name) {
			found = append(found, e)
		}
	}
	some := subjects(found)
	switch {
	case len(some) == 0:
		return unknown(name, all)
	case len(some) == 1:
		p.section(1, some[0].short())
		some[0].write(p)
		return nil
	}
	for _, s := range some {
		p.item(strings.Join(append([]string{s.short()}, s.also...), ", "), firstSentence(s.about()))
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

// Names returns the names that Explain accepts: blocks and attributes, qualified and unqualified.
func Names() []string { return namesOf(entries("", manifest.Schema())) }

func namesOf(all []entry) []string {
	known := map[string]bool{}
	for _, e := range all {
		known[e.short()] = true
		known[e.path[strings.LastIndex(e.path, ".")+1:]] = true
	}
	return slices.Sorted(maps.Keys(known))
}

func unknown(name string, all []entry) error {
	list := namesOf(all)
	meant := manifest.Nearest(name, list)
	if i := strings.LastIndex(name, "."); meant == "" && i >= 0 {
		meant = manifest.Nearest(name[i+1:], list)
	}
	if meant != "" {
		return fmt.Errorf("a manifest has no %q; did you mean %q?", name, meant)
	}
	return fmt.Errorf("a manifest has no %q; kbuild explain lists its blocks", name)
}
