package install

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A program finds the shared libraries of its project by folders relative to its own. In the build
// tree a prebuilt library is in its folder of the project; once installed it is beside the others.
// So the list of folders is rewritten in place, as cmake --install does.

// soname returns the name that programs load a prebuilt shared library by, or "" for any other
// export and for one that is not installed.
func (k *Package) soname(e plan.Export) (string, error) {
	if e.Kind != manifest.Prebuilt || !e.Shared || !installs(e) {
		return "", nil
	}
	content, err := regular.Open(cache.Absolute(k.root, e.File), os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer content.Close()
	f, err := elf.NewFile(content)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", e.File, err)
	}
	names, err := f.DynString(elf.DT_SONAME)
	switch {
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", e.File, err)
	case len(names) == 0 || names[0] == "" || strings.Contains(names[0], "/"):
		return "", fmt.Errorf("%s has no soname", e.File)
	}
	return names[0], nil
}

// changeRunPaths replaces folders in a program's list of folders for the dynamic linker.
func changeRunPaths(name string, program []byte, change map[string]string) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("reading where %s looks for shared libraries: %w", name, err)
	}
	dynstr := f.Section(".dynstr")
	if dynstr == nil || dynstr.Type == elf.SHT_NOBITS || dynstr.Offset > uint64(len(program)) || dynstr.Size > uint64(len(program))-dynstr.Offset {
		return fmt.Errorf("%s has no strings of the dynamic linker", name)
	}
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		at, err := f.DynValue(tag)
		if err != nil {
			return fmt.Errorf("reading where %s looks for shared libraries: %w", name, err)
		}
		if len(at) == 0 || at[0] >= dynstr.Size {
			continue
		}
		place := program[dynstr.Offset+at[0] : dynstr.Offset+dynstr.Size]
		end := bytes.IndexByte(place, 0)
		if end < 0 {
			return fmt.Errorf("%s is damaged: the list of folders of shared libraries has no end", name)
		}
		list := changed(string(place[:end]), change)
		if len(list) > end {
			return fmt.Errorf("%s looks for shared libraries in %s, where there is no room for %s; put the prebuilt library into a folder with a longer path",
				name, place[:end], list)
		}
		copy(place[:end], list+strings.Repeat("\x00", end-len(list)))
	}
	return nil
}

// changed returns a list with some folders replaced, each once.
func changed(list string, change map[string]string) string {
	var out []string
	for dir := range strings.SplitSeq(list, ":") {
		if to, ok := change[dir]; ok {
			dir = to
		}
		if !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return strings.Join(out, ":")
}
