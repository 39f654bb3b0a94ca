package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// The command of a generate block has a folder of its own, build/gen/NAME, and declares what it
// writes there. Only that is kept and restored: with a file more a build is right where the command
// ran, and fails in another checkout, or takes what an older command has left. So such a file is an
// error, where it is written and where it is read.

// generatedFiles holds the rules about the files of generate blocks.
type generatedFiles struct {
	makers
	tree    buildTree
	leadsTo cache.Shards[string, string] // what links to generated files lead to
}

// folderFiles are the files below a folder, with their folders. A file that is declared is not
// among them.
type folderFiles struct {
	files   map[string]fs.FileInfo
	folders []string // each before what is in it
}

// beside lists what is in the folder of a generate block besides outputs.
func (g *generatedFiles) beside(a *graph.Action) folderFiles {
	l := folderFiles{files: map[string]fs.FileInfo{}}
	if a.Kind != graph.Generate {
		return l
	}
	own := path.Join(g.graph.BuildDir, graph.GenDir, graph.Flat(a.Name))
	root := g.tree.abs(own)
	filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		rel := own + filepath.ToSlash(strings.TrimPrefix(name, root))
		switch {
		case err != nil || name == root:
		case e.IsDir():
			l.folders = append(l.folders, rel)
		case !g.isMade(rel):
			if info, err := e.Info(); err == nil {
				l.files[rel] = info
			}
		}
		return nil
	})
	return l
}

// takeDepfile takes the dependency file of a command of the project out of the folder of its
// outputs, where nobody else is to find it.
func (r *Runner) takeDepfile(a *graph.Action, res sched.Result, dir scratch) error {
	if a.Kind != graph.Generate || a.Depfile == "" {
		return nil
	}
	file := r.tree.abs(a.Depfile)
	if res.Status == sched.Failed {
		os.Remove(file)
		return nil
	}
	err := copyFile(file, dir.depfile())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the command of %s (%s) did not write its depfile %s", a.Target, a.Pos, a.Depfile)
	}
	if err == nil && !slices.Contains(a.Outputs, a.Depfile) {
		err = os.Remove(file)
		r.tree.written(a.Depfile)
	}
	return err
}

// onlyOutputs reports a file in the folder of a generate block that its command has written and
// that is no output. What was not there before is removed.
func (g *generatedFiles) onlyOutputs(a *graph.Action, before folderFiles) error {
	if a.Kind != graph.Generate {
		return nil
	}
	now := g.beside(a)
	var more []string
	for name, is := range now.files {
		was, old := before.files[name]
		if old && os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size() {
			continue
		}
		more = append(more, name)
		if !old {
			os.Remove(g.tree.abs(name))
		}
		g.tree.written(name)
	}
	if len(more) == 0 {
		return nil
	}
	slices.Reverse(now.folders)
	for _, d := range now.folders {
		if !slices.Contains(before.folders, d) {
			os.Remove(g.tree.abs(d)) // which fails for one that is not empty
			g.tree.listing.Forget(filepath.Dir(g.tree.abs(d)))
		}
	}
	slices.Sort(more)
	return undeclaredOutputs(a, more)
}

// undeclaredOutputs is the error of a command that wrote files which its block does not declare.
func undeclaredOutputs(a *graph.Action, files []string) error {
	return fmt.Errorf("the command of %s (%s) wrote %s, which the block does not declare: add it to outputs, or write it elsewhere", a.Target, a.Pos, strings.Join(files, ", "))
}

// linked is the name in the folder of generated files of a file that a link leads to there. Other
// files keep their names.
func (g *generatedFiles) linked(file string) string {
	if g.maker(file) != nil {
		return file
	}
	if known, ok := g.leadsTo.Load(file); ok {
		return known
	}
	folder := path.Join(g.graph.BuildDir, graph.GenDir)
	if _, err := os.Lstat(g.tree.abs(folder)); err != nil {
		return file // nothing leads there; to find out where it leads would cost more
	}
	name := file
	real, err := filepath.EvalSymlinks(g.tree.abs(file))
	if err == nil {
		if dir, err := filepath.EvalSymlinks(g.tree.abs(folder)); err == nil {
			if rest, ok := strings.CutPrefix(real, dir+"/"); ok {
				name = folder + "/" + filepath.ToSlash(rest)
			}
		}
	}
	return g.leadsTo.LoadOrStore(file, name)
}

// undeclaredFile is the error of an action that reads a file in the folder of generated files that
// no action makes; nil for other files.
func (g *generatedFiles) undeclaredFile(a *graph.Action, file string) error {
	rest, ok := strings.CutPrefix(file, g.graph.BuildDir)
	if ok {
		rest, ok = strings.CutPrefix(rest, "/"+graph.GenDir+"/")
	}
	if !ok || g.maker(file) != nil {
		return nil
	}
	block, output, _ := strings.Cut(rest, "/")
	for b := range g.all() {
		if b.Kind == graph.Generate && graph.Flat(b.Name) == block {
			return fmt.Errorf("%s reads %s, which no generate block makes: add %q to the outputs of %s (%s), or remove the file", a.Name, file, output, b.Target, b.Pos)
		}
	}
	return fmt.Errorf("%s reads %s, which no generate block makes: remove it", a.Name, file)
}

// undeclared finds a generated file that a read without depending on its generate block: it would
// be built in the wrong order on another day. Or without one: it would not be built.
func (g *generatedFiles) undeclared(a *graph.Action, found []cache.FileDigest) error {
	for _, f := range found {
		file := g.linked(f.Path)
		block := g.maker(file)
		if block == nil {
			if err := g.undeclaredFile(a, file); err != nil {
				return err
			}
			continue
		}
		if slices.Contains(a.OrderOnly, file) || g.needs(a, block) {
			continue
		}
		return fmt.Errorf("%s reads %s, which %s makes (%s), and %s does not depend on it: add it to deps", a.Name, f.Path, block.Target, block.Pos, a.Target)
	}
	return nil
}
