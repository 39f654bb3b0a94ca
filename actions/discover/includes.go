package discover

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// readDepfiles reads the dependency files of a command and digests the files that they name, except
// declared inputs. dotDot are the names with "..", in the compiler's spelling. placed reports that
// some name contains the project root.
func (d *Discovery) readDepfiles(ctx context.Context, ran Ran) (
	out []cache.FileDigest, dotDot []string, placed bool, err error,
) {
	a := ran.Action
	deps, err := d.readDepfile(ran, ran.Depfile)
	if err != nil {
		return nil, nil, false, err
	}
	for _, argv := range a.Pass().DepfileArgvs {
		argv = slices.Clone(argv)
		argv[slices.Index(argv, a.Depfile)] = ran.Scratch
		d.Query(ctx, a, argv, false)
		more, err := d.readDepfile(ran, ran.Scratch)
		if err != nil {
			return nil, nil, false, err
		}
		deps = append(deps, more...)
		os.Remove(ran.Scratch)
	}
	seen := map[string]bool{os.DevNull: true}
	for _, f := range slices.Concat(a.Inputs, a.Outputs) {
		seen[f] = true
	}
	for _, dep := range deps {
		name := d.Name(dep)
		if strings.Contains(dep, "../") {
			dotDot = append(dotDot, dep)
		}
		placed = placed || d.spells(dep) && !ran.isTemporary(dep)
		own := a.Work.Collect != nil && strings.HasPrefix(name, a.Work.Collect.Dir+"/")
		if seen[name] || own || strings.HasPrefix(name, ran.Staged+"/") || strings.HasPrefix(name, ofLink) {
			continue
		}
		seen[name] = true
		digest, err := d.Digest(name)
		if err != nil {
			return nil, nil, false, fmt.Errorf("the dependency file of %s names %s: %w", a.Name, dep, err)
		}
		out = append(out, cache.FileDigest{Path: name, Digest: digest})
	}
	slices.SortFunc(out, func(a, b cache.FileDigest) int { return strings.Compare(a.Path, b.Path) })
	return out, dotDot, placed, nil
}

// readDepfile returns the names in one dependency file.
func (d *Discovery) readDepfile(ran Ran, file string) ([]string, error) {
	text, err := regular.Read(file)
	if err != nil {
		return nil, fmt.Errorf("the compiler wrote no dependency file for %s: %w", ran.Action.Name, err)
	}
	deps, err := d.dependencies(ran, text)
	if err != nil {
		return nil, fmt.Errorf("the dependency file of %s: %w", ran.Action.Name, err)
	}
	return deps, nil
}

// ofLink replaces the folder of an LTO link's temporary objects in its dependency file. GNU ld does
// not escape names, so that a folder with a blank would be read as two names.
const ofLink = "<temporary>/"

func (d *Discovery) dependencies(ran Ran, text []byte) (deps []string, err error) {
	if !ran.Action.Kind.Info().LinksHost() {
		_, deps, err = parseDepfile(text)
		return deps, err
	}
	for _, dir := range ran.Folders {
		text = bytes.ReplaceAll(text, []byte(dir+"/"), []byte(ofLink))
	}
	deps, err = parseLinkDepfile(text, func(name string) bool { return name != "" && d.Listing.Exists(name) })
	// The depfile has INCLUDE scripts by the name of the search, the trace by path.
	if trace := d.Trace(ran.Trace); trace.Complete {
		deps = slices.DeleteFunc(deps, func(dep string) bool { return !d.isFile(dep) })
		deps = append(deps, slices.DeleteFunc(trace.Read, ran.isTemporary)...)
	}
	return deps, err
}

// compile is one compile whose probed paths are collected.
type compile struct {
	*Discovery
	search
	ctx context.Context
	ran Ran
	rec *cache.Record
}

// includes records what a compile probed besides what it read. These are absent paths that would be
// read instead of a discovered header, files of __has_include, and files that the assembler reads.
// stable is false if one of them appeared while the command ran.
//
// It records too many paths rather than too few. One too many costs an unneeded compile on the day
// that such a file appears.
func (d *Discovery) includes(ctx context.Context, ran Ran, rec *cache.Record, dotDot []string) (stable bool) {
	a, told := ran.Action, false
	var asked []string
	if d.drivers.known(a) {
		if a.Depfile != "" {
			asked, told = d.recordSearch(ctx, a, rec)
		}
		if isNVCC(a) {
			d.hostHeaders(rec)
		}
		d.drivers.compilePrograms(ctx, a, rec)
	}
	found := rec.Discovered
	quoted, angled := d.quoteDirs(a, found), compact(append(asked, d.searchDirs(a)...))
	all := compact(slices.Concat(quoted, angled))
	s := &compile{Discovery: d, search: newSearch(d.Tree, all), ctx: ctx, ran: ran, rec: rec}
	for _, name := range dotDot {
		s.dotDotInclude(name)
	}
	headers := slices.Concat(paths(found), d.declaredHeaders(a))
	if told { // shadows handles the folders that the compiler searches
		s.besideFiles(ownFiles(a, found), headers, all)
		s.in(quoted)
	} else {
		s.spelled(headers, all)
	}
	s.besideStub()
	there := s.precompiled(headers, all)
	there = append(there, s.hasIncludes(found, quoted, angled)...)
	there = append(there, s.onceHeaders(slices.Concat(found, there), angled)...)
	there = append(there, s.assembled(slices.Concat(found, there))...)
	rec.Discovered = append(rec.Discovered, there...)
	for _, f := range rec.Discovered {
		delete(s.others, f.Path)
	}
	rec.Absent = compact(append(rec.Absent, slices.Sorted(maps.Keys(s.missing))...))
	stable = true
	for file := range s.others {
		stable = stable && !d.came(file, ran)
	}
	for _, f := range there {
		stable = stable && (IsCondition(f.Path) || !ran.changed(f.Path, f.Digest))
	}
	return d.recordShadows(ran, rec) && stable
}

// spelled records the absent paths of headers for all names that they can have been included by.
func (s *compile) spelled(headers, dirs []string) {
	for _, f := range headers {
		for _, rel := range spellings(f, dirs) {
			s.absent(rel, f)
		}
	}
}

// besideFiles records the absent paths of quoted includes in the folder of the including file,
// which is searched first. If a macro may name the included file, it may be any of headers.
func (s *compile) besideFiles(files, headers, dirs []string) {
	names, computed := map[string][]string{}, map[string]bool{} // by folder
	for _, f := range files {
		dir, scan := s.Name(path.Dir(f)), s.sources.scan(f)
		names[dir] = append(names[dir], scan.quoted...)
		computed[dir] = computed[dir] || scan.computed
	}
	for dir, list := range names {
		s.in([]string{dir})
		for _, name := range compact(list) {
			s.absent(name, "")
		}
		if computed[dir] {
			s.spelled(headers, dirs)
		}
	}
}

// recordSearch queries the search path of a's compilers and records it. others are the folders, in
// order, of all compilers that a runs; ok is false if a compiler does not report them.
func (d *Discovery) recordSearch(ctx context.Context, a *graph.Action, rec *cache.Record) (others []string, ok bool) {
	lists, ok := d.drivers.searches(ctx, a)
	if !ok {
		rec.Discovered = append(rec.Discovered, never("the compiler does not say where it searches for headers"))
		return nil, false
	}
	for _, s := range lists {
		if text := strings.Join(s.Dirs, "\n"); !slices.Contains(rec.Search, text) {
			rec.Search = append(rec.Search, text)
		}
		if s.NamesRoot {
			addFile(rec, d.inThisFolder())
		}
		others = append(others, s.Dirs...)
		rec.Absent = append(rec.Absent, s.Missing...)
	}
	return compact(others), true
}

// besideStub records that the parts which a toolkit source (link.stub) includes are absent in the
// folder of that source. Macros name those parts in quotes, so that folder is searched first.
func (s *compile) besideStub() {
	a := s.ran.Action
	if !compilesMade(a) {
		return
	}
	was := s.dirs
	for _, arg := range a.Argv[1:] {
		if !path.IsAbs(arg) || !s.isFile(arg) {
			continue
		}
		s.in([]string{path.Dir(arg)})
		for _, in := range a.Inputs {
			s.absent(in, "")
		}
	}
	s.in(was)
}

// hasIncludes records the absent paths of __has_include operands, and of quoted includes of system
// headers in their own folders. It returns the operands that exist: if one is removed, the result
// of __has_include changes.
func (s *compile) hasIncludes(found []cache.FileDigest, quoted, angled []string) (there []cache.FileDigest) {
	own := ownFiles(s.ran.Action, found)
	var names []string
	var files []string
	macro := false
	for _, f := range own {
		scan := s.sources.scan(f)
		names, files, macro = append(names, scan.hasIncludeNames...), append(files, s.abs(f)), macro || scan.hasIncludeMacro
		if scan.dependency {
			there = append(there, never("#pragma GCC dependency compares the times of files"))
		}
	}
	for _, f := range found {
		if slices.Contains(own, f.Path) || !path.IsAbs(f.Path) {
			continue
		}
		scan := s.sources.scan(f.Path)
		files, macro = append(files, f.Path), macro || scan.hasIncludeMacro
		s.in([]string{path.Dir(f.Path)})
		for _, name := range scan.quoted {
			s.absent(name, "")
		}
		if len(scan.hasIncludeNames) > 0 {
			s.in(append([]string{path.Dir(f.Path)}, angled...))
			there = append(there, s.present(slices.Concat(found, there), scan.hasIncludeNames)...)
		}
	}
	if macro {
		through, unknown := namesThroughMacros(hasInclude, files, slices.Concat(s.ran.Action.Argv, s.KeyEnv))
		names = append(names, through...)
		if unknown != "" {
			there = append(there, never("__has_include asks for a file whose name the macro "+unknown+" makes"))
		}
	}
	s.in(compact(slices.Concat(quoted, angled)))
	return append(there, s.present(slices.Concat(found, there), names)...)
}

// present records the absent paths of names. It returns the existing files that the action neither
// declares nor found.
func (s *compile) present(found []cache.FileDigest, names []string) (there []cache.FileDigest) {
	known := map[string]bool{}
	for _, p := range append(paths(found), s.ran.Action.Inputs...) {
		known[p] = true
	}
	for _, name := range names {
		s.absent(name, "")
		if s.spells(name) {
			addFile(s.rec, s.inThisFolder())
		}
	}
	for _, name := range names {
		if f, ok := s.first(s.dirs, name); ok && !known[f.Path] && !s.IsOutput(f.Path) {
			known[f.Path] = true
			there = append(there, f)
		}
	}
	return there
}

// compilesMade reports whether a compiles host code that the device compiler generated, not a
// source.
func compilesMade(a *graph.Action) bool {
	return a.Kind.Info().Reads == graph.FormHost && (len(a.Inputs) == 0 || !slices.Contains(a.Argv, a.Inputs[0]))
}

// search collects the paths that are absent in the folders that a compiler searches.
type search struct {
	tree    Tree
	dirs    []string
	missing map[string]bool // a folder that may not become a file ends with a slash
	nowhere map[string]bool // first components that exist in none of dirs
	others  map[string]bool // files that exist but are not the one found
}

func newSearch(t Tree, dirs []string) search {
	s := search{tree: t, missing: map[string]bool{}, others: map[string]bool{}}
	s.in(dirs)
	return s
}

// in sets the folders to search.
func (s *search) in(dirs []string) { s.dirs, s.nowhere = dirs, map[string]bool{} }

// absent records the paths of rel in all folders except the one where it was found.
func (s *search) absent(rel, found string) {
	first, _, deep := strings.Cut(rel, "/")
	if deep && s.nowhere[first] {
		return
	}
	all := deep
	for _, d := range s.dirs {
		p := s.tree.join(d, rel)
		if p == found {
			all = false
			continue
		}
		top := s.tree.join(d, first)
		switch {
		case deep && first != "" && !s.tree.Listing.Exists(top):
			s.missing[top] = true
		case !s.tree.Listing.Exists(p):
			s.missing[p] = true
			all = false
		case !s.tree.isFile(p):
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

// dotDotInclude records the absent paths of "dir/../x.h" in other folders than the one through
// which it was found.
func (s *search) dotDotInclude(name string) {
	name = strings.TrimPrefix(strings.TrimPrefix(name, s.tree.Root+"/"), "./")
	for _, d := range s.dirs {
		rel, ok := strings.CutPrefix(name, d+"/")
		if d == "." {
			rel, ok = name, !path.IsAbs(name)
		}
		if !ok || !strings.Contains("/"+rel, "/../") {
			continue
		}
		for _, other := range s.dirs {
			if p := s.tree.join(other, rel); !s.tree.Listing.Exists(other) {
				s.missing[other] = true
			} else if !s.tree.Listing.Exists(p) {
				s.missing[p] = true
			}
		}
	}
}

// manyDirs limits the number of folders of headers outside of the project. A library of templates
// has hundreds of folders and headers.
const manyDirs = 64

// quoteDirs returns the folders of quoted includes: of the source and of the project's headers.
func (t Tree) quoteDirs(a *graph.Action, found []cache.FileDigest) []string {
	var dirs []string
	seen := map[string]bool{}
	for _, f := range ownFiles(a, found) { // the inputs come first
		d := path.Dir(f)
		if !seen[d] && (len(dirs) < manyDirs || !path.IsAbs(f)) {
			seen[d] = true
			dirs = append(dirs, t.Name(d))
		}
	}
	return compact(dirs)
}

// searchDirs returns the include folders that are known without a query of the compiler, in order.
func (d *Discovery) searchDirs(a *graph.Action) []string {
	dirs := slices.Clone(a.SearchDirs)
	for _, e := range d.KeyEnv {
		name, value, _ := strings.Cut(e, "=")
		if name == "CPATH" || name == "C_INCLUDE_PATH" || name == "CPLUS_INCLUDE_PATH" {
			dirs = append(dirs, filepath.SplitList(value)...)
		}
	}
	for i, dir := range dirs {
		dirs[i] = d.Name(dir)
	}
	return compact(dirs)
}

// spellings returns the names that a header can have been included by: relative to each folder that
// holds it. For a system header outside of them it returns every suffix of its path.
func spellings(p string, dirs []string) []string {
	var out []string
	for _, d := range dirs {
		if rel, ok := below(p, d); ok {
			out = append(out, rel)
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

// ownFiles returns the source, the project's headers, and headers of its include folders outside of
// the project.
func ownFiles(a *graph.Action, found []cache.FileDigest) []string {
	if a.Kind.Info().LinksHost() {
		return nil
	}
	files := sourcesOf(a)
	for _, f := range found {
		if !path.IsAbs(f.Path) || slices.ContainsFunc(a.SearchDirs, func(d string) bool { return strings.HasPrefix(f.Path, d+"/") }) {
			files = append(files, f.Path)
		}
	}
	return files
}

// sourcesOf returns the inputs of a that are text, not bitcode that a compile links.
func sourcesOf(a *graph.Action) []string {
	return slices.DeleteFunc(slices.Clone(a.Inputs), func(f string) bool { return path.Ext(f) == ".bc" })
}
