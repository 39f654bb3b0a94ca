package build

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

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
		g := r.maker(f.Path)
		if g == nil {
			if err := r.undeclaredFile(a, f.Path); err != nil {
				return err
			}
			continue
		}
		if slices.Contains(a.OrderOnly, f.Path) || r.needs(a, g) {
			continue
		}
		return fmt.Errorf("%s reads %s, which %s makes (%s), and %s does not depend on it: add it to deps", a.Name, f.Path, g.Target, g.Pos, a.Target)
	}
	return nil
}

// absent lists paths that do not exist and would be read instead of a discovered header if they did:
// the header's name in a folder that is searched before the one where it was found. Of a path whose
// first folder does not exist either, only that folder is listed.
//
// It lists too many rather than too few (a quoted include searches the folder of the file that
// includes it, and a depfile does not say which that was); one too many costs a compile that was not
// needed on the day such a file appears.
//
// there are files that were asked for by __has_include and were not read: if one goes, the answer is another. others are files that are
// there and would be missing if the command had been the first to search their folders: they may have come since.
func (r *Runner) absent(a *graph.Action, found []cache.FileDigest, climbing []string) (missing []string, there []cache.FileDigest, others []string) {
	s := search{r: r, dirs: r.searchDirs(a, found), missing: map[string]bool{}, nowhere: map[string]bool{}, others: map[string]bool{}}
	for _, f := range found {
		for _, rel := range spellings(f.Path, s.dirs) {
			s.elsewhere(rel, f.Path)
		}
	}
	for _, c := range climbing {
		s.climb(c)
	}
	whether := r.whether(a, found)
	for _, name := range whether {
		s.elsewhere(name, "")
	}
	there = s.there(a, found, whether)
	var included []string
	for _, f := range r.ownFiles(a, found) {
		included = append(included, r.asksOf(f).included...)
	}
	if len(included) > 0 {
		s.dirs = append([]string{"."}, a.SearchDirs...) // as the assembler searches
		for _, name := range included {
			s.elsewhere(name, "")
		}
		there = append(there, s.there(a, slices.Concat(found, there), included)...)
	}
	for _, f := range slices.Concat(found, there) {
		delete(s.others, f.Path)
	}
	return slices.Sorted(maps.Keys(s.missing)), there, slices.Sorted(maps.Keys(s.others))
}

// search finds what is missing in the folders that a compiler searches.
type search struct {
	r       *Runner
	dirs    []string
	missing map[string]bool
	nowhere map[string]bool // folders that no folder has: each is missing in all
	others  map[string]bool // files that are not missing, and are not what was found
}

// elsewhere notes that rel is missing in all folders but where it was found.
func (s *search) elsewhere(rel, found string) {
	first, _, deep := strings.Cut(rel, "/")
	if deep && s.nowhere[first] {
		return
	}
	all := deep
	for _, d := range s.dirs {
		p := path.Join(d, rel)
		if p == found {
			all = false
			continue
		}
		top := path.Join(d, first)
		switch {
		case deep && !s.r.Listing.Exists(top):
			s.missing[top] = true
		case !s.r.Listing.Exists(p):
			s.missing[p] = true
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
			if !s.r.Listing.Exists(p) {
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

// searchDirs are the folders of quoted includes (of the source and of the project's headers), then
// the include folders in order.
func (r *Runner) searchDirs(a *graph.Action, found []cache.FileDigest) []string {
	var dirs []string
	add := func(d string) {
		if d = r.name(d); !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	for _, in := range a.Inputs {
		add(path.Dir(in))
	}
	for _, f := range r.ownFiles(a, found) {
		if len(dirs) < manyDirs || !path.IsAbs(f) {
			add(path.Dir(f))
		}
	}
	for _, d := range a.SearchDirs {
		add(d)
	}
	for _, e := range r.KeyEnv {
		name, value, _ := strings.Cut(e, "=")
		if name == "CPATH" || name == "C_INCLUDE_PATH" || name == "CPLUS_INCLUDE_PATH" {
			for _, d := range filepath.SplitList(value) {
				add(d)
			}
		}
	}
	return dirs
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

var hasInclude = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`__has_include(?:_next)?\s*\(\s*["<]([^">\n]+)[">]`)
})

// Where a macro asks, the name may stand in any directive.
var (
	hasIncludeOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`__has_include(?:_next)?\s*\(\s*\w`) })
	directive    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^[ \t]*#[ \t]*(?:define|if|elif)\b.*$`) })
	headerName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`["<]([\w./+-]+)[">]`) })
)

// incbin is the assembler's directive in assembler source and in a string of C, with the name written out.
var incbin = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.incbin\s+\\?"([^"\\\n]+)\\?"`) })

// asks is what a source or header asks for besides the files that it includes.
type asks struct {
	clocks  clocks          // macros that tell a time
	whether []string        // files exist, by __has_include
	macro   bool            // some __has_include has a macro in place of a name
	names   func() []string // that such a macro may stand for

	included []string // files that the assembler takes in: .incbin
}

// askedBy is a file with its content. A header is read by very many sources.
type askedBy struct {
	file   string
	digest cache.Digest
}

// asksOf reads a file of the project, once. One that cannot be read asks for nothing: its compile fails.
func (r *Runner) asksOf(file string) asks {
	d, err := r.digest(file)
	if err != nil {
		return asks{}
	}
	key := askedBy{file, d}
	if known, ok := r.asked.Load(key); ok {
		return known.(asks)
	}
	text, err := regular.Append(nil, r.abs(file))
	if err != nil {
		return asks{}
	}
	now := asks{clocks: clocksIn(text)}
	if bytes.Contains(text, []byte("__has_include")) {
		for _, m := range hasInclude().FindAllSubmatch(text, -1) {
			now.whether = append(now.whether, string(m[1]))
		}
		now.macro = hasIncludeOf().Match(text)
	}
	if bytes.Contains(text, []byte(".incbin")) {
		for _, m := range incbin().FindAllSubmatch(text, -1) {
			now.included = append(now.included, string(m[1]))
		}
	}
	now.names = sync.OnceValue(func() []string { return namesIn(r.abs(file)) })
	r.asked.Store(key, now)
	return now
}

// namesIn are the names in the directives of a file.
func namesIn(file string) (names []string) {
	text, _ := regular.Append(nil, file)
	for _, line := range directive().FindAll(text, -1) {
		for _, m := range headerName().FindAllSubmatch(line, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
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

// whether are the names that the project's own files ask for by __has_include: no depfile tells of it.
func (r *Runner) whether(a *graph.Action, found []cache.FileDigest) (names []string) {
	macro := false
	own := r.ownFiles(a, found)
	for _, f := range own {
		asks := r.asksOf(f)
		names, macro = append(names, asks.whether...), macro || asks.macro
	}
	if !macro {
		return names
	}
	for _, f := range own {
		if asks := r.asksOf(f); asks.names != nil {
			names = append(names, asks.names()...)
		}
	}
	for _, arg := range a.Argv {
		if strings.HasPrefix(arg, "-D") {
			for _, m := range headerName().FindAllStringSubmatch(arg, -1) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// absentLibs are the libraries that do not exist and that a link would take for -lNAME if they did: in a folder of -L before the one
// that has it, or shared beside a static one.
func (r *Runner) absentLibs(a *graph.Action) (missing []string) {
	dirs, names, static := r.linked(a)
	for _, name := range names {
		files := []string{"lib" + name + ".so", "lib" + name + ".a"}
		if exact, ok := strings.CutPrefix(name, ":"); ok {
			files = []string{exact}
		} else if static {
			files = files[1:]
		}
	search:
		for _, d := range dirs {
			for _, f := range files {
				p := path.Join(d, f)
				if r.Listing.Exists(p) {
					break search
				}
				missing = append(missing, p)
			}
		}
	}
	return missing
}

// linked are the folders of -L, those of LIBRARY_PATH after them, and the names of -l.
func (r *Runner) linked(a *graph.Action) (dirs, names []string, static bool) {
	for i, arg := range a.Argv {
		if len(arg) == 2 && i+1 < len(a.Argv) { // -L DIR
			arg += a.Argv[i+1]
		}
		if d, ok := strings.CutPrefix(arg, "-L"); ok {
			dirs = append(dirs, d)
		} else if n, ok := strings.CutPrefix(arg, "-l"); ok {
			names = append(names, n)
		}
		static = static || arg == "-static"
	}
	for _, e := range r.KeyEnv {
		if list, ok := strings.CutPrefix(e, "LIBRARY_PATH="); ok {
			dirs = append(dirs, filepath.SplitList(list)...)
		}
	}
	return dirs, names, static
}
