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

// The command of a generate block has its own folder, build/gen/NAME, and declares the files that
// it writes there. kbuild keeps and restores only those. If a build used an undeclared file, it
// would succeed where the command ran and fail in another checkout. Or it would use a file that an
// older command left. So an undeclared file is an error, both when it is written and when it is
// read.

// generatedFiles enforces the rules about the files of generate blocks.
type generatedFiles struct {
	makers
	tree    buildTree
	leadsTo cache.Shards[string, string] // generated files, by the links that lead to them
}

// folderFiles lists the undeclared files below a folder, and all folders below it.
type folderFiles struct {
	files   map[string]fs.FileInfo
	folders []string // each before its content
}

// beside lists the files in the folder of a generate block that are not outputs.
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

// takeDepfile moves the dependency file of a generate command out of the folder of its outputs,
// where no action may find it. It only copies a file that is an output as well.
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

// onlyOutputs returns an error if the command of a generate block wrote a file to its folder that
// is not an output. It removes such a file if it did not exist before.
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
			os.Remove(g.tree.abs(d)) // fails for a folder that is not empty
			g.tree.listing.Forget(filepath.Dir(g.tree.abs(d)))
		}
	}
	slices.Sort(more)
	return undeclaredOutputs(a, more)
}

// undeclaredOutputs returns the error of a command that wrote files which its block does not
// declare.
func undeclaredOutputs(a *graph.Action, files []string) error {
	return fmt.Errorf("the command of %s (%s) wrote %s, which the block does not declare: add it to outputs, or write it elsewhere", a.Target, a.Pos, strings.Join(files, ", "))
}

// linked returns the generated file that file is a link to. For other files it returns file.
func (g *generatedFiles) linked(file string) string {
	if g.maker(file) != nil {
		return file
	}
	if known, ok := g.leadsTo.Load(file); ok {
		return known
	}
	folder := path.Join(g.graph.BuildDir, graph.GenDir)
	if _, err := os.Lstat(g.tree.abs(folder)); err != nil {
		return file // no link leads there, and resolving file would cost more
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

// undeclaredFile returns an error if file is in the folder of generated files and no action writes
// it.
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

// undeclared returns an error if a read a generated file without depending on its generate block.
// Such a file may be built in the wrong order. A generated file without a block is an error too,
// since no action would build it.
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
