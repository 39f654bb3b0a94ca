package execute

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// empty removes the folder of a command with dynamic outputs, with the files of an earlier run. If
// again is set, it creates the folder again.
func (t buildTree) empty(c *graph.Collect, again bool) error {
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

// collect packs the files that the command of a wrote, if it has dynamic outputs. On an error it
// removes them all.
func (r *Runner) collect(a *graph.Action, res sched.Result) (err error) {
	c := a.Work.Collect
	if c == nil {
		return nil
	}
	defer func() {
		if err != nil || res.Status == sched.Failed {
			r.tree.empty(c, false)
		}
	}()
	if res.Status == sched.Failed {
		return nil
	}
	files, err := r.writtenFiles(a, c)
	if err != nil {
		return err
	}
	for _, p := range c.Patterns {
		if !slices.ContainsFunc(files, func(f graph.PackedFile) bool { return graph.MatchFile(p, f.Name) }) {
			return fmt.Errorf("the command of %s (%s) wrote no file that matches %q of its outputs in %s", a.Target, a.Pos, p, c.Dir)
		}
	}
	list, pack := graph.PackFiles(files)
	for i, text := range [][]byte{list, pack} {
		if err := regular.Replace(r.tree.abs(a.Outputs[i]), text); err != nil {
			return err
		}
		r.tree.written(a.Outputs[i])
	}
	return nil
}

// writtenFiles reads the files that a command wrote to its folder.
func (r *Runner) writtenFiles(a *graph.Action, c *graph.Collect) (files []graph.PackedFile, err error) {
	root := r.tree.abs(c.Dir)
	var more []string
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		r.tree.written(path.Join(c.Dir, rel))
		switch info, err := e.Info(); {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("the command of %s (%s) wrote %s, which is no regular file", a.Target, a.Pos, path.Join(c.Dir, rel))
		case strings.ContainsAny(rel, "\n\r"):
			return fmt.Errorf("the command of %s (%s) wrote %q: a name of a file is one line", a.Target, a.Pos, path.Join(c.Dir, rel))
		case !slices.ContainsFunc(c.Patterns, func(p string) bool { return graph.MatchFile(p, rel) }):
			more = append(more, path.Join(c.Dir, rel))
			return nil
		default:
			content, err := regular.Read(name)
			files = append(files, graph.PackedFile{Name: rel, Exec: info.Mode()&0o100 != 0, Content: content})
			return err
		}
	})
	if err == nil && len(more) > 0 {
		err = undeclaredOutputs(a, more)
	}
	return files, err
}

// extractStep writes the files of a pack.
type extractStep struct{ inProcess }

func (extractStep) run(w work) error {
	pack, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	files, err := graph.UnpackFiles(pack)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Inputs[0], err)
	}
	if !slices.EqualFunc(files, w.Outputs, func(f graph.PackedFile, name string) bool { return path.Join(w.Argv[0], f.Name) == name }) {
		return fmt.Errorf("the command of %s (%s) wrote other files than when this build was planned: build again", w.Target, w.Pos)
	}
	for i, f := range files {
		if err := w.write(i, f.Content); err != nil {
			return err
		}
		if f.Exec {
			if err := os.Chmod(w.output(i), 0o777); err != nil {
				return err
			}
		}
	}
	return nil
}
