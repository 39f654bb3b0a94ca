package engine

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Clean removes what kbuild has written into a build tree: the outputs that the database and the
// lists beside it name, the files of --keep, the folder .kbuild, and the folders that are empty
// then. It keeps and reports all other files, since kbuild cannot know whether they can be built
// again. It does not follow links out of the tree.

// Cleaned reports what Clean did to a build tree, or would do in a dry run.
type Cleaned struct {
	Dir string
	// files that kbuild did not write, and folders that it does not know, with a slash
	Others []string
}

// Clean removes what kbuild has written into the build tree of the project, and into the trees of
// profiles in it. The cache stays.
func (w *Workspace) Clean() (cleaned []Cleaned, err error) {
	p, err := w.Load()
	if err != nil {
		return nil, err
	}
	dir := filepath.Clean(cache.Absolute(p.Root, p.BuildDir))
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil, nil
	}
	if !isFolder(filepath.Join(dir, ".kbuild")) {
		return nil, usagef("%s was not made by kbuild (it has no .kbuild folder); remove it yourself", dir)
	}
	profiles := profileTrees(p, dir)
	for _, tree := range append(profiles, dir) {
		others, err := w.clean(p.Root, tree, profiles)
		if err != nil {
			return cleaned, err
		}
		cleaned = append(cleaned, Cleaned{tree, others})
	}
	return cleaned, nil
}

// isFolder reports whether name is a folder, and not a link to one.
func isFolder(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

// profileTrees returns the build trees of profiles of this project: build/P in build.
func profileTrees(p *manifest.Project, dir string) (trees []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		tree := filepath.Join(dir, e.Name())
		if e.Name() != ".kbuild" && isFolder(filepath.Join(tree, ".kbuild")) && len(writtenInto(p.Root, tree, "").files) > 0 {
			trees = append(trees, tree)
		}
	}
	return trees
}

// clean cleans one build tree. It skips the trees of profiles in it, which are cleaned by
// themselves.
func (w *Workspace) clean(root, dir string, profiles []string) (others []string, err error) {
	state := filepath.Join(dir, ".kbuild")
	if !w.DryRun {
		t, err := w.lockAny(state, false)
		if err != nil || t == nil {
			return nil, err
		}
		defer t.Close()
	}
	tree, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	known := writtenInto(root, dir, "").files
	folders := foldersAbove(slices.Concat(slices.Collect(maps.Keys(known)), treeFolders))
	var files []string
	err = fs.WalkDir(tree.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || name == "." || e.IsDir() && folders[name]:
			return nil
		case name == ".kbuild", slices.Contains(profiles, filepath.Join(dir, name)):
			return fs.SkipDir
		case known[name] != nil && !e.IsDir():
			files = append(files, name)
		case e.IsDir():
			others = append(others, name+"/")
			return fs.SkipDir
		default:
			others = append(others, name)
		}
		return nil
	})
	if err != nil || w.DryRun {
		return others, err
	}
	for _, f := range files {
		if err := tree.Remove(f); err != nil {
			return nil, err
		}
	}
	removeEmptyFolders(tree, folders)
	return others, removeState(dir, state)
}

// treeFolders lists the folders that kbuild creates in every build tree.
var treeFolders = []string{"bin/", "gen/", "lib/", "modules/", "obj/", keepDir + "/"}

// checkBuildDir returns an error if the project or a source of it is in the build tree.
func checkBuildDir(p *manifest.Project) error {
	dir := resolved(cache.Absolute(p.Root, p.BuildDir))
	holds := func(file string) bool {
		name := resolved(cache.Absolute(p.Root, file))
		return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	}
	refuse := func(what string) error {
		return usagef("the build tree %s would hold %s; give it a folder of its own, such as --build-dir build", dir, what)
	}
	if holds(p.Root) {
		return refuse("the project, " + p.Root)
	}
	for _, f := range p.Files {
		if holds(f) {
			return refuse("the manifest " + f)
		}
	}
	looked := map[string]bool{} // folders of sources that were checked
	for _, t := range p.Targets {
		for _, s := range t.Sources {
			folder := path.Dir(s.Path)
			if s.Generated != "" || looked[folder] {
				continue
			}
			if looked[folder] = true; holds(folder) {
				return refuse(fmt.Sprintf("the source %s (%s:%d)", s.Path, s.Pos.File, s.Pos.Line))
			}
		}
	}
	return nil
}

// resolved returns a path without symbolic links, as far as it exists.
func resolved(name string) string {
	name = filepath.Clean(name)
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	if dir := filepath.Dir(name); dir != name {
		return filepath.Join(resolved(dir), filepath.Base(name))
	}
	return name
}
