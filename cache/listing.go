package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Listing reports whether paths exist. It reads each folder once per run. A compile has hundreds of
// paths that must stay absent; with a listing each is a map lookup instead of a stat.
//
// A dangling link does not exist, as for a compiler; a folder does exist. In a folder that can be
// searched but not read, each path costs a stat.
type Listing struct {
	root string
	dirs sync.Map // clean folder path -> *folder
	real sync.Map // clean folder path -> bool: it is a folder, not a link to one
}

// folder is the listing of one folder.
type folder struct {
	once   sync.Once
	names  map[string]bool // true for names that may be links and must be followed
	opaque bool            // cannot be read
}

// NewListing returns a Listing that has read nothing. Relative paths are relative to root.
func NewListing(root string) *Listing { return &Listing{root: root} }

// Exists reports whether there is a file or folder of that name. The answer is as of the first
// query about its folder in this run.
func (l *Listing) Exists(path string) bool {
	if path = l.Clean(l.abs(path)); filepath.Clean(path) != path {
		return l.stat(path)
	}
	dir, base := filepath.Split(path)
	if base == "" {
		return l.stat(path)
	}
	d := l.folder(filepath.Clean(dir))
	if d.opaque {
		return l.stat(path)
	}
	link, ok := d.names[base]
	return ok && (!link || l.stat(path))
}

// Names are the names in one folder.
type Names struct {
	l   *Listing
	dir string
	f   *folder
}

// Names reads a folder, which need not exist. The names are as of the first query about the folder,
// as for Exists.
func (l *Listing) Names(dir string) Names {
	dir = l.Clean(l.abs(dir))
	return Names{l, dir, l.folder(dir)}
}

// Has reports whether the folder has a name, even of a dangling link. It returns true for every
// name if the folder cannot be read.
func (n Names) Has(name string) bool {
	_, ok := n.f.names[name]
	return ok || n.f.opaque
}

// Forget drops the listing of a folder that the build writes into. It also drops those of the
// parent folders that do not list it yet.
func (l *Listing) Forget(dir string) {
	dir = l.Clean(l.abs(dir))
	for {
		l.dirs.Delete(dir)
		parent, base := filepath.Dir(dir), filepath.Base(dir)
		d, ok := l.dirs.Load(parent)
		if !ok || parent == dir {
			return
		}
		if _, known := l.load(d.(*folder), parent).names[base]; known {
			return
		}
		dir = parent
	}
}

func (l *Listing) folder(dir string) *folder {
	d, ok := l.dirs.Load(dir)
	if !ok {
		d, _ = l.dirs.LoadOrStore(dir, &folder{})
	}
	return l.load(d.(*folder), dir)
}

func (l *Listing) load(d *folder, dir string) *folder {
	d.once.Do(func() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			d.opaque = !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
			return
		}
		d.names = make(map[string]bool, len(entries))
		for _, e := range entries {
			d.names[e.Name()] = e.Type()&(fs.ModeSymlink|fs.ModeIrregular) != 0
		}
	})
	return d
}

func (l *Listing) stat(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (l *Listing) abs(path string) string { return Absolute(l.root, path) }

// Clean is filepath.Clean, except for a ".." that follows a symbolic link or a name that is not a
// folder. Clean returns such a path unchanged, since ".." leads to another folder there.
func (l *Listing) Clean(path string) string {
	clean := filepath.Clean(path)
	if clean == path || !strings.Contains(path, "..") {
		return clean
	}
	at := ""
	if filepath.IsAbs(path) {
		at = "/"
	}
	for name := range strings.SplitSeq(path, "/") {
		if base := filepath.Base(at); name == ".." && at != "" && base != ".." && !l.isReal(at) {
			return path
		}
		at = filepath.Join(at, name)
		if at == "." {
			at = ""
		}
	}
	return clean
}

// isReal reports whether dir is a folder and not a symbolic link. The first answer is valid for the
// whole run.
func (l *Listing) isReal(dir string) bool {
	is, known := l.real.Load(dir)
	if !known {
		info, err := os.Lstat(l.abs(dir))
		is, _ = l.real.LoadOrStore(dir, err == nil && info.IsDir())
	}
	return is.(bool)
}
