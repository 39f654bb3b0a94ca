package discover

import (
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// A new file shadows a header if it is in a folder that the compiler searches earlier: it is read
// instead. A source has hundreds of system headers, and the compiler half a dozen folders, so a
// record does not name all those paths. It has the list of the folders, which all records of a
// target share, and the discovered headers. The paths that must be absent follow from these.
//
// To check that nothing has appeared, kbuild looks each header up among the names in each earlier
// folder. Most often the first component of the header's name is not among them. A null build does
// not even do that. The view has all paths of all records, each once, and folders that did not
// change have no new names.
//
// gcc reads NAME.gch instead of NAME, in each folder; so does clang for a forced-in header. gcc and
// clang skip a folder with a header's name, until it is replaced by a file.

// pch is the suffix of a precompiled header.
const pch = ".gch"

// shadowCandidates finds the paths where another file would be read instead of a discovered one.
type shadowCandidates struct {
	tree   Tree
	dirs   []string
	names  []cache.Names          // of dirs
	beside map[string]cache.Names // of the folders of headers
}

// candidates returns the shadowCandidates for a list of folders as a record stores it.
func (t Tree) candidates(list string) *shadowCandidates {
	h := &shadowCandidates{tree: t, dirs: strings.Split(list, "\n"), beside: map[string]cache.Names{}}
	for _, d := range h.dirs {
		h.names = append(h.names, t.Listing.Names(d))
	}
	return h
}

// of yields the candidate paths for a header that was found, and whether each exists. If the first
// folder of a path does not exist, it yields the folder. Without all it omits absent paths.
func (h *shadowCandidates) of(file string, all bool) iter.Seq2[string, bool] {
	return func(yield func(p string, exists bool) bool) {
		dir := path.Dir(file)
		beside, known := h.beside[dir]
		if !known {
			beside = h.tree.Listing.Names(dir)
			h.beside[dir] = beside
		}
		// without maybe the path is known to be absent
		candidate := func(p string, maybe bool) bool {
			exists := maybe && h.tree.Listing.Exists(p)
			return !exists && !all || yield(p, exists)
		}
		if !candidate(file+pch, beside.Has(path.Base(file)+pch)) {
			return
		}
		for i, d := range h.dirs {
			rel, ok := below(file, d)
			if !ok {
				continue
			}
			first, _, deep := strings.Cut(rel, "/")
			for j := range i {
				has := h.names[j].Has(first)
				if deep && !has {
					if all && !yield(h.tree.join(h.dirs[j], first), false) {
						return
					}
					continue
				}
				if (has || all) && !candidate(h.tree.join(h.dirs[j], rel), has) {
					return
				}
				has = deep || h.names[j].Has(rel+pch)
				if (has || all) && !candidate(h.tree.join(h.dirs[j], rel)+pch, has) {
					return
				}
			}
		}
	}
}

// below returns the name of a file relative to dir; ok is false if dir does not contain it.
func below(file, dir string) (rel string, ok bool) {
	if dir == "." {
		return file, !path.IsAbs(file)
	}
	if len(file) > len(dir)+1 && file[len(dir)] == '/' && file[:len(dir)] == dir {
		return file[len(dir)+1:], true
	}
	return "", false
}

// shadowed returns a file that has appeared and would be read instead of one that rec discovered,
// or "".
func (t Tree) shadowed(rec *cache.Record) (file string) {
	for _, list := range rec.Search {
		h := t.candidates(list)
		for _, f := range rec.Discovered {
			if IsCondition(f.Path) {
				continue
			}
			for p := range h.of(f.Path, false) {
				// gcc looks into a folder of precompiled headers
				if !discovers(rec, p) && !slices.Contains(rec.Passed, p) && (t.isFile(p) || path.Ext(p) == pch) {
					return p
				}
			}
		}
	}
	return ""
}

// recordShadows records the files that precede those that a record discovered. For headers that the
// action declares it records each path that must stay absent, since declared headers are few.
// stable is false if one of the paths may have appeared while the command ran.
func (d *Discovery) recordShadows(ran Ran, rec *cache.Record) (stable bool) {
	stable = true
	declared := d.declaredHeaders(ran.Action)
	var headers []cache.FileDigest
	for _, list := range rec.Search {
		h := d.candidates(list)
		for i, f := range append(paths(rec.Discovered), declared...) {
			for p, exists := range h.of(f, i >= len(rec.Discovered)) {
				switch {
				case !exists:
					rec.Absent = append(rec.Absent, p)
				case discovers(rec, p) || slices.Contains(rec.Passed, p) || !d.isFile(p) && path.Ext(p) != pch:
				case d.came(p, ran):
					stable = false
				case path.Ext(p) != pch:
					rec.Passed = append(rec.Passed, p)
				default:
					headers = append(headers, d.compiledHeader(p))
				}
			}
		}
	}
	rec.Absent = compact(rec.Absent)
	for _, f := range headers {
		addFile(rec, f)
	}
	return stable
}

// came reports whether a file may have appeared since a command started.
func (d *Discovery) came(file string, ran Ran) bool {
	is, err := d.Digest(file)
	return err == nil && !d.IsOutput(file) && ran.changed(file, is)
}

// compiledHeader returns the condition that a precompiled header is unchanged: its content decides
// whether the compiler uses it.
func (t Tree) compiledHeader(file string) cache.FileDigest {
	d, err := t.Digest(file)
	if err != nil {
		return never("a folder of precompiled headers, " + file + ", is not followed")
	}
	return cache.FileDigest{Path: file, Digest: d}
}

// declaredHeaders returns the inputs of a compile besides its source that it may include. They are
// not discovered again.
func (d *Discovery) declaredHeaders(a *graph.Action) (files []string) {
	if len(a.Inputs) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a.Inputs[1:]), d.IsIntermediate)
}

// precompiled records the precompiled headers that gcc and clang would use, besides those that
// precede a header, and returns those that exist. They are in the source's folder instead of a
// header that it may include in quotes, instead of a forced-in header, and beside the source. (For
// its own source gcc uses none on x86-64, since it compares settings before they are complete. That
// is luck, not a rule.) gcc uses one only for the first include of a source, so that includes of
// headers do not count.
func (s *compile) precompiled(headers, dirs []string) (there []cache.FileDigest) {
	a := s.ran.Action
	if len(a.Inputs) == 0 {
		return nil
	}
	var wanted []string
	if !s.IsIntermediate(a.Inputs[0]) {
		wanted = append(wanted, a.Inputs[0]+pch)
	}
	for _, name := range forcedIn(a, headers) {
		wanted = append(wanted, name+pch, name+".pch")
		if !s.Listing.Exists(name) {
			s.missing[name] = true
		}
	}
	source := s.sources.scan(a.Inputs[0])
	var computed []string
	if source.computed {
		var unknown string
		computed, unknown = namesThroughMacros(
			"include", []string{s.abs(a.Inputs[0])}, slices.Concat(a.Argv, s.KeyEnv))
		gcc := slices.ContainsFunc(a.Tools, func(t string) bool { return t == "cc" || t == "cxx" })
		if unknown != "" && gcc && !strings.Contains(path.Base(a.Argv[0]), "clang") {
			there = append(there, never("the header that the macro "+unknown+" names may be precompiled"))
		}
	}
	names := slices.Concat(source.quoted, computed)
	for _, h := range headers {
		if source.computed || !path.IsAbs(h) {
			names = append(names, spellings(h, s.dirs)...)
		}
	}
	dir := s.Name(path.Dir(a.Inputs[0]))
	for _, name := range compact(names) {
		if !path.IsAbs(name) && (!strings.Contains(name, "/") || s.Listing.Exists(s.join(dir, path.Dir(name)))) {
			wanted = append(wanted, s.join(dir, name)+pch)
		}
	}
	for _, p := range compact(wanted) {
		if s.Listing.Exists(p) {
			there = append(there, s.compiledHeader(p))
		} else {
			s.missing[p] = true
		}
	}
	for _, name := range compact(slices.Concat(source.quoted, source.angled, computed, forcedIn(a, headers))) {
		there = append(there, s.searchedPrecompiled(name, dirs)...)
	}
	return there
}

// searchedPrecompiled returns the precompiled header that gcc uses for a name in a folder that it
// searches, and records the paths that it would read instead. A dependency file names neither it nor
// its header.
func (s *compile) searchedPrecompiled(name string, dirs []string) []cache.FileDigest {
	if path.IsAbs(name) {
		return nil
	}
	first, _, deep := strings.Cut(name, "/")
	for i, d := range dirs {
		names := s.Listing.Names(d)
		if !names.Has(first) && (deep || !names.Has(first+pch)) {
			continue
		}
		file := s.join(d, name)
		if s.Listing.Exists(file + pch) {
			was := s.dirs
			s.in(dirs[:i])
			s.absent(name+pch, "")
			s.absent(name, "")
			s.in(was)
			return []cache.FileDigest{s.compiledHeader(file + pch)}
		}
		if s.isFile(file) {
			return nil
		}
	}
	return nil
}

// forcedIn returns the names of headers that options force in, or that compilers themselves include
// first for CUDA and HIP. The compiler looks for them in its working directory before all other
// folders.
func forcedIn(a *graph.Action, headers []string) (names []string) {
	follows := false // the previous option takes a header
	for _, arg := range a.Argv {
		if arg == "-Xcompiler" || arg == "-Xclang" || arg == "-Xpreprocessor" {
			continue
		}
		inside := follows
		follows = false
		for _, part := range strings.FieldsFunc(arg, func(c rune) bool { return c == '=' || c == ',' }) {
			follows = part == "-include" || part == "--include" || part == "-imacros" || part == "--pre-include"
			if inside && !follows {
				names = append(names, part) // nvcc takes several
			}
			inside = inside || follows
		}
	}
	for _, h := range headers {
		if base := path.Base(h); slices.Contains(toolchain.FirstHeaders, base) {
			names = append(names, base)
		}
	}
	return compact(names)
}

// watchShadows adds to set the paths that must stay absent, and the folders that compilers skipped.
// done holds the headers that were handled for a list, since the records of a target share most of
// them.
func (t Tree) watchShadows(rec *cache.Record, set map[string]bool, done map[string]map[string]bool) {
	for _, list := range rec.Search {
		seen := done[list]
		if seen == nil {
			seen = map[string]bool{}
			done[list] = seen
		}
		var h *shadowCandidates
		for _, f := range rec.Discovered {
			if seen[f.Path] || IsCondition(f.Path) {
				continue
			}
			seen[f.Path] = true
			if h == nil {
				h = t.candidates(list)
			}
			for p, exists := range h.of(f.Path, true) {
				if !exists || !t.isFile(p) { // a folder, for now
					set[p] = true
				}
			}
		}
	}
}
