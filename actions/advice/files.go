package advice

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// A walk through a project looks at so many names at most: advice is worth a second, not more.
const manyFiles = 20000

// header is about headers that were not found.
func (f *Failure) header(found [][]string) (help []string) {
	for _, name := range unique(found, 1) {
		if path.IsAbs(name) || strings.HasSuffix(name, ".o") {
			continue
		}
		var dirs []string
		for _, file := range f.find(path.Base(name)) {
			if dir, ok := strings.CutSuffix("./"+file, "/"+name); ok && len(dirs) < 3 {
				dirs = append(dirs, strings.TrimPrefix(dir, "./"))
			}
		}
		for _, dir := range dirs {
			if slices.Contains(f.Action.Argv, "-I"+dir) {
				continue // the compiler searches it
			}
			where := dir
			if dir == "." {
				where = "the root of the project"
			}
			help = append(help, fmt.Sprintf("%s is in %s: add includes = [%q] to %s", name, where, dir, f.Action.Target))
		}
	}
	return help
}

// find are the files of a name in the project, by paths relative to its root: not in the build tree, nor in hidden folders.
func (f *Failure) find(name string) (files []string) {
	seen := 0
	filepath.WalkDir(f.Root, func(p string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(f.Root, p)
		switch seen++; {
		case seen > manyFiles:
			return fs.SkipAll
		case err != nil || e.IsDir() && rel != "." && (strings.HasPrefix(e.Name(), ".") || rel == f.State):
			return fs.SkipDir
		case !e.IsDir() && e.Name() == name:
			files = append(files, rel)
		}
		return nil
	})
	return files
}

// library is about libraries that a link did not find.
func (f *Failure) library(found [][]string) (help []string) {
	for _, name := range unique(found, 1) {
		switch target, file := f.target(name), f.archive(name); {
		case target != "":
			help = append(help, fmt.Sprintf("%s is a target of this project: %s, and leave -l%s out", target, f.depend(target), name))
		case file != "":
			help = append(help, fmt.Sprintf("%s is there: declare it as a prebuilt, and add that to the deps of %s in place of -l%s", file, f.Action.Target, name))
		default:
			if real := withoutLink(name); real != "" {
				help = append(help, fmt.Sprintf("%s is there, but not the lib%s.so that links take: install the development package of the library", real, name))
			}
		}
	}
	return help
}

// target is the library of the manifest with a name.
func (f *Failure) target(name string) string {
	for a := range f.Actions {
		for _, o := range a.Outputs {
			if base := path.Base(o); (base == "lib"+name+".a" || base == "lib"+name+".so") && (a.Kind == graph.Archive || a.Kind == graph.SharedLink) {
				return a.Target
			}
		}
	}
	return ""
}

func (f *Failure) archive(name string) string {
	for _, base := range []string{"lib" + name + ".a", "lib" + name + ".so"} {
		if files := f.find(base); len(files) > 0 {
			return files[0]
		}
	}
	return ""
}

// withoutLink is a shared library of the system that has its version in its name alone.
func withoutLink(name string) string {
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"} {
		if found, _ := filepath.Glob(filepath.Join(dir, "lib"+name+".so.*")); len(found) > 0 {
			slices.Sort(found)
			if _, err := os.Stat(filepath.Join(dir, "lib"+name+".so")); err != nil {
				return found[0]
			}
		}
	}
	return ""
}
