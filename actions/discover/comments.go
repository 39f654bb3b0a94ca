package discover

import (
	"crypto/sha256"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
)

// # Edits of comments
//
// A comment in a shared header changes what every compile that includes it reads, and nothing that
// it makes. After a compile of plain C or C++ its record in the build tree has the normal forms of
// the project's headers (pptext.NormalForm) besides their contents. The compile need not run again
// while all that it discovered is as it was, but for headers with the normal forms of the record.
//
// The record stays what it is: what the compiler made of the headers that it read. So nothing that
// was decided in this way ever leaves the build tree, and a chain of such edits is compared with
// the compile, not with one another. A cache, which has no forms, compares contents.
//
// A compile that may make something of comments or of the bytes of a header has no forms: one with
// options that are not known for the contrary (host.IgnoresComments), by a compiler that may add
// some, or that printed something, as messages show lines. HoldsInTokens looks for the rest:
// headers that are read for their time or by the assembler, or that #pragma once takes for one.

// formVersion is in each digest. Raise it when normal forms change.
const formVersion = "1\n"

// normalForm returns the digest of the normal form of a header with a content; zero if it has none.
func (d *Discovery) normalForm(file string, content cache.Digest) cache.Digest {
	return d.sources.forms.of(content, func() (form cache.Digest, ok bool) {
		text, err := d.sources.read(file)
		if err != nil || sha256.Sum256(text) != content {
			return form, false
		}
		defer d.sources.buffers.Put(&text)
		if normal, ok := pptext.NormalForm(text); ok {
			form = sha256.Sum256(append([]byte(formVersion), normal...))
		}
		return form, true
	})
}

// NormalForms returns the normal forms of the headers that a record of a discovered, where comments
// in them are known not to matter.
func (d *Discovery) NormalForms(a *graph.Action, rec *cache.Record) (forms []cache.FileDigest) {
	cxx := []string{".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".CPP"}
	if a.Kind != graph.HostCompile || a.InPlace || a.Work != (graph.Work{}) || len(a.Outputs) != 1 ||
		!d.Plain[a.Tools[0]] || !slices.Contains(cxx, path.Ext(a.Inputs[0])) ||
		!host.IgnoresComments(a.Argv[1:]) || rec.Text != "" {
		return nil
	}
	for _, f := range rec.Discovered {
		switch ext := path.Ext(f.Path); {
		case IsCondition(f.Path), slices.Contains([]string{pch, ".pch", ".pcm", ".gcm"}, ext):
			return nil
		case path.IsAbs(f.Path):
			continue
		}
		if form := d.normalForm(f.Path, f.Digest); !form.IsZero() {
			forms = append(forms, cache.FileDigest{Path: f.Path, Digest: form})
		}
	}
	return forms
}

// HoldsInTokens reports whether everything a record discovered is still as it was, but for comments
// in headers.
func (d *Discovery) HoldsInTokens(a *graph.Action, rec *cache.Record) bool {
	now, changed := *rec, map[string]bool{}
	now.Discovered = slices.Clone(rec.Discovered)
	for _, form := range rec.Forms {
		i := slices.IndexFunc(now.Discovered, func(f cache.FileDigest) bool { return f.Path == form.Path })
		is, err := d.Digest(form.Path)
		if i < 0 || err != nil || is == now.Discovered[i].Digest || d.normalForm(form.Path, is) != form.Digest {
			continue
		}
		now.Discovered[i].Digest, changed[form.Path] = is, true
	}
	if len(changed) == 0 || !d.Holds(a, &now) || d.CommandTellsTime(a) {
		return false
	}
	for _, found := range [][]cache.FileDigest{rec.Discovered, now.Discovered} {
		seen := map[cache.Digest]string{} // a file by its content
		for _, f := range a.Inputs {
			if is, err := d.Digest(f); err == nil {
				seen[is] = f
			}
		}
		for _, f := range found {
			if twin, ok := seen[f.Digest]; ok && (changed[f.Path] || changed[twin]) {
				return false
			}
			seen[f.Digest] = f.Path
		}
	}
	scans := []*sourceScan{scanText([]byte(strings.Join(a.Argv, "\n")))} // macros of the command
	system := systemDirs(now.Discovered)
	for _, f := range slices.Concat(a.Inputs, paths(now.Discovered)) {
		isSystem := func(dir string) bool { return strings.HasPrefix(f, dir) }
		if !slices.ContainsFunc(system, isSystem) {
			scans = append(scans, d.sources.scan(f))
		}
	}
	return !slices.ContainsFunc(scans, func(s *sourceScan) bool {
		return s.clocks != (clocks{}) || s.imports || s.embeds || s.incbin.any() || s.warns
	})
}
