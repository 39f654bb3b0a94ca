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

// Watched is what a build observes. A change of any other path cannot give the next build something
// to do. All paths are real ones.
type Watched struct {
	own   []string        // paths that kbuild writes: the build tree, the action cache, reports
	files map[string]bool // also missing ones, and links on the way
	dirs  map[string]bool // folders in which every name counts
	above map[string]bool // folders on the way to any of them

	links links
}

// Watched returns what the last build of targets observed. If that is not known, as after a mistake
// in the manifest, it returns the whole project. It adds the whole project if the build failed,
// since a compiler that ends early does not report all that it would read. own are files that
// kbuild itself writes.
func (w *Workspace) Watched(targets []string, failed bool, own ...string) Watched {
	root, _ := manifest.Locate(w.Manifest)
	x := newWatched()
	x.own = append(x.own, x.links.real(filepath.Dir(w.StateDir()), nil))
	if dir, err := w.ActionCache(); err == nil {
		x.own = append(x.own, x.links.real(dir, nil))
	}
	for _, file := range own {
		x.own = append(x.own, x.links.real(file, nil))
	}
	for _, name := range []string{w.Manifest.File, manifest.DefaultFile, "kernels.local.hcl", "kernels.lock"} {
		x.add(x.files, cache.Absolute(root, name))
	}
	if !x.seen(w, targets, root) || failed {
		x.whole(x.links.real(root, nil))
	}
	x.ways()
	return x
}

func newWatched() Watched {
	return Watched{files: map[string]bool{}, dirs: map[string]bool{}, above: map[string]bool{}, links: links{}}
}

// add adds a path to a set, and to the files the links on the way to it.
func (x *Watched) add(set map[string]bool, p string) {
	if real := x.links.real(p, func(link string) { x.files[link] = true }); !x.Builds(real) {
		set[real] = true
	}
}

// seen adds the observations of the last build, and what is recorded of its commands. ok is false
// if they are incomplete.
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
	seen := db.View(*b.viewKey)
	if seen != nil {
		for _, o := range seen.All() {
			x.observation(cache.Absolute(root, o.Path), o)
		}
	}
	for rec := range db.All() {
		x.record(root, rec)
	}
	return seen != nil
}

// record adds what a command has read, or probed and found absent. A build may not know whether its
// observations are what its commands have read. Then it stores no view, or keeps an earlier one,
// but it still stores the records.
func (x *Watched) record(root string, rec *cache.Record) {
	for _, f := range rec.Discovered {
		x.add(x.files, cache.Absolute(root, f.Path))
	}
	for _, p := range rec.Absent {
		x.add(x.files, cache.Absolute(root, p))
	}
	for _, f := range rec.Fields {
		if in, ok := strings.CutPrefix(f.Name, "input "); ok {
			x.add(x.files, cache.Absolute(root, in))
		}
	}
}

func (x *Watched) observation(p string, o cache.Observation) {
	switch o.Kind {
	case cache.KindFolder:
		x.add(x.dirs, p)
	case cache.KindGuard:
		for _, name := range o.Absent {
			x.add(x.files, p+"/"+name)
		}
		if len(o.Absent) == 0 {
			x.add(x.files, p)
		}
	default:
		x.add(x.files, p)
	}
}

// whole adds all folders of a project, except hidden ones and those where kbuild writes.
func (x *Watched) whole(root string) {
	filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			x.add(x.files, p)
			if info, err := os.Stat(p); err == nil && info.IsDir() {
				x.add(x.dirs, p) // but no folder in it: it may lead to the whole machine
			}
			return nil
		case !e.IsDir():
			return nil
		case p != root && (strings.HasPrefix(e.Name(), ".") || x.Builds(p)):
			return filepath.SkipDir
		}
		x.dirs[p] = true
		return nil
	})
}

// ways adds the folders above all that is watched: one of them may be moved away, and come back.
func (x *Watched) ways() {
	for _, set := range []map[string]bool{x.files, x.dirs} {
		for p := range set {
			for d := filepath.Dir(p); !x.above[d]; d = filepath.Dir(d) {
				x.above[d] = true
			}
		}
	}
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
func (x *Watched) Folders(exists func(dir string) bool) map[string]bool {
	all := map[string]bool{}
	for d := range x.above {
		if exists(d) {
			all[d] = false
		}
	}
	for d := range x.dirs {
		if exists(d) {
			all[d] = true
		}
	}
	for f := range x.files {
		if d := filepath.Dir(f); exists(d) {
			all[d] = true
		}
	}
	return all
}

// Concerns reports whether a change of a path may matter. Such a path was observed, is in a folder
// that was listed, or is a folder on the way to one.
func (x *Watched) Concerns(p string) bool {
	if x.Builds(p) || regular.IsTemporary(filepath.Base(p)) {
		return false
	}
	return x.files[p] || x.dirs[p] || x.dirs[filepath.Dir(p)] || x.above[p]
}

// links caches where symbolic links lead to, by their real paths; "" for a path that is not a link.
// Paths that a build has observed share most of their folders.
type links map[string]string

// mostLinks is how many links the kernel follows in one path.
const mostLinks = 40

// real resolves p, which is absolute, as the kernel does: a ".." behind a link is the folder above
// the link's target. A missing path has no links. If on is not nil, it is called with the real path
// of each link on the way.
func (l links) real(p string, on func(link string)) string {
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
		end := l.end(next)
		if end == "" || followed == mostLinks {
			at = next
			continue
		}
		followed++
		if on != nil {
			on(next)
		}
		if filepath.IsAbs(end) {
			at = "/"
		}
		rest = append(strings.Split(end, "/"), rest...)
	}
	return at
}

// end returns where a link leads to, or "" for a path that is not a link.
func (l links) end(p string) string {
	end, known := l[p]
	if !known {
		end, _ = os.Readlink(p)
		l[p] = end
	}
	return end
}
