// Package discover finds what a command read besides its declared inputs, and which absent paths it
// probed. Its sources are dependency files, the folders that compilers search, the output of
// linkers, and the text of sources. It reports which parts of a record have changed since. It does
// not schedule commands: it starts a process only by Build.Query.
package discover

import (
	"context"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Config holds the parts of the host environment and the build that discovery needs.
type Config struct {
	Tree
	Env    []string          // the environment of commands, for PATH
	KeyEnv []string          // the part of it that can change an output
	Tools  map[string]string // fingerprints of tools; a tool without one is not queried
}

// Build answers the queries of discovery about the build that it belongs to.
type Build interface {
	// Digest returns the digest of a file's content.
	Digest(file string) (cache.Digest, error)
	// IsOutput reports whether an action writes a file. IsIntermediate reports whether it does so
	// only for other actions.
	IsOutput(file string) bool
	IsIntermediate(file string) bool
	// Query runs a query in the working directory of a's command and with its environment. quiet
	// drops its standard output. ok is exit status 0: a failing compiler's output may be an answer
	// as well.
	Query(ctx context.Context, a *graph.Action, argv []string, quiet bool) (printed string, ok bool)
}

// Discovery finds and checks what commands read. All methods may be called concurrently.
type Discovery struct {
	Config
	named   cache.Shards[string, named] // by argument
	sources *sources
	drivers *drivers
	loader  *loader
}

// New returns a Discovery. It remembers what it learns of system files and of compilers.
func New(c Config) *Discovery {
	return &Discovery{
		Config:  c,
		sources: &sources{tree: c.Tree},
		drivers: &drivers{Config: c},
		loader:  &loader{build: c.Build},
	}
}

// Ran describes a command that has run.
type Ran struct {
	Action  *graph.Action
	Depfile string // dependency file that the command wrote
	Trace   string // the linker's output: see IsTraced
	Scratch string // a file that Discovery may write
	// Folders are the names of the command's folder for temporary files.
	Folders []string
	// Staged is the one of Folders that the command uses for staged files, as in/NAME.
	Staged string
	// Start is when the command started. A file that has changed since, by Files, was not read
	// with its present content.
	Start cache.Moment
	Files *cache.Files
}

// changed reports whether a file has changed since the command started, or may have.
func (r Ran) changed(file string, was cache.Digest) bool {
	return !r.Files.Unchanged(file, was, r.Start)
}

// isTemporary reports whether a file is in the command's folder for temporary files.
func (r Ran) isTemporary(file string) bool {
	return slices.ContainsFunc(r.Folders, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}

// Find records what a command read and probed. stable is false if some of it has changed since the
// command started, or may have appeared. A pass without a dependency file, such as cicc, reads only
// what it declares.
func (d *Discovery) Find(ctx context.Context, ran Ran, rec *cache.Record) (stable bool, err error) {
	stable = true
	a, info := ran.Action, ran.Action.Kind.Info()
	if option := d.profile(a); option != "" {
		addFile(rec, never("the compiler chooses the name of the profile of "+option))
	}
	var dotDot []string
	if a.Depfile != "" {
		found, climbing, placed, err := d.readDepfiles(ctx, ran)
		if err != nil {
			return false, err
		}
		dotDot = climbing
		if placed {
			addFile(rec, d.inThisFolder())
		}
		for _, f := range found {
			stable = stable && (d.IsOutput(f.Path) || !ran.changed(f.Path, f.Digest))
		}
		rec.Discovered = append(rec.Discovered, found...)
	}
	if (a.Depfile != "" || assembler(a) != "") && !info.LinksHost() && !info.Generates {
		stable = d.includes(ctx, ran, rec, dotDot) && stable
	}
	switch info.Linker {
	case graph.LinkerHost:
		d.libraries(ctx, ran, rec)
	case graph.LinkerNVLink, graph.LinkerLLD:
		stable = d.deviceLibraries(ran, a.Argv, info.Linker, rec) && stable
	case graph.LinkerDriver:
		stable = d.linkStub(ctx, ran, rec) && stable
	}
	return stable, nil
}

// Tree is the project and the system around it in their current state. Paths are relative to the
// root or absolute.
type Tree struct {
	Build
	Root    string
	Listing *cache.Listing // which paths exist
}

// Abs returns a path for system calls.
func (t Tree) abs(p string) string { return cache.Absolute(t.Root, p) }

// Name returns a path in the spelling of actions: relative to the root if inside, and with slashes.
// It is clean except for a ".." after a symbolic link (cache.Listing.Clean). The compilers often
// spell their own headers with "..".
func (t Tree) Name(p string) string {
	clean := t.Listing.Clean(p)
	if rel, ok := strings.CutPrefix(clean, t.Root+"/"); ok {
		clean = rel
	}
	return filepath.ToSlash(clean)
}

// isFile reports whether a compiler would open a path: compilers skip folders.
func (t Tree) isFile(p string) bool {
	info, err := os.Stat(t.abs(p))
	return err == nil && !info.IsDir()
}

// hasFile is isFile for a path that is usually absent.
func (t Tree) hasFile(p string) bool { return t.Listing.Exists(p) && t.isFile(p) }

func (t Tree) isFolder(p string) bool {
	info, err := os.Stat(t.abs(p))
	return err == nil && info.IsDir()
}

// first returns the file of a name in the first folder that has it.
func (t Tree) first(dirs []string, name string) (f cache.FileDigest, ok bool) {
	for _, dir := range dirs {
		p := t.Name(t.join(dir, name))
		if !t.hasFile(p) {
			continue
		}
		d, err := t.Digest(p)
		return cache.FileDigest{Path: p, Digest: d}, err == nil
	}
	return f, false
}

// all returns the files of a name in some folders.
func (t Tree) all(dirs []string, name string) (files []cache.FileDigest) {
	for _, dir := range dirs {
		if f, ok := t.first([]string{dir}, name); ok {
			files = append(files, f)
		}
	}
	return files
}

// join joins a folder and a name; an absolute name stays as it is.
func (t Tree) join(dir, name string) string {
	if path.IsAbs(name) || dir == "." {
		return t.Listing.Clean(name)
	}
	return t.Listing.Clean(dir + "/" + name)
}

// firstAbsent returns the paths that are absent in the folders before the first one with the file.
// It returns none for a folder that does not exist.
func (t Tree) firstAbsent(dirs, files []string) (missing []string) {
	for _, f := range files {
		for _, d := range dirs {
			if !t.Listing.Exists(d) {
				continue
			}
			p := t.join(d, f)
			if t.hasFile(p) {
				break
			}
			missing = append(missing, p)
		}
	}
	return missing
}

// appeared reports whether a path of Record.Absent now exists. A path of a folder, which ends with
// a slash, has appeared if it is now a file.
func (t Tree) appeared(p string) bool {
	if dir, ok := strings.CutSuffix(p, "/"); ok {
		return t.hasFile(dir)
	}
	return t.Listing.Exists(p)
}

// compact removes duplicates from a list. gcc does the same, by inode.
func compact(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

// Recorded is an action with its last record; nil if it has none.
type Recorded struct {
	Action *graph.Action
	Record *cache.Record
}

// Observed returns the paths that a null build observes besides files that it reads by content.
// Some must stay absent: a header that would shadow another, a file that an argument would name.
// Others must stay what they are: where PATH leads, a folder that an argument names, headers whose
// time stamps matter. No path below the folder except is returned. ok is false if an action has no
// record that lists its observations.
func (d *Discovery) Observed(all iter.Seq[Recorded], except string) (observed []cache.Observation, ok bool) {
	set, byStat, done := map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}
	ok = true
	for of := range all {
		rec := of.Record
		if rec == nil || RunsEachTime(rec) != "" {
			ok = false
			continue
		}
		for _, p := range rec.Absent {
			set[strings.TrimSuffix(p, "/")] = true
		}
		equal, _ := EqualHeaders(rec)
		for _, f := range equal {
			byStat[f] = true
		}
		d.watchShadows(rec, set, done)
		_, missed := d.Loaded(of.Action)
		for _, p := range slices.Concat(d.watchArguments(of.Action), missed, d.loader.pathsOf(rec)) {
			set[p] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(byStat)) {
		observed = append(observed, cache.Observation{Path: p, Kind: cache.KindFile, ByStat: true})
	}
	for _, p := range slices.Sorted(maps.Keys(set)) {
		switch {
		case strings.HasPrefix(p, except+"/"):
		case d.Listing.Exists(p):
			observed = append(observed, cache.Observation{Path: p, Kind: cache.KindFile})
		default:
			observed = append(observed, cache.Observation{Path: p, Kind: cache.KindAbsent})
		}
	}
	return observed, ok
}

// Uses returns the paths that an action depends on besides the outputs of other actions: what it
// reads, what it names, what must stay absent. It omits the paths that must not appear in the
// folders that its compiler searches: see Searched and Shadows.
func (d *Discovery) Uses(of Recorded) []string {
	a, rec := of.Action, of.Record
	found, missed := d.Loaded(a)
	out := slices.Concat(a.Reads(), d.Named(a), d.watchArguments(a), found, missed)
	if rec != nil {
		for _, f := range rec.Discovered {
			if !IsCondition(f.Path) {
				out = append(out, f.Path)
			}
		}
		for _, p := range rec.Absent {
			out = append(out, strings.TrimSuffix(p, "/"))
		}
		out = append(out, d.loader.pathsOf(rec)...)
	}
	if a.Kind.Info().Generates && len(a.Argv) > 0 {
		for _, p := range d.onPath(a.Argv[0]) {
			if real, err := filepath.EvalSymlinks(d.abs(p)); err == nil {
				out = append(out, real)
			}
		}
	}
	return out
}

// Shadows returns the paths in the searched folders that must stay absent, or are folders that the
// compiler skipped.
func (d *Discovery) Shadows(rec *cache.Record) []string {
	set := map[string]bool{}
	d.watchShadows(rec, set, map[string]map[string]bool{})
	return slices.Collect(maps.Keys(set))
}

// Searched returns the folders that the compilers of some actions searched, sorted. A file that
// appears in one of them may be read instead of any header.
func Searched(all iter.Seq[Recorded]) []string {
	lists, dirs := map[string]bool{}, map[string]bool{}
	for of := range all {
		if of.Record != nil {
			for _, list := range of.Record.Search {
				lists[list] = true
			}
		}
	}
	for list := range lists {
		for _, d := range strings.Split(list, "\n") {
			dirs[d] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}
