package discover

import (
	"crypto/sha256"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// # Edits of comments
//
// An edit of a comment in a shared header changes the input of every compile that includes it, but
// no output. After a compile of plain C or C++, its record has the normal forms of the project's
// headers (pptext.NormalForm) besides their contents. The compile need not run again while all
// discovered files are unchanged, or are headers with the normal forms of the record.
//
// The record itself is not updated: it describes the headers that the compiler read. So an output
// that is reused in this way stays in the build tree. A chain of edits is always compared with the
// compile, not with the previous edit. The cache stores no forms, and compares contents.
//
// A compile has no forms if its output may depend on comments or on the bytes of a header. That is
// so if its options are not known to ignore comments (host.IgnoresComments), or if its compiler may
// add options. It is also so if the compile printed something, since messages show lines.
// IsValidInTokens checks the remaining cases: headers that use clocks or are read by the assembler,
// and headers that #pragma once may treat as one.

// formVersion is part of each digest. Increment it when normal forms change.
const formVersion = "1\n"

// normalForm returns the digest of the normal form of a header, or zero if it has none. content is
// the digest of its expected content.
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

// NormalForms returns the normal forms of the headers that a record of a discovered. It returns
// none if comments in them may matter.
func (d *Discovery) NormalForms(a *graph.Action, rec *cache.Record) (forms []cache.FileDigest) {
	cxx := []string{".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".CPP"}
	if !a.Kind.Info().CompilesSource() || a.InPlace || a.Work != (graph.Work{}) || len(a.Outputs) != 1 ||
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

// IsValidInTokens reports whether everything that a record discovered is unchanged, except for
// comments in headers.
func (d *Discovery) IsValidInTokens(a *graph.Action, rec *cache.Record) bool {
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
	if len(changed) == 0 || !d.IsValid(a, &now) || d.CommandTellsTime(a) {
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
