package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
)

// The command of a generate block has its own folder, build/gen/NAME, and declares the files that
// it writes there, or patterns of their names. kbuild keeps and restores only those. If a build
// used an undeclared file, it would succeed where the command ran and fail in another checkout. Or
// it would use a file that an older command left. So an undeclared file is an error, both when it
// is written and when it is read.
//
// The files of patterns are dynamic outputs: which ones there are is known only after the command.
// They are packed into one file, the output of the action, and an action of kind Extract for each
// plan writes them again.

// generatedFiles enforces the rules about the files of generate blocks.
type generatedFiles struct {
	*buildTree
	leadsTo cache.Shards[string, string] // generated files, by the links that lead to them
}

// beside lists the files in the folder of a generate block that are not outputs, and the folders in
// it, by name.
func (g *generatedFiles) beside(a *graph.Action) map[string]fs.FileInfo {
	list := map[string]fs.FileInfo{}
	own := path.Join(g.Graph.BuildDir, fileset.GenDir, fileset.Flat(a.Name))
	root := g.abs(own)
	filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		rel := own + filepath.ToSlash(strings.TrimPrefix(name, root))
		if err == nil && name != root && !g.IsOutput(rel) {
			if info, err := e.Info(); err == nil {
				list[rel] = info
			}
		}
		return nil
	})
	return list
}

// discard removes the files of a command that failed, besides its outputs.
func (g *generatedFiles) discard(a *graph.Action, before map[string]fs.FileInfo) {
	if a.Depfile != "" {
		os.Remove(g.abs(a.Depfile))
	}
	if a.Work.Collect != nil {
		g.empty(a.Work.Collect, false)
	} else {
		g.strays(a, before)
	}
}

// take checks and packs the files that a command wrote to its folder, and copies its dependency
// file to depfile. before lists the undeclared files from before the command.
func (g *generatedFiles) take(
	a *graph.Action, before map[string]fs.FileInfo, depfile string,
) error {
	// No action may find the dependency file, unless it is an output as well.
	if a.Depfile != "" {
		err := regular.Copy(g.abs(a.Depfile), depfile)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the command of %s (%s) did not write its depfile %s",
				a.Target, a.Pos, a.Depfile)
		}
		if err == nil && !slices.Contains(a.Outputs, a.Depfile) {
			err = os.Remove(g.abs(a.Depfile))
			g.Forget(a.Depfile)
		}
		if err != nil {
			return err
		}
	}
	if a.Work.Collect != nil {
		return g.pack(a)
	}
	if undeclared := g.strays(a, before); undeclared != nil {
		return wroteUndeclared(a, undeclared)
	}
	return nil
}

// strays returns the undeclared files that a command wrote to its folder, sorted. It removes those
// that did not exist before, with their folders.
func (g *generatedFiles) strays(a *graph.Action, before map[string]fs.FileInfo) (names []string) {
	now := g.beside(a)
	var folders []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		is, was := now[name], before[name]
		switch {
		case is.IsDir() && was == nil:
			folders = append(folders, name)
			continue
		case is.IsDir(), was != nil && os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) &&
			was.Size() == is.Size():
			continue
		}
		names = append(names, name)
		if was == nil {
			os.Remove(g.abs(name))
		}
		g.Forget(name)
	}
	if names != nil {
		for _, name := range slices.Backward(folders) { // each after its content
			os.Remove(g.abs(name)) // fails for a folder that is not empty
			g.Forget(name)
		}
	}
	return names
}

// wroteUndeclared returns the error of a command that wrote files which its block does not declare.
func wroteUndeclared(a *graph.Action, files []string) error {
	return fmt.Errorf("the command of %s (%s) wrote %s, which the block does not declare: "+
		"add it to outputs, or write it elsewhere", a.Target, a.Pos, strings.Join(files, ", "))
}

// pack packs the dynamic outputs of a command.
func (g *generatedFiles) pack(a *graph.Action) error {
	c := a.Work.Collect
	root := g.abs(c.Dir)
	var files []fileset.File
	var undeclared []string
	matched := map[string]bool{} // patterns
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		file := path.Join(c.Dir, rel)
		g.Forget(file)
		declared := false
		for _, p := range c.Patterns {
			if fileset.Match(p, rel) {
				declared, matched[p] = true, true
			}
		}
		switch info, err := e.Info(); {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("the command of %s (%s) wrote %s, which is no regular file",
				a.Target, a.Pos, file)
		case strings.ContainsAny(rel, "\n\r"):
			return fmt.Errorf("the command of %s (%s) wrote %q: a name of a file is one line",
				a.Target, a.Pos, file)
		case !declared:
			undeclared = append(undeclared, file)
			return nil
		default:
			content, err := regular.Read(name)
			exec := info.Mode()&0o100 != 0
			files = append(files, fileset.File{Name: rel, Exec: exec, Content: content})
			return err
		}
	})
	if err != nil {
		return err
	}
	if len(undeclared) > 0 {
		return wroteUndeclared(a, undeclared)
	}
	for _, p := range c.Patterns {
		if !matched[p] {
			return fmt.Errorf("the command of %s (%s) wrote no file that matches %q of its outputs "+
				"in %s", a.Target, a.Pos, p, c.Dir)
		}
	}
	list, pack := fileset.Pack(files)
	for i, text := range [][]byte{list, pack} {
		if err := regular.Replace(g.abs(a.Outputs[i]), text); err != nil {
			return err
		}
		g.Forget(a.Outputs[i])
	}
	return nil
}

// linked returns the generated file that file is a link to. For other files it returns file.
func (g *generatedFiles) linked(file string) string {
	if g.IsOutput(file) {
		return file
	}
	if known, ok := g.leadsTo.Load(file); ok {
		return known
	}
	folder := path.Join(g.Graph.BuildDir, fileset.GenDir)
	if _, err := os.Lstat(g.abs(folder)); err != nil {
		return file // no link leads there, and resolving file would cost more
	}
	name := file
	real, err := filepath.EvalSymlinks(g.abs(file))
	if err == nil {
		if dir, err := filepath.EvalSymlinks(g.abs(folder)); err == nil {
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
	rest, ok := strings.CutPrefix(file, g.Graph.BuildDir)
	if ok {
		rest, ok = strings.CutPrefix(rest, "/"+fileset.GenDir+"/")
	}
	if !ok || g.IsOutput(file) {
		return nil
	}
	block, output, _ := strings.Cut(rest, "/")
	for b := range g.actions() {
		if b.Kind.Info().Generates && fileset.Flat(b.Name) == block {
			return fmt.Errorf("%s reads %s, which no generate block makes: add %q to the outputs "+
				"of %s (%s), or remove the file", a.Name, file, output, b.Target, b.Pos)
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
		block := g.Maker(file)
		if block == nil {
			if err := g.undeclaredFile(a, file); err != nil {
				return err
			}
			continue
		}
		if slices.Contains(a.OrderOnly, file) || g.needs(a, block) {
			continue
		}
		return fmt.Errorf("%s reads %s, which %s makes (%s), and %s does not depend on it: "+
			"add it to deps", a.Name, f.Path, block.Target, block.Pos, a.Target)
	}
	return nil
}
