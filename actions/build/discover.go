package build

import (
	"fmt"
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
	"github.com/kbuild-dev/kbuild/graph"
)

// discovered reads a depfile and digests what it names, without the declared inputs.
func (r *Runner) discovered(a *graph.Action, dir scratch) ([]cache.FileDigest, error) {
	text, err := cache.AppendFile(nil, dir.depfile())
	if err != nil {
		return nil, fmt.Errorf("the compiler wrote no dependency file for %s: %w", a.Name, err)
	}
	_, deps, err := run.ParseDepfile(text)
	if err != nil {
		return nil, fmt.Errorf("the dependency file of %s: %w", a.Name, err)
	}
	seen := map[string]bool{}
	for _, in := range a.Inputs {
		seen[in] = true
	}
	staged := r.relative(dir).dir + "/"
	var out []cache.FileDigest
	for _, d := range deps {
		name := r.name(d)
		if strings.HasPrefix(name, staged) {
			continue // staged
		}
		if seen[name] || name == os.DevNull {
			continue
		}
		seen[name] = true
		digest, err := r.Files.Digest(name)
		if err != nil {
			return nil, fmt.Errorf("the dependency file of %s names %s: %w", a.Name, d, err)
		}
		out = append(out, cache.FileDigest{Path: name, Digest: digest})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

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
// built in the wrong order on another day.
func (r *Runner) undeclared(a *graph.Action, found []cache.FileDigest) error {
	for _, f := range found {
		g := r.maker(f.Path)
		if g == nil || slices.Contains(a.OrderOnly, f.Path) || r.needs(a, g) {
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
func (r *Runner) absent(a *graph.Action, found []cache.FileDigest) []string {
	dirs := r.searchDirs(a, found)
	set := map[string]bool{}
	add := func(dir, rel string) {
		p := path.Join(dir, rel)
		if r.Listing.Exists(p) {
			return
		}
		if first, _, deep := strings.Cut(rel, "/"); deep && !r.Listing.Exists(path.Join(dir, first)) {
			p = path.Join(dir, first)
		}
		set[p] = true
	}
	for _, f := range found {
		for _, s := range spellings(f.Path, dirs) {
			for _, d := range dirs {
				if path.Join(d, s.rel) == f.Path {
					if s.ordered {
						break
					}
					continue
				}
				add(d, s.rel)
			}
		}
	}
	r.addHasInclude(a, found, dirs, add)
	out := make([]string, 0, len(set))
	for p := range set {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}

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
	for _, f := range found {
		if !path.IsAbs(f.Path) {
			add(path.Dir(f.Path))
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

// spelling is one way a source can have named a header.
type spelling struct {
	rel     string
	ordered bool // it was found through one of the folders: later folders cannot shadow it
}

// spellings are the names a header can have been included by: relative to each folder that holds
// it, and for a header of the system its last one, two and three components.
func spellings(p string, dirs []string) []spelling {
	var out []spelling
	for _, d := range dirs {
		if rel, ok := strings.CutPrefix(p, d+"/"); ok {
			out = append(out, spelling{rel, false})
		} else if d == "." && !path.IsAbs(p) {
			out = append(out, spelling{p, false})
		}
	}
	if out != nil || !path.IsAbs(p) {
		return out
	}
	parts := strings.Split(p, "/")
	for n := 1; n <= 3 && n < len(parts); n++ {
		out = append(out, spelling{path.Join(parts[len(parts)-n:]...), false})
	}
	return out
}

var hasInclude = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`__has_include(?:_next)?\s*\(\s*["<]([^">\n]+)[">]`) })

var tellsTime = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`__(?:DATE|TIME|TIMESTAMP)__`) })

// tellsTime reports that the project's own text puts the time into an output. Such an output belongs to its
// build tree and is not shared, unless SOURCE_DATE_EPOCH fixes the time.
func (r *Runner) tellsTime(a *graph.Action, found []cache.FileDigest) bool {
	if a.Depfile == "" || slices.ContainsFunc(r.KeyEnv, func(e string) bool { return strings.HasPrefix(e, "SOURCE_DATE_EPOCH=") }) {
		return false
	}
	return slices.ContainsFunc(r.ownFiles(a, found), func(f string) bool { return r.asksOf(f).time })
}

// asks is what a source or header asks for besides the files that it includes.
type asks struct {
	time    bool     // of day, or of the file
	whether []string // files exist, by __has_include
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
	text, err := cache.AppendFile(nil, r.abs(file))
	if err != nil {
		return asks{}
	}
	now := asks{time: tellsTime().Match(text)}
	for _, m := range hasInclude().FindAllSubmatch(text, -1) {
		now.whether = append(now.whether, string(m[1]))
	}
	r.asked.Store(key, now)
	return now
}

// ownFiles are the source and the project's headers.
func (r *Runner) ownFiles(a *graph.Action, found []cache.FileDigest) []string {
	if a.Kind == graph.HostLink || a.Kind == graph.SharedLink {
		return nil
	}
	files := slices.Clone(a.Inputs)
	for _, f := range found {
		if !path.IsAbs(f.Path) {
			files = append(files, f.Path)
		}
	}
	return files
}

// addHasInclude adds what the project's own files ask for by __has_include and do not find: no
// depfile tells of it.
func (r *Runner) addHasInclude(a *graph.Action, found []cache.FileDigest, dirs []string, add func(dir, rel string)) {
	for _, f := range r.ownFiles(a, found) {
		for _, name := range r.asksOf(f).whether {
			for _, d := range dirs {
				add(d, name)
			}
		}
	}
}
