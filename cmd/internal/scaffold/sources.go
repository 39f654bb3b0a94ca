// Package scaffold writes a first manifest for the sources of a folder: a program for each file
// with a main, and libraries of what they share. It knows what sources and build files look like,
// and starts no compiler.
package scaffold

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Machine is what is known of the compilers here. The zero value knows nothing: then any header may
// be there.
type Machine struct {
	Includes []string // folders of headers of the system and the toolkit, absolute
	LibDirs  []string // folders of libraries
	Version  string   // of the toolkit, "11.8"
	Archs    []string // sm_80 and the like, that the toolkit compiles for
	memo     map[string]bool
}

func (m *Machine) known() bool { return len(m.Includes) > 0 }

// has reports a header.
func (m *Machine) has(header string) bool {
	return m.memoized("h "+header, func() bool { return anyFile(m.Includes, header) })
}

// links reports a library: libNAME.so or libNAME.a, or that nothing is known.
func (m *Machine) links(name string) bool {
	return len(m.LibDirs) == 0 || m.memoized("l "+name, func() bool {
		return anyFile(m.LibDirs, "lib"+name+".so") || anyFile(m.LibDirs, "lib"+name+".a")
	})
}

func (m *Machine) memoized(key string, ask func() bool) bool {
	answer, ok := m.memo[key]
	if !ok {
		if m.memo == nil {
			m.memo = map[string]bool{}
		}
		answer = ask()
		m.memo[key] = answer
	}
	return answer
}

func anyFile(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	})
}

// Tree is what lies in a folder.
type Tree struct {
	Machine    Machine
	dir        string
	name       string // of the folder
	sources    []string
	others     []string // of languages that kbuild does not compile
	foreign    []string // sources in folders of others' code
	unfollowed []string // links to folders outside of the tree
	archives   []string
	build      []string // Makefiles, CMakeLists.txt
	files      map[string]bool
	dirs       map[string]bool
	byBase     map[string][]string
	texts      map[string]string
	events     map[string][]event
	qualifiers map[string]string
	defined    map[string]bool   // macros that some file of the tree defines
	hints      map[string]*hints // by folder of a build file
	made       []configured
	shadowing  map[string]bool
}

var (
	outputRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:build|cmake-build-.*|node_modules|CMakeFiles)$`) })
	othersRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^(?:third[_-]?party|externals?|vendor|deps|submodules)$`)
	})
	asideRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^(?:unit_?)?(?:tests?|testing|examples?|bench|benchmarks?|samples?|demos?|tutorials?)$`)
	})
)

// largest is the size of a source that is read.
const largest = 8 << 20

// Find looks for sources below a folder, but in folders of builds and of others' code. What is in
// the latter is found by includes.
func Find(dir string, m Machine) (*Tree, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	inside := abs + "/" // of links
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		inside = real + "/"
	}
	t := &Tree{Machine: m, dir: dir, name: filepath.Base(abs), files: map[string]bool{}, dirs: map[string]bool{".": true}, byBase: map[string][]string{}, texts: map[string]string{},
		events: map[string][]event{}, qualifiers: map[string]string{}, defined: map[string]bool{}, hints: map[string]*hints{}}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (outputRE().MatchString(d.Name()) || strings.HasPrefix(d.Name(), ".") || isTree(p)) {
				return filepath.SkipDir
			}
			t.dirs[rel] = true
			return nil
		}
		if d.Type().IsRegular() {
			t.note(rel)
		} else if info, err := os.Stat(p); err == nil && d.Type()&fs.ModeSymlink != 0 {
			if info.Mode().IsRegular() {
				t.note(rel)
			} else if real, err := filepath.EvalSymlinks(p); err == nil && info.IsDir() && !strings.HasPrefix(real+"/", inside) {
				t.unfollowed = append(t.unfollowed, rel)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, f := range slices.Sorted(maps.Keys(t.files)) {
		if isCode(f) {
			t.findQualifiers(f)
		}
	}
	t.readBuildFiles()
	return t, nil
}

// isTree reports a build tree of kbuild or CMake.
func isTree(p string) bool {
	for _, mark := range []string{".kbuild", "CMakeCache.txt"} {
		if _, err := os.Lstat(filepath.Join(p, mark)); err == nil {
			return true
		}
	}
	return false
}

// note is a file of the tree.
func (t *Tree) note(rel string) {
	base := path.Base(rel)
	t.files[rel] = true
	t.byBase[base] = append(t.byBase[base], rel)
	foreign := slices.ContainsFunc(strings.Split(path.Dir(rel), "/"), othersRE().MatchString)
	switch {
	case strings.HasPrefix(base, "-"):
	case isSource(rel) && foreign:
		t.foreign = append(t.foreign, rel)
	case isSource(rel):
		t.sources = append(t.sources, rel)
	case slices.Contains(otherEndings, path.Ext(rel)) && !foreign:
		t.others = append(t.others, rel)
	case path.Ext(rel) == ".a":
		t.archives = append(t.archives, rel)
	case !foreign && isBuildFile(base):
		t.build = append(t.build, rel)
	}
}

func isBuildFile(base string) bool {
	switch base {
	case "CMakeLists.txt", "Makefile", "makefile", "GNUmakefile", "Makefile.am":
		return true
	}
	return false
}

func isSource(f string) bool {
	return !strings.HasPrefix(path.Base(f), ".") && slices.Contains([]string{".cu", ".hip", ".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".s", ".S"}, path.Ext(f))
}

// otherEndings are those of sources, and of compiled device code, that kbuild takes into no target.
var otherEndings = []string{".asm", ".nasm", ".ptx", ".cubin", ".fatbin", ".bc", ".ll", ".hsaco", ".f", ".for", ".f77", ".f90", ".f95", ".f03", ".f08", ".F", ".F90", ".cuf",
	".cl", ".ispc", ".m", ".mm", ".CU", ".CC", ".CPP", ".cp", ".i", ".ii", ".y", ".yy", ".l", ".proto", ".rs", ".adb"}

func isCode(f string) bool {
	return isSource(f) || slices.Contains([]string{".h", ".hpp", ".cuh", ".hh", ".hxx", ".inl", ".inc", ".tpp", ".ipp", ".def"}, path.Ext(f))
}

func (t *Tree) has(f string) bool { return t.files[f] }

// text is what a file holds; of one that is too large, or gone, nothing.
func (t *Tree) text(f string) string {
	text, ok := t.texts[f]
	if !ok {
		if info, err := os.Stat(filepath.Join(t.dir, f)); err == nil && info.Size() <= largest {
			bytes, _ := regular.Read(filepath.Join(t.dir, f))
			text = string(bytes)
		}
		t.texts[f] = text
	}
	return text
}

func (t *Tree) eventsOf(f string) []event {
	list, ok := t.events[f]
	if !ok {
		if isAssembler(f) {
			list = assemblerEvents(f, t.text(f))
		} else {
			list = events(t.text(f), t.qualifiers)
		}
		t.events[f] = list
	}
	return list
}

var qualifierRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:__\w+__|inline|static|extern|constexpr)(?:[ \t]+(?:__\w+__|inline|static|constexpr))*)[ \t\r]*(?://.*|/\*.*)?$`)
})

var defineLineRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)`) })

// findQualifiers notes macros that stand for __device__, inline and the like.
func (t *Tree) findQualifiers(f string) {
	for _, m := range defineLineRE().FindAllStringSubmatch(t.text(f), -1) {
		t.defined[m[1]] = true
	}
	for _, m := range qualifierRE().FindAllStringSubmatch(t.text(f), -1) {
		if t.qualifiers[m[1]] += " " + m[2]; len(t.qualifiers[m[1]]) > 1000 {
			t.qualifiers[m[1]] = m[2]
		}
	}
}

// auxiliary is the outermost folder of tests, examples or benchmarks that a path is in.
func auxiliary(p string) string {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		if asideRE().MatchString(part) {
			return strings.Join(parts[:i+1], "/")
		}
	}
	return ""
}

// shadows reports a folder with a header that is named as one of the system.
func (t *Tree) shadows(dir string) bool {
	if t.shadowing == nil {
		t.shadowing = map[string]bool{}
		for f := range t.files {
			if !isSource(f) && isCode(f) && t.Machine.has(path.Base(f)) {
				t.shadowing[path.Dir(f)] = true
			}
		}
	}
	return t.shadowing[dir]
}
