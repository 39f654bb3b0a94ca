package build

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// discovered reads a depfile and digests what it names, without the declared inputs. climbing are the names with "..", as
// the compiler has them.
func (r *Runner) discovered(a *graph.Action, dir scratch) (out []cache.FileDigest, climbing []string, err error) {
	text, err := regular.Append(nil, dir.depfile())
	if err != nil {
		return nil, nil, fmt.Errorf("the compiler wrote no dependency file for %s: %w", a.Name, err)
	}
	var deps []string
	if isLink(a) {
		text = bytes.ReplaceAll(text, []byte(dir.tmp+"/"), []byte(ofLink))
		text = bytes.ReplaceAll(text, []byte(dir.dir+"/"), []byte(ofLink))
		deps, err = run.ParseLinkDepfile(text, func(name string) bool { return name != "" && r.Listing.Exists(name) })
		if trace := r.traced(dir); trace.Complete { // it has a script of INCLUDE by the name by which it was found
			deps = append(slices.DeleteFunc(deps, func(d string) bool { return !r.isFile(d) }), slices.DeleteFunc(trace.Read, dir.isTemporary)...)
		}
	} else {
		_, deps, err = run.ParseDepfile(text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the dependency file of %s: %w", a.Name, err)
	}
	seen := map[string]bool{}
	for _, in := range a.Inputs {
		seen[in] = true
	}
	staged := r.relative(dir).dir + "/"
	for _, d := range deps {
		name := r.name(d)
		if strings.Contains(d, "../") {
			climbing = append(climbing, d)
		}
		if strings.HasPrefix(name, staged) || strings.HasPrefix(name, ofLink) {
			continue // staged, or temporary
		}
		if seen[name] || name == os.DevNull {
			continue
		}
		seen[name] = true
		digest, err := r.Files.Digest(name)
		if err != nil {
			return nil, nil, fmt.Errorf("the dependency file of %s names %s: %w", a.Name, d, err)
		}
		out = append(out, cache.FileDigest{Path: name, Digest: digest})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, climbing, nil
}

// ofLink stands for the folder of an LTO link's temporary objects in its dependency file: GNU ld writes names as they are, and one
// with a blank would be two.
const ofLink = "<temporary>/"

func isLink(a *graph.Action) bool { return a.Kind == graph.HostLink || a.Kind == graph.SharedLink }

// name spells a path as actions do: relative to the root if inside, with slashes, clean. A path that
// climbs through a symbolic link must not be cleaned as text, so "x/../y" is only shortened when x is
// a real folder; the compilers' own headers are spelled that way all the time.
func (r *Runner) name(p string) string {
	clean := filepath.Clean(p)
	if clean != p && strings.Contains(p, "..") {
		a, errA := os.Stat(r.abs(p))
		b, errB := os.Stat(r.abs(clean))
		if errA != nil || errB != nil || !os.SameFile(a, b) {
			clean = p
		}
	}
	if rel, ok := strings.CutPrefix(clean, r.Root+"/"); ok {
		clean = rel
	}
	return filepath.ToSlash(clean)
}

// undeclared finds a generated file that a read without depending on its generate block: it would be
// built in the wrong order on another day. Or without one: it would not be built.
func (r *Runner) undeclared(a *graph.Action, found []cache.FileDigest) error {
	for _, f := range found {
		file := r.generated(f.Path)
		g := r.maker(file)
		if g == nil {
			if err := r.undeclaredFile(a, file); err != nil {
				return err
			}
			continue
		}
		if slices.Contains(a.OrderOnly, file) || r.needs(a, g) {
			continue
		}
		return fmt.Errorf("%s reads %s, which %s makes (%s), and %s does not depend on it: add it to deps", a.Name, f.Path, g.Target, g.Pos, a.Target)
	}
	return nil
}

// lookedFor fills in what a compile looked for besides what it read: paths that do not exist and would be read instead of a discovered
// header if they did, and files that were asked for by __has_include or taken in by the assembler. stable is false if one of them came
// while the command ran.
//
// It lists too many rather than too few (a quoted include searches the folder of the file that
// includes it, and a depfile does not say which that was); one too many costs a compile that was not
// needed on the day such a file appears.
func (r *Runner) lookedFor(ctx context.Context, a *graph.Action, rec *cache.Record, climbing []string, dir scratch, start cache.Moment) (stable bool) {
	ok := false
	var asked []string
	if r.known(a) {
		if asked, ok = r.search(ctx, a, rec); isNVCC(a) {
			r.hostHeaders(rec)
		}
		r.compilePrograms(ctx, a, rec)
	}
	found := rec.Discovered
	quoted, searched := r.quoteDirs(a, found), compact(append(asked, r.searchDirs(a)...))
	all := compact(slices.Concat(quoted, searched))
	s := search{r: r, dirs: all, missing: map[string]bool{}, others: map[string]bool{}}
	for _, c := range climbing {
		s.climb(c)
	}
	if ok { // where the compiler searches is looked at by shadows
		s.in(quoted)
	} else {
		s.in(all)
	}
	headers := slices.Concat(paths(found), r.declaredHeaders(a))
	for _, f := range headers {
		for _, rel := range spellings(f, all) {
			s.elsewhere(rel, f)
		}
	}
	s.besideStub(a)
	there := s.precompiled(a, headers, quoted)
	there = append(there, s.questions(a, found, quoted, searched, rec)...)
	there = append(there, r.assembles(ctx, a, &s, slices.Concat(found, there), dir, rec)...)
	rec.Discovered = append(rec.Discovered, there...)
	for _, f := range rec.Discovered {
		delete(s.others, f.Path)
	}
	rec.Absent = compact(append(rec.Absent, slices.Sorted(maps.Keys(s.missing))...))
	stable = true
	for file := range s.others {
		stable = stable && !r.came(file, start)
	}
	for _, f := range there {
		stable = stable && (isCondition(f.Path) || r.Files.Unchanged(f.Path, f.Digest, start))
	}
	return r.shadows(a, rec, start) && stable
}

// besideStub notes that the parts which a source of the toolkit includes in quotes (link.stub, what it is told by macros) are not in the
// folder of that source, where they are looked for first.
func (s *search) besideStub(a *graph.Action) {
	if a.Kind != graph.HostPart {
		return
	}
	was := s.dirs
	for _, arg := range a.Argv[1:] {
		if !path.IsAbs(arg) || !s.r.isFile(arg) {
			continue
		}
		s.in([]string{path.Dir(arg)})
		for _, in := range a.Inputs {
			s.elsewhere(in, "")
		}
	}
	s.in(was)
}

// questions looks for what __has_include names, and for what headers of the system include in quotes, which their own folder does not
// have. It gives the files that are there: if one goes, the answer is another.
func (s *search) questions(a *graph.Action, found []cache.FileDigest, quoted, searched []string, rec *cache.Record) (there []cache.FileDigest) {
	own := s.r.ownFiles(a, found)
	var names []string
	var files []*asks
	macro := false
	for _, f := range own {
		asks := s.r.asksOf(f)
		names, files, macro = append(names, asks.whether...), append(files, asks), macro || asks.macro
	}
	for _, f := range found {
		if slices.Contains(own, f.Path) || !path.IsAbs(f.Path) {
			continue
		}
		asks := s.r.asksOf(f.Path)
		files, macro = append(files, asks), macro || asks.macro
		s.in([]string{path.Dir(f.Path)})
		for _, name := range asks.quoted {
			s.elsewhere(name, "")
		}
		if len(asks.whether) > 0 {
			s.in(append([]string{path.Dir(f.Path)}, searched...))
			there = append(there, s.ask(a, slices.Concat(found, there), asks.whether)...)
		}
	}
	if macro {
		through, unknown := namesThroughMacros(files, slices.Concat(a.Argv, s.r.KeyEnv))
		names = append(names, through...)
		if unknown != "" {
			there = append(there, never("__has_include asks for a file whose name the macro "+unknown+" makes"))
		}
	}
	s.in(compact(slices.Concat(quoted, searched)))
	return append(there, s.ask(a, slices.Concat(found, there), names)...)
}

// ask notes where names are missing, and gives those that are there and that a neither declares nor found.
func (s *search) ask(a *graph.Action, found []cache.FileDigest, names []string) []cache.FileDigest {
	for _, name := range names {
		s.elsewhere(name, "")
	}
	return s.there(a, found, names)
}

// assembles gives what the assembler takes in for a compile in one go. Of one that leaves preprocessed text, that text tells.
func (r *Runner) assembles(ctx context.Context, a *graph.Action, s *search, found []cache.FileDigest, dir scratch, rec *cache.Record) []cache.FileDigest {
	if a.Kind == graph.Preprocess || a.Kind == graph.HostPart {
		return nil
	}
	var t taken
	for _, f := range slices.Concat(a.Inputs, paths(found)) {
		if isCondition(f) {
			continue
		}
		of := r.asksOf(f).taken
		t.names, t.texts, t.unknown = append(t.names, of.names...), append(t.texts, of.texts...), t.unknown || of.unknown
	}
	files, names, unknown := r.allTaken(a, t)
	if unknown && r.known(a) { // in a source a name may be a macro's, and what looks like one may be none
		if text, ok := r.expanded(ctx, a, dir); ok {
			files, names, unknown = r.allTaken(a, takenBy(text))
		}
	}
	s.in(assemblerDirs(a))
	for _, name := range names {
		s.elsewhere(name, "")
	}
	files = slices.DeleteFunc(files, func(f cache.FileDigest) bool {
		return slices.Contains(a.Inputs, f.Path) || slices.ContainsFunc(found, func(k cache.FileDigest) bool { return k.Path == f.Path })
	})
	if unknown {
		files = append(files, never("the assembler takes in a file by a name that cannot be seen"))
	}
	return files
}

func paths(files []cache.FileDigest) (out []string) {
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}

// search finds what is missing in the folders that a compiler searches.
type search struct {
	r       *Runner
	dirs    []string
	missing map[string]bool // a folder that may not become a file ends with a slash
	nowhere map[string]bool // folders that none of dirs has: each is missing in all
	others  map[string]bool // files that are not missing, and are not what was found
}

// in makes dirs the folders to look in.
func (s *search) in(dirs []string) { s.dirs, s.nowhere = dirs, map[string]bool{} }

// elsewhere notes that rel is missing in all folders but where it was found.
func (s *search) elsewhere(rel, found string) {
	first, _, deep := strings.Cut(rel, "/")
	if deep && s.nowhere[first] {
		return
	}
	all := deep
	for _, d := range s.dirs {
		p := path.Join(d, rel)
		if path.IsAbs(rel) {
			p = rel
		}
		if p == found {
			all = false
			continue
		}
		top := path.Join(d, first)
		switch {
		case deep && first != "" && !s.r.Listing.Exists(top):
			s.missing[top] = true
		case !s.r.Listing.Exists(p):
			s.missing[p] = true
			all = false
		case !s.r.isFile(p):
			s.missing[p+"/"] = true
			all = false
		default:
			s.others[p], all = true, false
		}
	}
	if all {
		s.nowhere[first] = true
	}
}

// climb notes where "dir/../x.h", which was found through one folder, would have been found through others.
func (s *search) climb(name string) {
	name = strings.TrimPrefix(strings.TrimPrefix(name, s.r.Root+"/"), "./")
	for _, d := range s.dirs {
		rel, ok := strings.CutPrefix(name, d+"/")
		if d == "." {
			rel, ok = name, !path.IsAbs(name)
		}
		if !ok || !strings.Contains("/"+rel, "/../") {
			continue
		}
		for _, other := range s.dirs {
			if p := path.Join(other, rel); !s.r.Listing.Exists(other) {
				s.missing[other] = true
			} else if !s.r.Listing.Exists(p) {
				s.missing[p] = true
			}
		}
	}
}

// there are the files that names stand for and a neither declares nor found.
func (s *search) there(a *graph.Action, found []cache.FileDigest, names []string) (there []cache.FileDigest) {
	known := map[string]bool{}
	for _, f := range found {
		known[f.Path] = true
	}
	for _, in := range a.Inputs {
		known[in] = true
	}
	for _, name := range names {
		for _, d := range s.dirs {
			p := s.r.name(path.Join(d, name))
			if path.IsAbs(name) {
				p = name
			}
			if !s.r.Listing.Exists(p) || !s.r.isFile(p) {
				continue
			}
			if digest, err := s.r.Files.Digest(p); err == nil && !known[p] && s.r.maker(p) == nil {
				known[p] = true
				there = append(there, cache.FileDigest{Path: p, Digest: digest})
			}
			break
		}
	}
	return there
}

// manyDirs is up to how many folders those of headers outside of the project are among them: a library of templates has hundreds,
// and hundreds of headers.
const manyDirs = 64

// quoteDirs are the folders of quoted includes: of the source and of the project's headers.
func (r *Runner) quoteDirs(a *graph.Action, found []cache.FileDigest) []string {
	var dirs []string
	for _, in := range a.Inputs {
		dirs = append(dirs, r.name(path.Dir(in)))
	}
	dirs = compact(dirs)
	seen := map[string]bool{}
	for _, f := range r.ownFiles(a, found) {
		d := path.Dir(f)
		if seen[d] || len(dirs) >= manyDirs && path.IsAbs(f) {
			continue
		}
		seen[d] = true
		dirs = append(dirs, r.name(d))
	}
	return compact(dirs)
}

// searchDirs are the include folders that are known without asking the compiler, in order.
func (r *Runner) searchDirs(a *graph.Action) []string {
	dirs := slices.Clone(a.SearchDirs)
	for _, e := range r.KeyEnv {
		name, value, _ := strings.Cut(e, "=")
		if name == "CPATH" || name == "C_INCLUDE_PATH" || name == "CPLUS_INCLUDE_PATH" {
			dirs = append(dirs, filepath.SplitList(value)...)
		}
	}
	for i, d := range dirs {
		dirs[i] = r.name(d)
	}
	return compact(dirs)
}

// spellings are the names a header can have been included by: relative to each folder that holds
// it, and for a header of the system every end of its path.
func spellings(p string, dirs []string) []string {
	var out []string
	for _, d := range dirs {
		if rel, ok := strings.CutPrefix(p, d+"/"); ok {
			out = append(out, rel)
		} else if d == "." && !path.IsAbs(p) {
			out = append(out, p)
		}
	}
	if out != nil || !path.IsAbs(p) {
		return out
	}
	for i := len(p) - 1; i > 0; i-- {
		if p[i] == '/' {
			out = append(out, p[i+1:])
		}
	}
	return out
}

// ownFiles are the source, the project's headers and those of its include folders elsewhere.
func (r *Runner) ownFiles(a *graph.Action, found []cache.FileDigest) []string {
	if isLink(a) {
		return nil
	}
	files := slices.Clone(a.Inputs)
	for _, f := range found {
		if !path.IsAbs(f.Path) || slices.ContainsFunc(a.SearchDirs, func(d string) bool { return strings.HasPrefix(f.Path, d+"/") }) {
			files = append(files, f.Path)
		}
	}
	return files
}
