package execute

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// The command of a generate block has a folder of its own, build/gen/NAME, and declares what it writes there. Only that is kept and restored:
// with a file more a build is right where the command ran, and fails in another checkout, or takes what an older command has left. So such a
// file is an error, where it is written and where it is read.

// folderFiles are the files below a folder, with their folders. A file that is declared is not among them.
type folderFiles struct {
	files   map[string]fs.FileInfo
	folders []string // each before what is in it
}

// beside lists what stands in the folder of a generate block besides outputs.
func (r *Runner) beside(a *graph.Action) folderFiles {
	l := folderFiles{files: map[string]fs.FileInfo{}}
	if a.Kind == graph.Generate {
		r.list(r.ownFolder(a), &l)
	}
	return l
}

// ownFolder is that of a generate block.
func (r *Runner) ownFolder(a *graph.Action) string {
	return path.Join(r.Graph.BuildDir, graph.GenDir, a.Name)
}

func (r *Runner) list(dir string, l *folderFiles) {
	entries, _ := os.ReadDir(r.abs(dir))
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			l.folders = append(l.folders, name)
			r.list(name, l)
		case r.maker(name) == nil:
			if info, err := e.Info(); err == nil {
				l.files[name] = info
			}
		}
	}
}

// onlyOutputs reports a file in the folder of a generate block that its command has written and that is no output. What was not there
// before is removed.
func (r *Runner) onlyOutputs(a *graph.Action, before folderFiles) error {
	if a.Kind != graph.Generate {
		return nil
	}
	now := r.beside(a)
	var more []string
	for name, is := range now.files {
		was, old := before.files[name]
		if old && os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size() {
			continue
		}
		more = append(more, name)
		if !old {
			os.Remove(r.abs(name))
		}
		r.written(name)
	}
	if len(more) == 0 {
		return nil
	}
	slices.Reverse(now.folders)
	for _, d := range now.folders {
		if !slices.Contains(before.folders, d) {
			os.Remove(r.abs(d)) // which fails for one that is not empty
			r.Listing.Forget(filepath.Dir(r.abs(d)))
		}
	}
	slices.Sort(more)
	return fmt.Errorf("the command of %s (%s) wrote %s, which the block does not declare: add it to outputs, or write it elsewhere", a.Target, a.Pos, strings.Join(more, ", "))
}

// generated is the name in the folder of generated files of a file that a link leads to there. Other files keep their names.
func (r *Runner) generated(file string) string {
	if r.maker(file) != nil {
		return file
	}
	if known, ok := r.leadsTo.Load(file); ok {
		return known.(string)
	}
	name := file
	folder := path.Join(r.Graph.BuildDir, graph.GenDir)
	real, err := filepath.EvalSymlinks(r.abs(file))
	if err == nil {
		if dir, err := filepath.EvalSymlinks(r.abs(folder)); err == nil {
			if rest, ok := strings.CutPrefix(real, dir+"/"); ok {
				name = folder + "/" + filepath.ToSlash(rest)
			}
		}
	}
	r.leadsTo.Store(file, name)
	return name
}

// undeclaredFile is the error of an action that reads a file in the folder of generated files that no action makes; nil for other files.
func (r *Runner) undeclaredFile(a *graph.Action, file string) error {
	rest, ok := strings.CutPrefix(file, r.Graph.BuildDir)
	if ok {
		rest, ok = strings.CutPrefix(rest, "/"+graph.GenDir+"/")
	}
	if !ok || r.maker(file) != nil {
		return nil
	}
	block, output, _ := strings.Cut(rest, "/")
	for g := range r.all() {
		if g.Kind == graph.Generate && g.Name == block {
			return fmt.Errorf("%s reads %s, which no generate block makes: add %q to the outputs of %s (%s), or remove the file", a.Name, file, output, g.Target, g.Pos)
		}
	}
	return fmt.Errorf("%s reads %s, which no generate block makes: remove it", a.Name, file)
}

// undeclared finds a generated file that a read without depending on its generate block: it would be
// built in the wrong order on another day. Or without one: it would not be built.
func (r *Runner) undeclared(a *graph.Action, found []cache.FileDigest) error {
	for _, f := range found {
		file := r.generated(f.Path)
		g := r.maker(file)
		if g == nil {
			if err := r.undeclaredFile(a, file); err != nil {
				return err
			}
			continue
		}
		if slices.Contains(a.OrderOnly, file) || r.needs(a, g) {
			continue
		}
		return fmt.Errorf("%s reads %s, which %s makes (%s), and %s does not depend on it: add it to deps", a.Name, f.Path, g.Target, g.Pos, a.Target)
	}
	return nil
}
