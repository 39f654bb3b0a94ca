package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// buildTree is the files of the project and of its build tree, with the actions that write them. It
// forgets what is remembered about a file that is written.
//
// If few of very many actions are affected, Graph has only those and the passes that they need.
// Outer then has all actions.
type buildTree struct {
	Config

	passesMu sync.Mutex
	passes   map[string]cache.Output // outputs of the passes that are up to date or have run
}

func (t *buildTree) abs(p string) string { return cache.Absolute(t.Root, p) }

// Maker returns the action that writes a file, or nil.
func (t *buildTree) Maker(file string) *graph.Action {
	if id, ok := t.Graph.Producer(file); ok {
		return t.Graph.Actions[id]
	}
	if t.Outer != nil {
		if id, ok := t.Outer.Producer(file); ok {
			return t.Outer.Action(id)
		}
	}
	return nil
}

// IsOutput reports whether an action writes a file.
func (t *buildTree) IsOutput(file string) bool { return t.Maker(file) != nil }

// IsIntermediate reports whether a compiler pass of graph writes a file for other actions.
func (t *buildTree) IsIntermediate(file string) bool {
	id, made := t.Graph.Producer(file)
	return made && t.Graph.Actions[id].Intermediate
}

// needs reports whether a needs b, directly or through others.
func (t *buildTree) needs(a, b *graph.Action) bool {
	if t.Outer == nil {
		return t.Graph.Needs(a.ID, b.ID)
	}
	from, ok := t.Outer.Producer(a.Outputs[0])
	to, ok2 := t.Outer.Producer(b.Outputs[0])
	return ok && ok2 && t.Outer.Needs(from, to)
}

// actions returns the actions of the complete graph.
func (t *buildTree) actions() iter.Seq[*graph.Action] {
	if t.Outer == nil {
		return slices.Values(t.Graph.Actions)
	}
	return func(yield func(*graph.Action) bool) {
		for id := range t.Outer.Len() {
			if !yield(t.Outer.Action(graph.ActionID(id))) {
				return
			}
		}
	}
}

// setPasses stores the outputs of a pass that is up to date or has run.
func (t *buildTree) setPasses(outputs []cache.Output) {
	t.passesMu.Lock()
	defer t.passesMu.Unlock()
	for _, o := range outputs {
		t.passes[o.Path] = o
	}
}

// pass returns the output of a pass that is up to date or has run.
func (t *buildTree) pass(file string) (cache.Output, bool) {
	t.passesMu.Lock()
	defer t.passesMu.Unlock()
	o, ok := t.passes[file]
	return o, ok
}

// Digest returns the digest of a file. A file between passes need not exist.
func (t *buildTree) Digest(file string) (cache.Digest, error) {
	if o, ok := t.pass(file); ok {
		return o.Digest, nil
	}
	return t.Files.Digest(file)
}

// size returns the number of bytes of a file; 0 if it is unknown.
func (t *buildTree) size(file string) int64 {
	if o, ok := t.pass(file); ok {
		return o.Size
	}
	if info, err := os.Stat(t.abs(file)); err == nil {
		return info.Size()
	}
	return 0
}

// Forget drops what is remembered about a file that this or another process has written or removed.
func (t *buildTree) Forget(file string) {
	t.Files.Forget(file)
	t.Listing.Forget(filepath.Dir(t.abs(file)))
}

// has reports whether an output exists with the recorded content.
func (t *buildTree) has(o cache.Output) bool {
	info, err := os.Lstat(t.abs(o.Path))
	if err != nil || !info.Mode().IsRegular() || info.Size() != o.Size ||
		(info.Mode()&0o100 != 0) != o.Exec {
		return false
	}
	d, err := t.Files.Digest(o.Path)
	return err == nil && d == o.Digest
}

// place moves a finished file to its name, unless the file there is equal already.
func (t *buildTree) place(temp string, o cache.Output) error {
	if t.has(o) {
		return os.Remove(temp)
	}
	final := t.abs(o.Path)
	err := move(temp, final)
	if err == nil {
		t.Forget(o.Path)
		return nil
	}
	if info, missing := os.Lstat(final); missing == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder; it is where kbuild writes a file: remove it", o.Path)
	}
	return fmt.Errorf("moving %s into place: %w", o.Path, err)
}

// move renames a file, and creates the folder if it is missing.
func move(from, to string) error {
	err := regular.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		err = regular.Rename(from, to)
	}
	return err
}

// clear removes the outputs of an in-place command, so that it cannot succeed by leaving an old
// one.
func (t *buildTree) clear(a *graph.Action) error {
	files := a.Outputs
	if a.Kind.Info().Project && a.Depfile != "" {
		files = append(files[:len(files):len(files)], a.Depfile)
	}
	for _, o := range files {
		if err := os.MkdirAll(filepath.Dir(t.abs(o)), 0o777); err != nil {
			return fmt.Errorf("making the folder of %s: %w", o, err)
		}
		if err := os.Remove(t.abs(o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the old %s: %w", o, err)
		}
		t.Forget(o)
	}
	return t.empty(a.Work.Collect, true)
}

// empty removes the folder of a command with dynamic outputs, with the files of an earlier run. If
// again is set, it creates the folder again.
func (t *buildTree) empty(c *graph.Collect, again bool) error {
	if c == nil {
		return nil
	}
	root := t.abs(c.Dir)
	filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			t.Forget(c.Dir + filepath.ToSlash(strings.TrimPrefix(name, root)))
		}
		return nil
	})
	err := os.RemoveAll(root)
	if err == nil && again {
		err = os.MkdirAll(root, 0o777)
	}
	t.Listing.Forget(root)
	if err != nil {
		return fmt.Errorf("emptying the folder %s: %w", c.Dir, err)
	}
	return nil
}

// drop forgets what is remembered about the outputs of a failed action. It removes those of an
// in-place command, which may be incomplete.
func (t *buildTree) drop(a *graph.Action) {
	for _, o := range a.Outputs {
		if a.InPlace {
			os.Remove(t.abs(o))
		}
		t.Forget(o)
	}
}
