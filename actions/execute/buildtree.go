package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// buildTree places outputs. It drops what is remembered about a file that is written.
type buildTree struct {
	root    string
	files   *cache.Files
	listing *cache.Listing
}

func (t buildTree) abs(p string) string { return cache.Absolute(t.root, p) }

// written drops what is remembered about a file.
func (t buildTree) written(file string) {
	t.files.Forget(file)
	t.listing.Forget(filepath.Dir(t.abs(file)))
}

// holds reports whether an output exists with the recorded content.
func (t buildTree) holds(o cache.Output) bool {
	info, err := os.Lstat(t.abs(o.Path))
	if err != nil || !info.Mode().IsRegular() || info.Size() != o.Size || (info.Mode()&0o100 != 0) != o.Exec {
		return false
	}
	d, err := t.files.Digest(o.Path)
	return err == nil && d == o.Digest
}

// place moves a finished file to its name, unless the file there is equal already.
func (t buildTree) place(temp string, o cache.Output) error {
	if t.holds(o) {
		return os.Remove(temp)
	}
	final := t.abs(o.Path)
	err := move(temp, final)
	if err == nil {
		t.written(o.Path)
		return nil
	}
	if info, missing := os.Lstat(final); missing == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder; it is where kbuild writes a file: remove it", o.Path)
	}
	return fmt.Errorf("moving %s into place: %w", o.Path, err)
}

// move renames a file, and creates the folder if it is missing.
func move(from, to string) error {
	err := cache.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		err = cache.Rename(from, to)
	}
	return err
}

// clear removes the outputs of an in-place command, so that it cannot succeed by leaving an old
// one.
func (t buildTree) clear(a *graph.Action) error {
	files := a.Outputs
	if a.Kind == graph.Generate && a.Depfile != "" {
		files = append(slices.Clone(files), a.Depfile)
	}
	for _, o := range files {
		if err := os.MkdirAll(filepath.Dir(t.abs(o)), 0o777); err != nil {
			return fmt.Errorf("making the folder of %s: %w", o, err)
		}
		if err := os.Remove(t.abs(o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the old %s: %w", o, err)
		}
		t.written(o)
	}
	return nil
}

// forget drops what is remembered about the outputs of a failed action. It removes those of an
// in-place command, which may be incomplete.
func (t buildTree) forget(a *graph.Action) {
	for _, o := range a.Outputs {
		if a.InPlace {
			os.Remove(t.abs(o))
		}
		t.written(o)
	}
}

func digestOutput(file, name string) (cache.Output, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return cache.Output{}, err
	}
	if !info.Mode().IsRegular() {
		return cache.Output{}, fmt.Errorf("%s is no regular file", name)
	}
	d, err := cache.DigestFile(file)
	return cache.Output{Path: name, Digest: d, Size: info.Size(), Exec: info.Mode()&0o100 != 0}, err
}
