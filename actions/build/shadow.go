package build

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
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

// shadows fills in what a record says of the files ahead of those that it discovered. stable is false if one of them may have come while the
// command ran.
func (r *Runner) shadows(rec *cache.Record, start cache.Moment) (stable bool) {
	stable = true
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
			default: // it is used, or not, for what is in it
				d, err := r.Files.Digest(p)
				if err != nil {
					headers = append(headers, never("a folder of precompiled headers, "+p+", is not followed"))
					return
				}
				headers = append(headers, cache.FileDigest{Path: p, Digest: d})
			}
		}
		for _, f := range rec.Discovered {
			h.of(f.Path, there, nil)
		}
	}
	for _, f := range headers {
		if !discovers(rec, f.Path) {
			rec.Discovered = append(rec.Discovered, f)
		}
	}
	return stable
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
