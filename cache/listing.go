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

// Listing answers whether paths exist from folder listings that are read once in a run. A compile
// has hundreds of paths that must stay absent; this makes each a map lookup instead of a stat.
//
// A link that leads nowhere does not exist, as for a compiler; a folder does exist. A folder that
// may be entered and not read is asked path by path.
type Listing struct {
	root string
	dirs sync.Map // clean folder path -> *folder
	real sync.Map // clean folder path -> bool: it is a folder, and no link to one
}

// folder is one listing.
type folder struct {
	once   sync.Once
	names  map[string]bool // true for what may be a link and must be followed
	opaque bool            // cannot be read
}

// NewListing starts with nothing read. Relative paths are relative to root.
func NewListing(root string) *Listing { return &Listing{root: root} }

// Exists reports whether there is a file or folder of that name, as of the first time its folder
// was asked for in this run.
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

// Names is the listing of one folder.
type Names struct {
	l   *Listing
	dir string
	f   *folder
}

// Names reads a folder, which need not exist. What it gives is as old as what Exists says.
func (l *Listing) Names(dir string) Names {
	dir = l.Clean(l.abs(dir))
	return Names{l, dir, l.folder(dir)}
}

// Has reports whether the folder has a name, be it of a link that leads nowhere. Of a folder that
// cannot be read it may have any.
func (n Names) Has(name string) bool {
	_, ok := n.f.names[name]
	return ok || n.f.opaque
}

// Some reports whether the folder has a name with an ending.
func (n Names) Some(ending string) bool {
	if n.f.opaque {
		return true
	}
	for name := range n.f.names {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}

// Forget drops the listing of a folder that the build writes into, and those of the folders above
// that do not know it yet.
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

// Clean is filepath.Clean, except that it returns path unchanged if a ".." in it follows a symbolic
// link, where it leads to another folder, or a name that is no folder.
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

// isReal reports whether dir is a folder and not a symbolic link. The first answer holds for the
// whole run.
func (l *Listing) isReal(dir string) bool {
	is, known := l.real.Load(dir)
	if !known {
		info, err := os.Lstat(l.abs(dir))
		is, _ = l.real.LoadOrStore(dir, err == nil && info.IsDir())
	}
	return is.(bool)
}
