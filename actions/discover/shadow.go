package discover

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// A file that comes to a folder which the compiler searches before the one where it found a header
// is read in its place. A source has hundreds of headers of the system, and the compiler half a
// dozen folders, so a record does not name all those paths. It has the list of the folders, which
// all records of a target share, and the headers that it discovered; what must be absent follows
// from these. To find that nothing has come takes, for each header and folder, a look at the names
// in the folder, and most often the first part of the header's name is not among them. A null build
// does not even do that: the snapshot has all paths of all records, each once, and folders that did
// not change got no new names.
//
// gcc takes NAME.gch in place of NAME, in each folder; so does clang for a header that is forced
// in. A folder is no header: gcc and clang pass it over, until it is a file.

// pch is the ending of a precompiled header.
const pch = ".gch"

// shadowCandidates are the places where another file would be read in place of those that a record
// discovered.
type shadowCandidates struct {
	tree  Tree
	dirs  []string
	names []cache.Names
	pch   map[string]bool // folders that have precompiled headers
}

// candidates are those in a list of folders, as a record has it.
func (t Tree) candidates(list string) *shadowCandidates {
	h := &shadowCandidates{tree: t, dirs: strings.Split(list, "\n"), pch: map[string]bool{}}
	for _, d := range h.dirs {
		h.names = append(h.names, t.Listing.Names(d))
	}
	return h
}

// of gives, for a header that was found, the paths that are there and those that are not. Of a path
// whose first folder is not there, that is the folder. missing may be nil.
func (h *shadowCandidates) of(file string, there, missing func(p string)) {
	h.at(file+pch, h.hasPCH(path.Dir(file)), there, missing)
	for i, d := range h.dirs {
		rel, ok := below(file, d)
		if !ok {
			continue
		}
		first, _, deep := strings.Cut(rel, "/")
		for j := range i {
			if deep && !h.names[j].Has(first) {
				if missing != nil {
					missing(h.tree.join(h.dirs[j], first))
				}
				continue
			}
			if has := h.names[j].Has(first); has || missing != nil {
				h.at(h.tree.join(h.dirs[j], rel), has, there, missing)
			}
			if has := deep || h.names[j].Some(pch); has || missing != nil {
				h.at(h.tree.join(h.dirs[j], rel)+pch, has, there, missing)
			}
		}
	}
}

// at looks at one path, which cannot be there unless maybe.
func (h *shadowCandidates) at(p string, maybe bool, there, missing func(p string)) {
	switch {
	case maybe && h.tree.Listing.Exists(p):
		there(p)
	case missing != nil:
		missing(p)
	}
}

func (h *shadowCandidates) hasPCH(dir string) bool {
	has, known := h.pch[dir]
	if !known {
		has = h.tree.Listing.Names(dir).Some(pch)
		h.pch[dir] = has
	}
	return has
}

// below is the name by which dir has a file.
func below(file, dir string) (rel string, ok bool) {
	if dir == "." {
		return file, !path.IsAbs(file)
	}
	if len(file) > len(dir)+1 && file[len(dir)] == '/' && file[:len(dir)] == dir {
		return file[len(dir)+1:], true
	}
	return "", false
}

// shadowed is a file that has come and would be read in place of one that rec discovered, "" if
// there is none.
func (t Tree) shadowed(rec *cache.Record) (file string) {
	for _, list := range rec.Search {
		h := t.candidates(list)
		there := func(p string) {
			if file == "" && !Discovers(rec, p) && !slices.Contains(rec.Passed, p) && t.isFile(p) {
				file = p
			}
		}
		for _, f := range rec.Discovered {
			if !IsCondition(f.Path) {
				h.of(f.Path, there, nil)
			}
		}
	}
	return file
}

// shadows fills in what a record says of the files ahead of those that it discovered. What may not
// come before a header that the action declares it names: declared headers are few. stable is false
// if one of them may have come while the command ran.
func (d *Discovery) shadows(ran Ran, rec *cache.Record) (stable bool) {
	stable = true
	declared := d.declaredHeaders(ran.Action)
	var headers []cache.FileDigest
	for _, list := range rec.Search {
		h := d.candidates(list)
		there := func(p string) {
			switch {
			case Discovers(rec, p) || slices.Contains(rec.Passed, p) || !d.isFile(p) && path.Ext(p) != pch:
			case d.came(p, ran):
				stable = false
			case path.Ext(p) != pch:
				rec.Passed = append(rec.Passed, p)
			default:
				headers = append(headers, d.compiledHeader(p))
			}
		}
		for _, f := range rec.Discovered {
			h.of(f.Path, there, nil)
		}
		for _, f := range declared {
			h.of(f, there, func(p string) { rec.Absent = append(rec.Absent, p) })
		}
	}
	rec.Absent = compact(rec.Absent)
	for _, f := range headers {
		Add(rec, f)
	}
	return stable
}

// came reports that a file may have come since a command started.
func (d *Discovery) came(file string, ran Ran) bool {
	is, err := d.Digest(file)
	return err == nil && !d.Made(file) && ran.Changed(file, is)
}

// compiledHeader is the condition that a precompiled header stays as it is: it is used, or not, for
// what is in it.
func (t Tree) compiledHeader(file string) cache.FileDigest {
	d, err := t.Digest(file)
	if err != nil {
		return Never("a folder of precompiled headers, " + file + ", is not followed")
	}
	return cache.FileDigest{Path: file, Digest: d}
}

// declaredHeaders are the inputs of a compile besides its source that it may include. They are not
// discovered by it once more.
func (d *Discovery) declaredHeaders(a *graph.Action) (files []string) {
	if len(a.Inputs) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a.Inputs[1:]), d.Intermediate)
}

// precompiled notes the precompiled headers that gcc and clang would take besides those that stand
// ahead of a header: in the folder of the source, in place of one that it may have in quotes; in
// place of one that is forced in; and beside the source. (Of its own source gcc takes none for
// x86-64, since it compares settings before they are complete. That is luck, not a rule.) It gives
// those that are there. gcc takes one for the first include of a source alone, so that what headers
// include does not count.
func (s *compile) precompiled(headers []string) (there []cache.FileDigest) {
	a := s.ran.Action
	if len(a.Inputs) == 0 {
		return nil
	}
	var wanted []string
	if !s.Intermediate(a.Inputs[0]) {
		wanted = append(wanted, a.Inputs[0]+pch)
	}
	for _, name := range forcedIn(a, headers) {
		wanted = append(wanted, name+pch, name+".pch")
		if !s.Listing.Exists(name) {
			s.missing[name] = true
		}
	}
	source := s.sources.scan(a.Inputs[0])
	names := slices.Clone(source.quoted)
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
	return there
}

// forcedIn are the names by which options, or compilers themselves for CUDA and HIP, have headers
// included. They are looked for in the folder that the compiler runs in, before all others.
func forcedIn(a *graph.Action, headers []string) (names []string) {
	follows := false // the option that has a header included
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
		if base := path.Base(h); slices.Contains(compiler.FirstHeaders, base) {
			names = append(names, base)
		}
	}
	return compact(names)
}

// hostHeaders notes the headers of the toolkit that the host code of cudafe++ includes, where nvcc
// runs as one command: its dependency file does not name them. They are the same for every source,
// and searched like others.
func (t Tree) hostHeaders(rec *cache.Record) {
	for _, list := range rec.Search {
		for _, name := range nvcc.HostHeaders {
			if f, ok := t.first(strings.Split(list, "\n"), name); ok {
				Add(rec, f)
			}
		}
	}
}

// watchShadows adds the paths that must be absent, or are there and were passed over, to set. done
// are the headers that were looked at for a list: the records of a target have most of them in
// common.
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
			h.of(f.Path, func(p string) {
				if !t.isFile(p) {
					set[p] = true // a folder, for now
				}
			}, func(p string) { set[p] = true })
		}
	}
}
