package advice

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// manyFiles limits a walk through the project: advice may take a second, not more.
const manyFiles = 20000

// headers explains headers that were not found.
func (f *Failure) headers(names []string) (help []string) {
	for _, name := range names {
		if path.IsAbs(name) || strings.HasSuffix(name, ".o") {
			continue
		}
		if g := f.generator(name); g != nil {
			help = append(help, name+" is made by "+at(g.Target, g.Pos)+": "+f.depend(g.Target))
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
		if len(dirs) == 0 && ofToolkit(name) {
			help = append(help, fmt.Sprintf(missingPart, name))
		}
	}
	return help
}

// generator returns the generate action that writes a header and that the failed action does not
// wait for, or nil.
func (f *Failure) generator(name string) *graph.Action {
	for a := range f.Actions {
		for _, o := range a.Outputs {
			if a.Kind.Info().Generates && strings.HasSuffix(o, "/"+name) &&
				!slices.Contains(f.Action.OrderOnly, o) {
				return a
			}
		}
	}
	return nil
}

// ofToolkit reports whether a name is that of a library of a CUDA toolkit, or of its header.
func ofToolkit(name string) bool {
	return regexp.MustCompile(`^(cu(blas|fft|rand|solver|sparse|file|pti)|npp|nv(rtc|jpeg|JitLink|fatbin|ml))`).MatchString(name)
}

const missingPart = `%s is a part of the CUDA toolkit that is not installed: install the toolkit's package of it ` +
	`(development files), or name it in parts of toolchain "cuda" where that has from = "pypi"`

var systemDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}

// misspelt returns a library that the link searches whose name differs by one character from name,
// or "".
func (f *Failure) misspelt(name string) string {
	dirs := slices.Clone(systemDirs)
	for _, arg := range f.Action.Argv {
		if dir, ok := strings.CutPrefix(arg, "-L"); ok {
			dirs = append(dirs, f.abs(dir))
		}
	}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			file, isLibrary := strings.CutPrefix(e.Name(), "lib")
			base := strings.TrimSuffix(strings.TrimSuffix(file, ".a"), ".so")
			if isLibrary && base != file && min(len(name), len(base)) > 3 && oneEdit(name, base) {
				return base
			}
		}
	}
	return ""
}

// oneEdit reports whether a becomes b if one character is added, removed or replaced.
func oneEdit(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1
}

// find returns the files of a name in the project, by paths relative to its root. It skips the
// build tree and hidden folders.
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

// libraries explains libraries that a link did not find.
func (f *Failure) libraries(names []string) (help []string) {
	for _, name := range names {
		files := append(f.find("lib"+name+".a"), f.find("lib"+name+".so")...)
		switch target := f.target(name); {
		case target != "":
			help = append(help, fmt.Sprintf("%s is a target of this project: %s, and leave -l%s out", target, f.depend(target), name))
		case files != nil:
			help = append(help, fmt.Sprintf("%s is there: declare it as a prebuilt, and add that to the deps of %s in place of -l%s", files[0], f.Action.Target, name))
		default:
			var real string // a shared library that exists only with its version in its name
			for _, dir := range append(slices.Clone(systemDirs), "/usr/local/lib") {
				found, _ := filepath.Glob(filepath.Join(dir, "lib"+name+".so.*"))
				if _, err := os.Stat(filepath.Join(dir, "lib"+name+".so")); err != nil && found != nil && real == "" {
					real = slices.Min(found)
				}
			}
			if real != "" {
				help = append(help, fmt.Sprintf("%s is there, but not the lib%s.so that links take: install the development package of the library", real, name))
			} else if near := f.misspelt(name); near != "" {
				help = append(help, fmt.Sprintf("no library is called %s; did you mean %q in the libs of %s?", name, near, f.Action.Target))
			} else if ofToolkit(name) {
				help = append(help, fmt.Sprintf(missingPart, name))
			}
		}
	}
	return help
}

// target returns the target of the library with a name, or "".
func (f *Failure) target(name string) string {
	for a := range f.Actions {
		if a.Kind.Info().Makes == "" {
			continue
		}
		for _, o := range a.Outputs {
			if base := path.Base(o); base == "lib"+name+".a" || base == "lib"+name+".so" {
				return a.Target
			}
		}
	}
	return ""
}
