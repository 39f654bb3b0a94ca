package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Look is a path that Load looked at. If it finds the same at all of them another time, and the same options, it comes to
// the same project.
type Look struct {
	Path    string        // relative to Project.Root, or absolute
	List    bool          // the names in the folder were read; else the file, or only what is there
	Missing bool          // nothing was there
	Entries []fs.DirEntry `json:"-"` // of a list
}

// asked tells looks apart.
type asked struct {
	path          string
	list, missing bool
}

// watcher is a file system that notes what is asked for.
type watcher struct {
	fs.FS
	seen  map[asked]bool
	looks []Look
}

func (w *watcher) note(l Look, err error) {
	l.Missing = errors.Is(err, fs.ErrNotExist)
	if k := (asked{l.Path, l.List, l.Missing}); !w.seen[k] {
		w.seen[k] = true
		w.looks = append(w.looks, l)
	}
}

// ReadFile implements fs.ReadFileFS.
func (w *watcher) ReadFile(name string) ([]byte, error) {
	b, err := fs.ReadFile(w.FS, name)
	w.note(Look{Path: name}, err)
	return b, err
}

// ReadDir implements fs.ReadDirFS.
func (w *watcher) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.FS, name)
	w.note(Look{Path: name, List: true, Entries: entries}, err)
	return entries, err
}

// Stat implements fs.StatFS.
func (w *watcher) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(w.FS, name)
	w.note(Look{Path: name}, err)
	return info, err
}

// outside is a stat of a path that is not below the manifest.
func (w *watcher) outside(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	w.note(Look{Path: filepath.ToSlash(name)}, err)
	return info, err
}

// read is the text of a file, below the manifest or not.
func (w *watcher) read(root, name string) ([]byte, error) {
	if filepath.IsLocal(name) {
		return w.ReadFile(name)
	}
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(root, name)
	}
	text, err := regular.ReadAtMost(file, MaxSource)
	w.note(Look{Path: name}, err)
	return text, err
}
