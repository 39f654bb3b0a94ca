package discover

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// A record also depends on conditions that are not files. They are stored among the files that it
// discovered: macros, by name; weak inputs, by their index in DiagnosticInputs; the folders of the
// dynamic loader; which of several equal headers are one file; and conditions that are never valid.
// A weak input has no stable file name: it depends on the last architecture, the target and the
// build tree.
const (
	macroMark  = "-D"
	weakMark   = "<weak "
	neverMark  = "<never> " // and a reason: the action runs each time
	loaderMark = "<folders of the dynamic loader>"
	folderMark = "<folder of the project>" // see NamesRoot
)

// Paths below the root are recorded relative to it, so that a record is valid in a copy of the
// project in another folder. That fails if the sources or options contain the root: in an #include
// or __has_include, in CPATH, or in an absolute -I. In a copy, such a path still names a file of
// the first project. A record of such a command is valid only in its own folder.

// spells reports whether a path contains the root, and is not relative to it.
func (t Tree) spells(p string) bool {
	return path.IsAbs(p) && strings.HasPrefix(path.Clean(p)+"/", t.Root+"/")
}

// inThisFolder returns the condition that the project is in this folder.
func (t Tree) inThisFolder() cache.FileDigest {
	return cache.FileDigest{Path: folderMark, Digest: sha256.Sum256([]byte(t.Root))}
}

// NamesRoot reports whether a record's command read a file by a path that contains the root.
func NamesRoot(rec *cache.Record) bool { return discovers(rec, folderMark) }

// never returns a condition that is never valid.
func never(why string) cache.FileDigest { return cache.FileDigest{Path: neverMark + why} }

// RunsEachTime returns why the action of a record runs each time, or "" if it does not.
func RunsEachTime(rec *cache.Record) string {
	for _, f := range rec.Discovered {
		if why, ok := strings.CutPrefix(f.Path, neverMark); ok {
			return why
		}
	}
	return ""
}

// IsCondition reports whether a name is a macro, a weak input or another condition, not a file.
func IsCondition(name string) bool {
	return strings.HasPrefix(name, macroMark) || strings.HasPrefix(name, weakMark) || strings.HasPrefix(name, neverMark) || strings.HasPrefix(name, oneMark) ||
		name == loaderMark || name == folderMark
}

func weakName(i int) string { return fmt.Sprintf("%s%d>", weakMark, i) }

// weakInput returns the current file of a weak-input condition; ok is false if the action has none.
func weakInput(a *graph.Action, name string) (file string, ok bool) {
	for i, w := range a.Pass().DiagnosticInputs {
		if name == weakName(i) {
			return w, true
		}
	}
	return "", false
}

// macroValue returns a digest of the value that a command defines a macro with.
func macroValue(a *graph.Action, name string) cache.Digest {
	for _, arg := range a.Argv {
		if v, ok := strings.CutPrefix(arg, "-D"+name+"="); ok {
			return sha256.Sum256([]byte(v))
		}
	}
	return cache.Digest{}
}

// Conditions returns what a record depends on besides files of the project. Values of macros count
// if a preprocessed text used them, or if a file that a read mentions them. If the command printed
// diagnostics, the unmodified text counts as well.
func (d *Discovery) Conditions(a *graph.Action, found []cache.FileDigest, used []string, printed bool) []cache.FileDigest {
	if a.Kind.Info().Writes != graph.FormText {
		used = d.mentioned(a, found)
	}
	var out []cache.FileDigest
	for _, m := range used {
		out = append(out, cache.FileDigest{Path: macroMark + m, Digest: macroValue(a, m)})
	}
	if printed {
		for i, w := range a.Pass().DiagnosticInputs {
			digest, _ := d.Digest(w) // without a digest the record is never valid
			out = append(out, cache.FileDigest{Path: weakName(i), Digest: digest})
		}
	}
	return out
}

// mentioned returns the macros of a whose names are in a file that it read.
func (d *Discovery) mentioned(a *graph.Action, found []cache.FileDigest) (used []string) {
	if len(a.Pass().Macros) == 0 {
		return nil
	}
	files := paths(found)
	for _, s := range a.Pass().Staged {
		if s.From != "" {
			files = append(files, s.From)
		}
	}
	for _, arg := range a.Argv {
		if path.Base(arg) == "link.stub" {
			files = append(files, arg)
		}
	}
	for _, f := range files {
		for _, m := range a.Pass().Macros {
			if !slices.Contains(used, m) && d.sources.mentions(f, m) {
				used = append(used, m)
			}
		}
	}
	return used
}

// IsValid reports whether everything that a record discovered is unchanged.
func (d *Discovery) IsValid(a *graph.Action, rec *cache.Record) bool {
	for range d.Changes(a, rec) {
		return false
	}
	return true
}

// Changes yields descriptions of what has changed since rec was written.
func (d *Discovery) Changes(a *graph.Action, rec *cache.Record) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range rec.Discovered {
			if change := d.change(a, f); change != "" && !yield(change) {
				return
			}
		}
		const isNew = " is new and may be read instead of another file"
		for _, p := range rec.Absent {
			if d.appeared(p) && !yield(strings.TrimSuffix(p, "/")+isNew) {
				return
			}
		}
		if p := d.shadowed(rec); p != "" {
			yield(p + isNew)
		}
	}
}

// change describes how something that a record of a discovered has changed. It returns "" if it has
// not. Files that an action writes only for other actions are never valid by name: another plan may
// not have them.
func (d *Discovery) change(a *graph.Action, f cache.FileDigest) (text string) {
	name := f.Path
	var is cache.Digest
	var err error
	if why, ok := strings.CutPrefix(name, neverMark); ok {
		return "it runs each time: " + why
	} else if macro, ok := strings.CutPrefix(name, macroMark); ok {
		is = macroValue(a, macro)
		text = macro + " changed, and the text spells it (CUB and Thrust do): give the gencode an arch_list to keep it the same"
	} else if name == folderMark {
		is = d.inThisFolder().Digest
		text = "the project is in another folder, and something that the command read names the first one"
	} else if name == loaderMark {
		is, _ = d.loader.conf()
	} else if read, skipped, ok := sameFiles(name); ok {
		files := slices.Concat(read, skipped)
		is, err = d.whichAreOne(files)
		text = "the time stamps of " + strings.Join(files, ", ") + " changed: headers with #pragma once and the same content count as one by them"
	} else if w, ok := weakInput(a, name); ok {
		name = w
		is, err = d.Digest(w)
	} else if strings.HasPrefix(name, weakMark) || d.IsIntermediate(name) {
		err = fs.ErrNotExist
	} else {
		is, err = d.Digest(name)
	}
	switch {
	case err == nil && is == f.Digest:
		return ""
	case text == "" && err != nil:
		return name + " is gone"
	case text == "":
		return name + " changed"
	}
	return text
}

// discovers reports whether a record has a file or a condition.
func discovers(rec *cache.Record, file string) bool {
	return slices.ContainsFunc(rec.Discovered, func(f cache.FileDigest) bool { return f.Path == file })
}

// addFile adds a file to a record, if the record does not have it.
func addFile(rec *cache.Record, f cache.FileDigest) {
	if !discovers(rec, f.Path) {
		rec.Discovered = append(rec.Discovered, f)
	}
}

func paths(files []cache.FileDigest) (out []string) {
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}
