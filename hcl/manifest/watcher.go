package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// sourceTree has the files of a project.
type sourceTree struct {
	*reports
	opts      Options
	fsys      *watcher
	generated map[string]string    // label of the generate block by path of its output
	madeAs    map[string]string    // the same by the name of the output, see outputNames
	matches   map[string]globMatch // by patterns
	rounds    rounds               // of loops
}

// watcher is a file system that records which paths are read.
type watcher struct {
	fs.FS
	seen     map[asked]bool
	observed []cache.Observation
	listed   map[string][]fs.DirEntry
}

// asked is the key for removing duplicate observations.
type asked struct {
	path string
	kind cache.Kind
}

func (w *watcher) note(name string, kind cache.Kind, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		kind = cache.KindAbsent
	}
	if k := (asked{name, kind}); !w.seen[k] {
		w.seen[k] = true
		w.observed = append(w.observed, cache.Observation{Path: name, Kind: kind})
	}
}

// ReadFile implements fs.ReadFileFS.
func (w *watcher) ReadFile(name string) ([]byte, error) {
	b, err := fs.ReadFile(w.FS, name)
	w.note(name, cache.KindFile, err)
	return b, err
}

// ReadDir implements fs.ReadDirFS.
func (w *watcher) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.FS, name)
	w.note(name, cache.KindFolder, err)
	if _, old := w.listed[name]; !old {
		w.listed[name] = entries
	}
	return entries, err
}

// Stat implements fs.StatFS.
func (w *watcher) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(w.FS, name)
	w.note(name, cache.KindFile, err)
	return info, err
}

// outside stats a path that is not below the manifest's folder.
func (w *watcher) outside(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	w.note(filepath.ToSlash(name), cache.KindFile, err)
	return info, err
}

// read returns the content of a file, below the manifest's folder or not.
func (w *watcher) read(root, name string) ([]byte, error) {
	if filepath.IsLocal(name) {
		return w.ReadFile(name)
	}
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(root, name)
	}
	text, err := regular.ReadAtMost(file, MaxSource)
	w.note(name, cache.KindFile, err)
	return text, err
}
