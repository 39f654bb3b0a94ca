package install

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Write installs a file of the package below a folder. A file that already has the content and mode
// is not touched, so that its time stays. Any other file is replaced atomically.
func (k *Package) Write(f File, below string) (changed bool, err error) {
	name := filepath.Join(below, filepath.FromSlash(f.Path))
	old, statErr := os.Lstat(name)
	if statErr == nil && old.IsDir() {
		return false, fmt.Errorf("%s is a folder, and a file is to be installed there", name)
	}
	if f.Link != "" {
		return link(name, f.Link)
	}
	var content io.ReadSeeker
	from := cache.Absolute(k.root, f.From)
	switch {
	case f.From == "":
		text, err := k.generated(f)
		if err != nil {
			return false, err
		}
		content = strings.NewReader(text)
	case len(f.runPaths) > 0:
		program, err := regular.Read(from)
		if err == nil {
			err = changeRunPaths(f.From, program, f.runPaths)
		}
		if err != nil {
			return false, err
		}
		content = bytes.NewReader(program)
	default:
		file, err := regular.Open(from, os.O_RDONLY, 0)
		if err != nil {
			return false, err
		}
		defer file.Close()
		content = file
	}
	if statErr == nil && old.Mode() == f.Mode { // the mode includes the type
		want, _, err := cache.DigestReader(content)
		if err != nil {
			return false, err
		}
		if is, err := cache.DigestFile(name); err == nil && is == want {
			return false, nil
		}
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return false, err
	}
	return true, regular.ReplaceFrom(name, func(to *os.File) error {
		_, err := io.Copy(to, content)
		return errors.Join(err, to.Chmod(f.Mode))
	})
}

// link creates a symbolic link, or replaces what has its name.
func link(name, to string) (changed bool, err error) {
	if old, err := os.Readlink(name); err == nil && old == to {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return false, err
	}
	tmp := fmt.Sprintf("%s/.kbuild-%08x", filepath.Dir(name), rand.Uint32())
	if err := os.Symlink(to, tmp); err != nil {
		return false, err
	}
	if err := os.Rename(tmp, name); err != nil {
		os.Remove(tmp)
		return false, err
	}
	return true, nil
}

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
