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

// A record names what it depends on besides files among the files that it discovered: macros, by
// name; weak inputs, by their place in Action.Weak, since the file has another name where another
// architecture comes last, and in another target or build tree; the folders of the dynamic loader;
// which of several equal headers are one; and what cannot be known.
const (
	macroMark  = "-D"
	weakMark   = "<weak "
	neverMark  = "<never> " // in words: the action runs each time
	loaderMark = "<folders of the dynamic loader>"
	folderMark = "<folder of the project>" // see Placed
)

// Paths below the root are recorded relative to it, so a record serves a copy of the project
// elsewhere. That is wrong for a path which the copy spells in the same way: the name of an
// absolute file in an #include or __has_include, a folder in CPATH or in an absolute -I. There the
// copy reads the file of the first project. A record of such a command is valid in its folder
// alone.

// spells reports a path that names the root, rather than being relative to it.
func (t Tree) spells(p string) bool {
	return path.IsAbs(p) && strings.HasPrefix(path.Clean(p)+"/", t.Root+"/")
}

// placed is the condition that the project is in this folder.
func (t Tree) placed() cache.FileDigest {
	return cache.FileDigest{Path: folderMark, Digest: sha256.Sum256([]byte(t.Root))}
}

// Placed reports a record of a command that read something by a path which names the root.
func Placed(rec *cache.Record) bool { return Discovers(rec, folderMark) }

// Never is a condition that no day fulfils.
func Never(why string) cache.FileDigest { return cache.FileDigest{Path: neverMark + why} }

// RunsEachTime says why the action of a record does, "" if it does not.
func RunsEachTime(rec *cache.Record) string {
	for _, f := range rec.Discovered {
		if why, ok := strings.CutPrefix(f.Path, neverMark); ok {
			return why
		}
	}
	return ""
}

// IsCondition tells a macro, a weak input or another condition from a file.
func IsCondition(name string) bool {
	return strings.HasPrefix(name, macroMark) || strings.HasPrefix(name, weakMark) || strings.HasPrefix(name, neverMark) || strings.HasPrefix(name, oneMark) ||
		name == loaderMark || name == folderMark
}

func weakName(i int) string { return fmt.Sprintf("%s%d>", weakMark, i) }

// weakInput is the file that a condition stands for today; ok is false if it stands for none.
func weakInput(a *graph.Action, name string) (file string, ok bool) {
	for i, w := range a.Step().DiagnosticInputs {
		if name == weakName(i) {
			return w, true
		}
	}
	return "", false
}

// macroValue is a digest over what a command defines a macro as.
func macroValue(a *graph.Action, name string) cache.Digest {
	for _, arg := range a.Argv {
		if v, ok := strings.CutPrefix(arg, "-D"+name+"="); ok {
			return sha256.Sum256([]byte(v))
		}
	}
	return cache.Digest{}
}

// Conditions are what a record depends on besides files of the project: the values of the macros
// that a preprocessed text used, or that are mentioned in a file that a read; and the true text if
// the command said something about it.
func (d *Discovery) Conditions(a *graph.Action, found []cache.FileDigest, used []string, said bool) []cache.FileDigest {
	if a.Kind != graph.Preprocess {
		used = d.mentioned(a, found)
	}
	var out []cache.FileDigest
	for _, m := range used {
		out = append(out, cache.FileDigest{Path: macroMark + m, Digest: macroValue(a, m)})
	}
	if said {
		for i, w := range a.Step().DiagnosticInputs {
			digest, _ := d.Digest(w) // without one the record never holds
			out = append(out, cache.FileDigest{Path: weakName(i), Digest: digest})
		}
	}
	return out
}

// mentioned are the macros of a whose names stand in a file that it read.
func (d *Discovery) mentioned(a *graph.Action, found []cache.FileDigest) (used []string) {
	if len(a.Step().Macros) == 0 {
		return nil
	}
	files := paths(found)
	for _, s := range a.Step().Staged {
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
		for _, m := range a.Step().Macros {
			if !slices.Contains(used, m) && d.sources.mentions(f, m) {
				used = append(used, m)
			}
		}
	}
	return used
}

// Holds reports whether everything a record discovered is still as it was.
func (d *Discovery) Holds(a *graph.Action, rec *cache.Record) bool {
	for range d.Changes(a, rec) {
		return false
	}
	return true
}

// Changes are in words what is not as it was when rec was made.
func (d *Discovery) Changes(a *graph.Action, rec *cache.Record) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range rec.Discovered {
			if is, err := d.today(a, f.Path); (err != nil || is != f.Digest) && !yield(change(a, f.Path, err)) {
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

// change says what became of something that a record discovered; err is why it has no content
// today.
func change(a *graph.Action, name string, err error) string {
	if why, ok := strings.CutPrefix(name, neverMark); ok {
		return "it runs each time: " + why
	}
	if macro, ok := strings.CutPrefix(name, macroMark); ok {
		return macro + " changed, and the text spells it (CUB and Thrust do): give the gencode an arch_list to keep it the same"
	}
	if w, ok := weakInput(a, name); ok {
		name = w
	}
	if name == folderMark {
		return "the project is in another folder, and something that the command read names the first one"
	}
	if files, ok := sameFiles(name); ok {
		return "the time stamps of " + strings.Join(files, ", ") + " changed: headers with #pragma once and the same content count as one by them"
	}
	if err != nil {
		return name + " is gone"
	}
	return name + " changed"
}

// today is the content of what a record of a discovered, by the name that it has there. Nothing
// that is made for other actions only is discovered by name: which such files there are is another
// plan's affair.
func (d *Discovery) today(a *graph.Action, name string) (cache.Digest, error) {
	if m, ok := strings.CutPrefix(name, macroMark); ok {
		return macroValue(a, m), nil
	}
	if w, ok := weakInput(a, name); ok {
		return d.Digest(w)
	}
	if name == loaderMark {
		digest, _ := d.loader.conf()
		return digest, nil
	}
	if name == folderMark {
		return d.placed().Digest, nil
	}
	if files, ok := sameFiles(name); ok {
		return d.whichAreOne(files)
	}
	if strings.HasPrefix(name, weakMark) || strings.HasPrefix(name, neverMark) || d.Intermediate(name) {
		return cache.Digest{}, fs.ErrNotExist
	}
	return d.Digest(name)
}

// StillAbsent reports at this moment that nothing has come which a command with that record would
// read as well.
func (d *Discovery) StillAbsent(rec *cache.Record) bool {
	now := d.Tree
	now.Listing = cache.NewListing(d.Root)
	return !slices.ContainsFunc(rec.Absent, now.appeared) && now.shadowed(rec) == ""
}

// Discovers reports that a record has a file, or a condition.
func Discovers(rec *cache.Record, file string) bool {
	return slices.ContainsFunc(rec.Discovered, func(f cache.FileDigest) bool { return f.Path == file })
}

// Add adds a file to a record that does not have it.
func Add(rec *cache.Record, f cache.FileDigest) {
	if !Discovers(rec, f.Path) {
		rec.Discovered = append(rec.Discovered, f)
	}
}

func paths(files []cache.FileDigest) (out []string) {
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}
