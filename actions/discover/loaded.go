package discover

import (
	"debug/elf"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// A test finds the toolkit's libraries by the folders that kbuild puts in front of its
// LD_LIBRARY_PATH. What it loads from them is not among its declared inputs: the programs and
// libraries that it is made of name it. A library that a program opens by a name of its own
// (dlopen) is in nobody's list.

// Loaded are the shared libraries that a test is made of and that are in the folders that kbuild
// leads it to, in the order in which they are needed. It has none before its program is there.
func (d *Discovery) Loaded(a *graph.Action) []string {
	found, _ := d.loaded(a)
	return found
}

// loaded is Loaded, and the paths at which another library would be loaded in place of one of them
// or of the system.
func (d *Discovery) loaded(a *graph.Action) (found, missed []string) {
	dirs := a.Test().LibDirs
	if len(dirs) == 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	for todo := slices.Clone(a.Inputs); len(todo) > 0; todo = todo[1:] {
		for _, name := range needs(d.Abs(todo[0])) {
			if seen[name] || path.Base(name) != name {
				continue // one with a folder is not searched for
			}
			seen[name] = true
			here, not := d.inFolders(dirs, name)
			found, missed, todo = append(found, here...), append(missed, not...), append(todo, here...)
		}
	}
	return found, missed
}

// inFolders are the files that the loader may take for a library in some folders, up to the first
// of them that has it: that in the folder, and builds for some processors (ld.so(8)), all of them,
// whatever processor this is.
func (d *Discovery) inFolders(dirs []string, name string) (found, missed []string) {
	for _, dir := range dirs {
		special := filepath.Join(dir, "glibc-hwcaps")
		subs, err := os.ReadDir(d.Abs(special))
		if err != nil {
			missed = append(missed, special)
		}
		for _, sub := range subs {
			if file := filepath.Join(special, sub.Name(), name); d.isFile(file) {
				found = append(found, file)
			} else {
				missed = append(missed, file)
			}
		}
		file := filepath.Join(dir, name)
		if d.isFile(file) {
			return append(found, file), missed
		}
		missed = append(missed, file)
	}
	return found, missed
}

// needs are the shared libraries that an ELF file names; none for what is no such file.
func needs(file string) []string {
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return nil
	}
	names, _ := e.ImportedLibraries() // none where there is no dynamic section
	return names
}
