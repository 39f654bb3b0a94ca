package build

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// A file that comes to a folder which the compiler searches before the one where it found a header is read in its place. A source has
// hundreds of headers of the system, and the compiler half a dozen folders, so a record does not name all those paths. It has the list
// of the folders, which all records of a target share, and the headers that it discovered; what must be absent follows from these. To
// find that nothing has come takes, for each header and folder, a look at the names in the folder, and most often the first part of
// the header's name is not among them. A null build does not even do that: the snapshot has all paths of all records, each once, and
// folders that did not change got no new names.
//
// gcc takes NAME.gch in place of NAME, in each folder; so does clang for a header that is forced in. A folder is no header: gcc and clang
// pass it over, until it is a file.

// pch is the ending of a precompiled header.
const pch = ".gch"

// ahead are the places where another file would be read in place of those that a record discovered.
type ahead struct {
	r     *Runner
	dirs  []string
	names []cache.Names
	pch   map[string]bool // folders that have precompiled headers
}

func (r *Runner) ahead(list string) *ahead {
	h := &ahead{r: r, dirs: strings.Split(list, "\n"), pch: map[string]bool{}}
	for _, d := range h.dirs {
		h.names = append(h.names, r.Listing.Names(d))
	}
	return h
}

// of gives, for a header that was found, the paths that are there and those that are not. Of a path whose first folder is not there, that is
// the folder. missing may be nil.
func (h *ahead) of(file string, there, missing func(p string)) {
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
					missing(path.Join(h.dirs[j], first))
				}
				continue
			}
			if has := h.names[j].Has(first); has || missing != nil {
				h.at(path.Join(h.dirs[j], rel), has, there, missing)
			}
			if has := deep || h.names[j].Some(pch); has || missing != nil {
				h.at(path.Join(h.dirs[j], rel)+pch, has, there, missing)
			}
		}
	}
}

// at looks at one path, which cannot be there unless maybe.
func (h *ahead) at(p string, maybe bool, there, missing func(p string)) {
	switch {
	case maybe && h.r.Listing.Exists(p):
		there(p)
	case missing != nil:
		missing(p)
	}
}

func (h *ahead) hasPCH(dir string) bool {
	has, known := h.pch[dir]
	if !known {
		has = h.r.Listing.Names(dir).Some(pch)
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

// isFile reports a path that a compiler would open: it passes folders over.
func (r *Runner) isFile(p string) bool {
	info, err := os.Stat(r.abs(p))
	return err == nil && !info.IsDir()
}

// shadowed is a file that has come and would be read in place of one that rec discovered, "" if there is none.
func (r *Runner) shadowed(rec *cache.Record) (file string) {
	for _, list := range rec.Search {
		h := r.ahead(list)
		there := func(p string) {
			if file == "" && !discovers(rec, p) && !slices.Contains(rec.Passed, p) && r.isFile(p) {
				file = p
			}
		}
		for _, f := range rec.Discovered {
			if !isCondition(f.Path) {
				h.of(f.Path, there, nil)
			}
		}
	}
	return file
}

func discovers(rec *cache.Record, file string) bool {
	return slices.ContainsFunc(rec.Discovered, func(f cache.FileDigest) bool { return f.Path == file })
}

// shadows fills in what a record says of the files ahead of those that it discovered. What may not come before a header that the action
// declares it names: declared headers are few. stable is false if one of them may have come while the command ran.
func (r *Runner) shadows(a *graph.Action, rec *cache.Record, start cache.Moment) (stable bool) {
	stable = true
	declared := r.declaredHeaders(a)
	var headers []cache.FileDigest
	for _, list := range rec.Search {
		h := r.ahead(list)
		there := func(p string) {
			switch {
			case discovers(rec, p) || slices.Contains(rec.Passed, p) || !r.isFile(p) && path.Ext(p) != pch:
			case r.came(p, start):
				stable = false
			case path.Ext(p) != pch:
				rec.Passed = append(rec.Passed, p)
			default:
				headers = append(headers, r.compiledHeader(p))
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
		if !discovers(rec, f.Path) {
			rec.Discovered = append(rec.Discovered, f)
		}
	}
	return stable
}

// compiledHeader is the condition that a precompiled header stays as it is: it is used, or not, for what is in it.
func (r *Runner) compiledHeader(file string) cache.FileDigest {
	d, err := r.Files.Digest(file)
	if err != nil {
		return never("a folder of precompiled headers, " + file + ", is not followed")
	}
	return cache.FileDigest{Path: file, Digest: d}
}

// declaredHeaders are the inputs of a compile besides its source that it may include. They are not discovered by it once more.
func (r *Runner) declaredHeaders(a *graph.Action) (files []string) {
	for i, in := range a.Inputs {
		if i > 0 && !r.isPart(in) {
			files = append(files, in)
		}
	}
	return files
}

// precompiled notes the precompiled headers that gcc and clang would take besides those that stand ahead of a header: in the folders of quoted includes,
// in place of one that the source may have in quotes; in place of one that is forced in; and beside the source. (Of its own source gcc takes none
// for x86-64, since it compares settings before they are complete. That is luck, not a rule.) It gives those that are there. gcc takes one for
// the first include of a source alone, so that what headers include does not count.
func (s *search) precompiled(a *graph.Action, headers, quoted []string) (there []cache.FileDigest) {
	if len(a.Inputs) == 0 {
		return nil
	}
	var wanted []string
	if !s.r.isPart(a.Inputs[0]) {
		wanted = append(wanted, a.Inputs[0]+pch)
	}
	for _, name := range forcedIn(a, headers) {
		wanted = append(wanted, name+pch, name+".pch")
		if !s.r.Listing.Exists(name) {
			s.missing[name] = true
		}
	}
	source := s.r.asksOf(a.Inputs[0])
	names := slices.Clone(source.quoted)
	for _, h := range headers {
		if source.computed || !path.IsAbs(h) {
			names = append(names, spellings(h, s.dirs)...)
		}
	}
	for _, name := range compact(names) {
		for _, d := range quoted {
			if !path.IsAbs(name) && (!strings.Contains(name, "/") || s.r.Listing.Exists(path.Join(d, path.Dir(name)))) {
				wanted = append(wanted, path.Join(d, name)+pch)
			}
		}
	}
	for _, p := range compact(wanted) {
		if s.r.Listing.Exists(p) {
			there = append(there, s.r.compiledHeader(p))
		} else {
			s.missing[p] = true
		}
	}
	return there
}

// forcedIn are the names by which options, or compilers themselves for CUDA and HIP, have headers included. They are looked for in the folder that the
// compiler runs in, before all others.
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

// hostHeaders notes the headers of the toolkit that the host code of cudafe++ includes, where nvcc runs as one command: its dependency file does
// not name them. They are the same for every source, and searched like others.
func (r *Runner) hostHeaders(rec *cache.Record) {
	for _, list := range rec.Search {
		for _, name := range nvcc.HostHeaders {
			for _, d := range strings.Split(list, "\n") {
				p := path.Join(d, name)
				if !r.Listing.Exists(p) || !r.isFile(p) {
					continue
				}
				if digest, err := r.Files.Digest(p); err == nil && !discovers(rec, p) {
					rec.Discovered = append(rec.Discovered, cache.FileDigest{Path: p, Digest: digest})
				}
				break
			}
		}
	}
}

// lookedAhead adds the paths that must be absent, or are there and were passed over, to set. done are the headers that were looked at for a
// list: the records of a target have most of them in common.
func (r *Runner) lookedAhead(rec *cache.Record, set map[string]bool, done map[string]map[string]bool) {
	for _, list := range rec.Search {
		seen := done[list]
		if seen == nil {
			seen = map[string]bool{}
			done[list] = seen
		}
		var h *ahead
		for _, f := range rec.Discovered {
			if seen[f.Path] || isCondition(f.Path) {
				continue
			}
			seen[f.Path] = true
			if h == nil {
				h = r.ahead(list)
			}
			h.of(f.Path, func(p string) {
				if !r.isFile(p) {
					set[p] = true // a folder, for now
				}
			}, func(p string) { set[p] = true })
		}
	}
}

// search asks the compiler of a where it searches, and notes it. others are the folders, in order, of all compilers that a runs; ok is
// false if the compiler does not say.
func (r *Runner) search(ctx context.Context, a *graph.Action, rec *cache.Record) (others []string, ok bool) {
	lists, ok := r.searches(ctx, a)
	if !ok {
		rec.Discovered = append(rec.Discovered, never("the compiler does not say where it searches for headers"))
		return nil, false
	}
	for _, s := range lists {
		if text := strings.Join(s.Dirs, "\n"); !slices.Contains(rec.Search, text) {
			rec.Search = append(rec.Search, text)
		}
		others = append(others, s.Dirs...)
		rec.Absent = append(rec.Absent, s.Missing...)
	}
	return compact(others), true
}
