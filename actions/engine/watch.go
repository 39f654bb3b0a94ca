package engine

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A file watcher reports changes of entries of folders, by the path of the watched folder. So all
// that a build observed is kept by its real path, without links and "..". A source that is a link
// counts twice: as the link, which may come to lead to another file, and as that file.

// Watched holds the paths that a build observes. A change of any other path cannot give the next build something
// to do. All paths are real ones.
type Watched struct {
	own   []string        // paths that kbuild writes: the build tree, the action cache, reports
	files map[string]bool // also missing ones, and links on the way
	dirs  map[string]bool // folders in which every name counts
	above map[string]bool // folders on the way to any of them

	// Where links lead to, by their real paths; "" for a path that is not a link. Paths share most
	// of their folders.
	links map[string]string
}

// Watched returns what the last build of targets observed. If that is not known, as after a mistake
// in the manifest, it returns the whole project. It adds the whole project if the build failed,
// since a compiler that ends early does not report all that it would read. own are files that
// kbuild itself writes.
func (w *Workspace) Watched(targets []string, failed bool, own ...string) Watched {
	root, _ := manifest.Locate(w.Manifest)
	x := newWatched()
	if dir, err := w.ActionCache(); err == nil {
		own = append(own, dir)
	}
	for _, p := range append(own, filepath.Dir(w.StateDir())) {
		x.own = append(x.own, x.real(p))
	}
	for _, name := range []string{w.Manifest.File, manifest.DefaultFile, "kernels.local.hcl", "kernels.lock"} {
		x.add(x.files, cache.Absolute(root, name))
	}
	if !x.seen(w, targets, root) || failed {
		x.whole(x.real(root))
	}
	return x
}

func newWatched() Watched {
	return Watched{files: map[string]bool{}, dirs: map[string]bool{}, above: map[string]bool{}, links: map[string]string{}}
}

// add adds a path to a set.
func (x *Watched) add(set map[string]bool, p string) {
	if real := x.real(p); !x.Builds(real) {
		x.put(set, real)
	}
}

// put adds a real path to a set, and the folders above it: one of them may be moved away, and come
// back.
func (x *Watched) put(set map[string]bool, real string) {
	set[real] = true
	for d := filepath.Dir(real); !x.above[d]; d = filepath.Dir(d) {
		x.above[d] = true
	}
}

// mostLinks is how many links the kernel follows in one path.
const mostLinks = 40

// real resolves p, which is absolute, as the kernel does: a ".." behind a link is the folder above
// the link's target. A missing path has no links. It adds the links on the way.
func (x *Watched) real(p string) string {
	at, followed := "/", 0
	for rest := strings.Split(p, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		end, known := x.links[next]
		if !known {
			end, _ = os.Readlink(next)
			x.links[next] = end
		}
		if end == "" || followed == mostLinks {
			at = next
			continue
		}
		followed++
		if !x.Builds(next) {
			x.put(x.files, next)
		}
		if filepath.IsAbs(end) {
			at = "/"
		}
		rest = append(strings.Split(end, "/"), rest...)
	}
	return at
}

// seen adds the observations of the last build, and what is recorded of its commands. A build may
// not know whether its observations are what its commands have read. Then it stores no view, or
// keeps an earlier one, but it still stores the records. ok is false if there is no view.
func (x *Watched) seen(w *Workspace, targets []string, root string) (ok bool) {
	b := w.newBuild(Request{Targets: targets})
	if b.viewKey == nil {
		return false
	}
	db, err := tree.Open(database(w.StateDir()))
	if err != nil {
		return false
	}
	defer db.Close()
	var files []string // relative to root
	seen := db.View(*b.viewKey)
	if seen != nil {
		for _, o := range seen.All() {
			switch {
			case o.Kind == cache.KindFolder:
				x.add(x.dirs, cache.Absolute(root, o.Path))
			case o.Kind == cache.KindGuard && len(o.Absent) > 0:
				for _, name := range o.Absent {
					name, _, _ = strings.Cut(name, cache.LeadsTo)
					files = append(files, o.Path+"/"+name)
				}
			default:
				files = append(files, o.Path)
			}
		}
	}
	for rec := range db.All() {
		files = append(files, rec.Absent...)
		for _, f := range rec.Discovered {
			files = append(files, f.Path)
		}
		for _, f := range rec.Fields {
			if in, ok := strings.CutPrefix(f.Name, "input "); ok {
				files = append(files, in)
			}
		}
	}
	slices.Sort(files)
	for _, f := range slices.Compact(files) {
		x.add(x.files, cache.Absolute(root, f))
	}
	return seen != nil
}

// whole adds all folders of a project, except hidden ones and those where kbuild writes.
func (x *Watched) whole(root string) {
	filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			x.add(x.files, p)
			if isDir(p) {
				x.add(x.dirs, p) // but no folder in it: it may lead to the whole machine
			}
			return nil
		case !e.IsDir():
			return nil
		case p != root && (strings.HasPrefix(e.Name(), ".") || x.Builds(p)):
			return filepath.SkipDir
		}
		x.put(x.dirs, p)
		return nil
	})
}

// Add adds what another build observed. A failed build does not show what it would have observed
// outside of the project.
func (x *Watched) Add(other Watched) {
	maps.Copy(x.files, other.files)
	maps.Copy(x.dirs, other.dirs)
	maps.Copy(x.above, other.above)
}

// Builds reports whether kbuild itself writes a path.
func (x *Watched) Builds(p string) bool {
	return slices.ContainsFunc(x.own, func(own string) bool { return p == own || strings.HasPrefix(p, own+"/") })
}

// Folders returns the folders whose entries show a change. The value is true if every entry may
// matter. It is false if only entries that come and go matter, since the folder leads to one of the
// others.
func (x *Watched) Folders() map[string]bool {
	all := map[string]bool{}
	for d := range x.above {
		all[d] = false
	}
	for d := range x.dirs {
		all[d] = true
	}
	for f := range x.files {
		all[filepath.Dir(f)] = true
	}
	maps.DeleteFunc(all, func(dir string, _ bool) bool { return !isDir(dir) })
	return all
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// Concerns reports whether a change of a path may matter. Such a path was observed, is in a folder
// that was listed, or is a folder on the way to one.
func (x *Watched) Concerns(p string) bool {
	if x.Builds(p) || regular.IsTemporary(filepath.Base(p)) {
		return false
	}
	return x.files[p] || x.dirs[p] || x.dirs[filepath.Dir(p)] || x.above[p]
}
