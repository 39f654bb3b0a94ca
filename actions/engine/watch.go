package engine

import (
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Watched is what a build looks at: a change of anything else cannot make the next one do something.
type Watched struct {
	build string          // the build tree
	files map[string]bool // absolute, also those that are not there
	dirs  map[string]bool // whose names all count
}

// Watched is what the last build of targets looked at. Where that is not known, as after a mistake in the manifest, it is the whole project; where
// the build failed, it is that too, since a compiler that ends early does not tell what it looked for.
func (w *Workspace) Watched(targets []string, failed bool) Watched {
	root, _ := manifest.Locate(w.Manifest)
	x := Watched{build: filepath.Dir(w.StateDir()), files: map[string]bool{}, dirs: map[string]bool{}}
	for _, name := range []string{w.Manifest.File, manifest.DefaultFile, "kernels.local.hcl", "kernels.lock"} {
		x.files[filepath.Join(root, name)] = true
	}
	if !x.seen(w, targets, root) || failed {
		x.whole(root)
	}
	return x
}

// seen takes the observations of the last build.
func (x *Watched) seen(w *Workspace, targets []string, root string) (ok bool) {
	v := w.view(Request{Targets: targets})
	if v == nil {
		return false
	}
	db, err := tree.Open(database(v.state))
	if err != nil {
		return false
	}
	defer db.Close()
	seen := db.View(v.key)
	if seen == nil {
		return false
	}
	for _, o := range seen.All() {
		p := cache.Absolute(root, o.Path)
		if x.Builds(p) {
			continue
		}
		switch o.Kind {
		case cache.KindFolder:
			x.dirs[p] = true
		case cache.KindGuard:
			for _, name := range o.Absent {
				x.files[filepath.Join(p, name)] = true
			}
		default:
			x.files[p] = true
		}
	}
	return true
}

// whole takes all folders of a project but the build tree and those that are hidden.
func (x *Watched) whole(root string) {
	filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || !e.IsDir():
			return nil
		case p != root && (strings.HasPrefix(e.Name(), ".") || x.Builds(p)):
			return filepath.SkipDir
		}
		x.dirs[p] = true
		return nil
	})
}

// Builds reports a path in the build tree, where builds write.
func (x *Watched) Builds(p string) bool { return p == x.build || strings.HasPrefix(p, x.build+"/") }

// Folders are those whose entries tell of a change: the nearest ones that exist.
func (x *Watched) Folders(exists func(dir string) bool) map[string]bool {
	all := map[string]bool{}
	known := map[string]string{}
	nearest := func(dir string) string {
		d := dir
		for d != "/" && d != "." && known[d] == "" && !exists(d) {
			d = filepath.Dir(d)
		}
		if known[d] != "" {
			d = known[d]
		}
		known[dir] = d
		return d
	}
	for d := range x.dirs {
		all[nearest(d)] = true
	}
	for f := range x.files {
		all[nearest(filepath.Dir(f))] = true
	}
	return all
}

// Concerns reports a path whose change may matter: one that was looked at, one in a folder that was listed, or a folder on the way to one.
func (x *Watched) Concerns(p string) bool {
	if x.Builds(p) {
		return false
	}
	if x.files[p] || x.dirs[p] || x.dirs[filepath.Dir(p)] {
		return true
	}
	for f := range x.files {
		if strings.HasPrefix(f, p+"/") {
			return true
		}
	}
	return false
}
