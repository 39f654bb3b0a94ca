package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Look is a path that Load looked at. If it finds the same at all of them another time, and the same options, it comes to
// the same project.
type Look struct {
	Path    string // relative to Project.Root, or absolute
	List    bool   // the names in the folder were read; else the file, or only what is there
	Missing bool   // nothing was there
}

// watcher is a file system that notes what is asked for.
type watcher struct {
	fs.FS
	mu    sync.Mutex
	seen  map[Look]bool
	looks []Look
}

func (w *watcher) note(path string, list bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := Look{Path: path, List: list, Missing: errors.Is(err, fs.ErrNotExist)}
	if !w.seen[l] {
		w.seen[l] = true
		w.looks = append(w.looks, l)
	}
}

// ReadFile implements fs.ReadFileFS.
func (w *watcher) ReadFile(name string) ([]byte, error) {
	b, err := fs.ReadFile(w.FS, name)
	w.note(name, false, err)
	return b, err
}

// ReadDir implements fs.ReadDirFS.
func (w *watcher) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.FS, name)
	w.note(name, true, err)
	return entries, err
}

// Stat implements fs.StatFS.
func (w *watcher) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(w.FS, name)
	w.note(name, false, err)
	return info, err
}

// outside is a stat of a path that is not below the manifest.
func (w *watcher) outside(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	w.note(filepath.ToSlash(name), false, err)
	return info, err
}
