package execute

import (
	"context"
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
	"github.com/kbuild-dev/kbuild/graph"
)

// buildTree is the files of the project and of its build tree, with the actions that write them. It
// forgets what is remembered about a file that is written.
//
// If few of very many actions are affected, graph has only those and the passes that they need.
// outer then has all actions.
type buildTree struct {
	graph   *graph.Graph
	outer   *graph.Packed // nil if graph is complete
	root    string
	files   *cache.Files
	listing *cache.Listing

	mu     sync.Mutex
	passes map[string]cache.Output // outputs of the passes that are up to date or have run
}

func (t *buildTree) abs(p string) string { return cache.Absolute(t.root, p) }

// Maker returns the action that writes a file, or nil.
func (t *buildTree) Maker(file string) *graph.Action {
	if id, ok := t.graph.Producer(file); ok {
		return t.graph.Actions[id]
	}
	if t.outer != nil {
		if id, ok := t.outer.Producer(file); ok {
			return t.outer.Action(id)
		}
	}
	return nil
}

// IsOutput reports whether an action writes a file.
func (t *buildTree) IsOutput(file string) bool { return t.Maker(file) != nil }

// IsIntermediate reports whether a compiler pass of graph writes a file for other actions.
func (t *buildTree) IsIntermediate(file string) bool {
	id, made := t.graph.Producer(file)
	return made && t.graph.Actions[id].Intermediate
}

// needs reports whether a needs b, directly or through others.
func (t *buildTree) needs(a, b *graph.Action) bool {
	if t.outer == nil {
		return t.graph.Needs(a.ID, b.ID)
	}
	from, ok := t.outer.Producer(a.Outputs[0])
	to, ok2 := t.outer.Producer(b.Outputs[0])
	return ok && ok2 && t.outer.Needs(from, to)
}

// actions returns the actions of the complete graph.
func (t *buildTree) actions() iter.Seq[*graph.Action] {
	if t.outer == nil {
		return slices.Values(t.graph.Actions)
	}
	return func(yield func(*graph.Action) bool) {
		for id := range t.outer.Len() {
			if !yield(t.outer.Action(graph.ActionID(id))) {
				return
			}
		}
	}
}

// generator returns the generate action outside of a's dependencies that writes a file spelled
// name.
func (t *buildTree) generator(a *graph.Action, name string) *graph.Action {
	if name == "" {
		return nil
	}
	for g := range t.actions() {
		for _, o := range g.Outputs {
			if g.Kind.Info().Generates && (o == name || strings.HasSuffix(o, "/"+name)) &&
				!t.needs(a, g) {
				return g
			}
		}
	}
	return nil
}

// setPasses stores the outputs of a pass that is up to date or has run.
func (t *buildTree) setPasses(outputs []cache.Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range outputs {
		t.passes[o.Path] = o
	}
}

// pass returns the output of a pass that is up to date or has run.
func (t *buildTree) pass(file string) (cache.Output, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.passes[file]
	return o, ok
}

// Digest returns the digest of a file. A file between passes need not exist.
func (t *buildTree) Digest(file string) (cache.Digest, error) {
	if o, ok := t.pass(file); ok {
		return o.Digest, nil
	}
	return t.files.Digest(file)
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

// written forgets what is remembered about a file.
func (t *buildTree) written(file string) {
	t.files.Forget(file)
	t.listing.Forget(filepath.Dir(t.abs(file)))
}

// has reports whether an output exists with the recorded content.
func (t *buildTree) has(o cache.Output) bool {
	info, err := os.Lstat(t.abs(o.Path))
	if err != nil || !info.Mode().IsRegular() || info.Size() != o.Size ||
		(info.Mode()&0o100 != 0) != o.Exec {
		return false
	}
	d, err := t.files.Digest(o.Path)
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
		t.written(o)
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
			t.written(c.Dir + filepath.ToSlash(strings.TrimPrefix(name, root)))
		}
		return nil
	})
	err := os.RemoveAll(root)
	if err == nil && again {
		err = os.MkdirAll(root, 0o777)
	}
	t.listing.Forget(root)
	if err != nil {
		return fmt.Errorf("emptying the folder %s: %w", c.Dir, err)
	}
	return nil
}

// forget forgets what is remembered about the outputs of a failed action. It removes those of an
// in-place command, which may be incomplete.
func (t *buildTree) forget(a *graph.Action) {
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

// building implements discover.Build and check.Build.
type building struct {
	*buildTree
	r    *Runner
	file string // a temporary file for PassOutput
}

// Query implements discover.Build.
func (b building) Query(
	ctx context.Context, a *graph.Action, argv []string, quiet bool,
) (printed string, ok bool) {
	return b.r.query(ctx, a, argv, quiet)
}

// PassOutput implements check.Build.
func (b building) PassOutput(ctx context.Context, a *graph.Action, suffix string) []byte {
	rec := b.r.Records.Last(a.Outputs[0])
	if rec == nil || b.r.IntermediateStore == nil {
		return nil
	}
	i := slices.IndexFunc(rec.Outputs, func(o cache.Output) bool {
		return strings.HasSuffix(o.Path, suffix)
	})
	if i < 0 || b.r.IntermediateStore.Restore(ctx, rec.Outputs[i], b.file) != nil {
		return nil
	}
	defer os.Remove(b.file)
	text, err := os.ReadFile(b.file)
	if err != nil {
		return nil
	}
	return text
}
