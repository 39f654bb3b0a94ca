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

// A test finds the toolkit's libraries by the folders that kbuild prepends to its LD_LIBRARY_PATH.
// The libraries that it loads from them are not declared inputs: its programs and libraries name
// them. Libraries that a program opens by name at run time (dlopen) are not found.

// Loaded returns the shared libraries that a test loads from the folders that kbuild adds, in the
// order in which they are needed. It returns none before the test's program is built.
func (d *Discovery) Loaded(a *graph.Action) []string {
	found, _ := d.loaded(a)
	return found
}

// loaded returns the files of Loaded, and the absent paths that the loader would prefer to one of
// them or to a system library.
func (d *Discovery) loaded(a *graph.Action) (found, missed []string) {
	dirs := a.Test().LibDirs
	if len(dirs) == 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	for todo := slices.Clone(a.Inputs); len(todo) > 0; todo = todo[1:] {
		for _, name := range needs(d.Abs(todo[0])) {
			if seen[name] || path.Base(name) != name {
				continue // a name with a folder is not searched for
			}
			seen[name] = true
			here, not := d.inFolders(dirs, name)
			found, missed, todo = append(found, here...), append(missed, not...), append(todo, here...)
		}
	}
	return found, missed
}

// inFolders returns the files that the loader may load for a library, from the first folder that
// has it. They are the file in that folder, and builds for some processors (ld.so(8)). All of those
// are returned, whatever the processor of this machine.
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

// needs returns the shared libraries that an ELF file names, or none for another file.
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
	names, _ := e.ImportedLibraries() // none without a dynamic section
	return names
}
