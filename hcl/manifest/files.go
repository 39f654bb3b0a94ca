package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/fileset"
)

// sourceTree has the files of a project.
type sourceTree struct {
	*reports
	opts      Options
	fsys      *watcher
	generated map[string]string    // label of the generate block by path of its output
	madeAs    map[string]string    // the same by the name of the output, see outputNames
	matches   map[string]globMatch // by patterns
}

// watcher is a file system that records which paths are read.
type watcher struct {
	fs.FS
	seen     map[asked]bool
	observed []cache.Observation
	listed   map[string][]fs.DirEntry
}

// asked is the key for removing duplicate observations.
type asked struct {
	path string
	kind cache.Kind
}

func (w *watcher) note(name string, kind cache.Kind, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		kind = cache.KindAbsent
	}
	if k := (asked{name, kind}); !w.seen[k] {
		w.seen[k] = true
		w.observed = append(w.observed, cache.Observation{Path: name, Kind: kind})
	}
}

// ReadFile implements fs.ReadFileFS.
func (w *watcher) ReadFile(name string) ([]byte, error) {
	b, err := fs.ReadFile(w.FS, name)
	w.note(name, cache.KindFile, err)
	return b, err
}

// ReadDir implements fs.ReadDirFS.
func (w *watcher) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.FS, name)
	w.note(name, cache.KindFolder, err)
	if _, old := w.listed[name]; !old {
		w.listed[name] = entries
	}
	return entries, err
}

// Stat implements fs.StatFS.
func (w *watcher) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(w.FS, name)
	w.note(name, cache.KindFile, err)
	return info, err
}

// read returns the content of a file, below the manifest's folder or not.
func (w *watcher) read(root, name string) ([]byte, error) {
	if filepath.IsLocal(name) {
		return w.ReadFile(name)
	}
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(root, name)
	}
	text, err := regular.ReadAtMost(file, MaxSource)
	w.note(name, cache.KindFile, err)
	return text, err
}

// glob() matches files below the manifest's folder. It skips the build tree: BuildDir, and any
// folder that contains .kbuild, the mark of a build tree. It skips hidden files unless the pattern
// spells the dot, and `..` is an error. `*` and `?` match within a path element, `**` matches any
// number of elements. `**` does not follow symbolic links to folders, which could lead in circles;
// an element that is spelled out does.

// globMatch is the stored result of one call.
type globMatch struct {
	files []string
	err   error
}

// globFunc returns the function glob("src/*.cu", ["more/**/*.cu"]): a sorted list without
// duplicates. A pattern that matches nothing is an error, since it is nearly always a typo.
func (l *sourceTree) globFunc(dir string) function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{Name: "patterns", Type: cty.DynamicPseudoType},
		Type:     function.StaticReturnType(cty.List(cty.String)),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if !cty.TupleVal(args).IsWhollyKnown() {
				return cty.UnknownVal(cty.List(cty.String)), nil
			}
			var patterns []string
			for _, a := range args {
				elems := []cty.Value{a}
				if isList(a) {
					elems = a.AsValueSlice()
				}
				for _, e := range elems {
					if e.IsNull() || e.Type() != cty.String {
						return cty.DynamicVal, errors.New(`patterns are strings such as "src/**/*.cu"`)
					}
					patterns = append(patterns, e.AsString())
				}
			}
			if len(patterns) == 0 {
				return cty.DynamicVal, errors.New(`it needs a pattern such as "src/**/*.cu"`)
			}
			key := strings.Join(append([]string{dir}, patterns...), "\x00")
			m, ok := l.matches[key]
			if !ok {
				m.files, m.err = expand(l.fsys, l.project.BuildDir, dir, patterns)
				l.matches[key] = m
			}
			if m.err != nil {
				return cty.DynamicVal, m.err
			}
			return stringList(m.files), nil
		},
	})
}

func stringList(list []string) cty.Value {
	if len(list) == 0 {
		return cty.ListValEmpty(cty.String)
	}
	vals := make([]cty.Value, len(list))
	for i, s := range list {
		vals[i] = cty.StringVal(s)
	}
	return cty.ListVal(vals)
}

// expand evaluates patterns like glob() in the manifest of the folder dir below fsys, the project.
// buildDir is Project.BuildDir. The result is relative to dir.
func expand(fsys fs.FS, buildDir, dir string, patterns []string) ([]string, error) {
	var out []string
	for _, p := range patterns {
		w := globWalk{fsys: fsys, buildDir: buildDir, walked: map[walked]bool{}}
		elems := strings.Split(path.Clean(p), "/")
		switch {
		case strings.HasPrefix(p, "/") || strings.Contains(p, `\`):
			return nil, fmt.Errorf("%q: patterns are relative to the manifest and use /", p)
		case slices.Contains(strings.Split(p, "/"), ".."):
			return nil, fmt.Errorf("%q: glob sees only files under the manifest's folder", p)
		}
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("%q: a bracket is not closed", p)
		}
		w.walk(cmp.Or(dir, "."), elems)
		switch {
		case len(w.found) > 0:
		case w.built:
			return nil, fmt.Errorf("%q matches no file outside of the build tree; for generated files "+
				"write generate.NAME.outputs", p)
		case strings.ContainsAny(p, "{}"):
			return nil, fmt.Errorf("%q matches no file; for alternatives give several patterns", p)
		default:
			return nil, fmt.Errorf("%q matches no file", p)
		}
		for _, f := range w.found {
			out = append(out, strings.TrimPrefix(strings.TrimPrefix(f, dir), "/"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// walked is a folder and the rest of a pattern that was matched in it. Several ** can lead to the
// same pair repeatedly.
type walked struct {
	dir  string
	rest string
}

type globWalk struct {
	fsys     fs.FS
	buildDir string
	found    []string
	built    bool // the walk has reached the build tree
	walked   map[walked]bool
}

// walk matches the elements of a pattern below dir.
func (w *globWalk) walk(dir string, elems []string) {
	here := walked{dir, strings.Join(elems, "/")}
	if w.walked[here] {
		return
	}
	w.walked[here] = true
	entries, err := fs.ReadDir(w.fsys, dir)
	if err != nil {
		return
	}
	mark := func(e fs.DirEntry) bool { return e.Name() == ".kbuild" }
	if dir != "." && (dir == w.buildDir || slices.ContainsFunc(entries, mark)) {
		w.built = true
		return
	}
	head, rest := elems[0], elems[1:]
	if head == "**" { // the rest in dir, and in every folder below
		if len(rest) == 0 {
			rest = []string{"*"}
		}
		w.walk(dir, rest)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case head == "**":
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				w.walk(name, elems)
			}
		case !matchElement(head, e.Name()):
		case len(rest) > 0 && w.isDir(name, e):
			w.walk(name, rest)
		case len(rest) == 0 && !w.isDir(name, e):
			w.found = append(w.found, name)
		}
	}
}

func (w *globWalk) isDir(name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	st, err := fs.Stat(w.fsys, name)
	return err != nil || st.IsDir() // a dangling link is not a file
}

// matchElement matches one path element; the pattern must spell a leading dot.
func matchElement(pattern, name string) bool {
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern, ".") {
		return false
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

// matchPath matches a whole path against a pattern, for partitions.
func matchPath(pattern, name string) bool {
	return fileset.MatchPath(path.Clean(pattern), name, matchElement)
}
