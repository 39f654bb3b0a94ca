package importer

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Machine describes the local compilers. The zero value knows nothing, and then any header may
// exist.
type Machine struct {
	Includes []string // absolute paths of the header folders of the system and the toolkit
	LibDirs  []string // library folders
	NVCC     string   // "" if there is no toolkit
	HostCXX  string   // the host compiler that it supports
	memo     map[string]bool
}

func (m *Machine) known() bool { return len(m.Includes) > 0 }

// has reports whether the header exists.
func (m *Machine) has(header string) bool {
	return m.memoized("h "+header, func() bool { return anyFile(m.Includes, header) })
}

// links reports whether libNAME.so or libNAME.a exists. It returns true if the folders are unknown.
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

// tree holds the files of a folder.
type tree struct {
	Machine    Machine
	dir        string
	sources    []string
	others     []string // in languages that kbuild does not compile
	foreign    []string // sources in third-party folders
	unfollowed []string // links to folders outside the tree
	archives   []string
	files      map[string]bool
	dirs       map[string]bool
	byBase     map[string][]string
	texts      map[string]string
	events     map[string][]event
	qualifiers map[string]string
	defined    map[string]bool // macros that a file of the tree defines
	shadowing  map[string]bool
}

var (
	outputRE = pattern(`^(?:build|cmake-build-.*|node_modules|CMakeFiles)$`)
	othersRE = pattern(`(?i)^(?:third[_-]?party|externals?|vendor|deps|submodules)$`)
	asideRE  = pattern(`(?i)^(?:unit_?)?(?:tests?|testing|examples?|bench|benchmarks?|samples?|demos?|tutorials?)$`)
)

// largest is the largest size of a source that is read.
const largest = 8 << 20

// findTree collects the sources below a folder, an absolute path. It skips build trees. Files in
// third-party folders are used only if a source includes them.
func findTree(dir string, m Machine) (*tree, error) {
	inside := dir + "/" // for links
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		inside = real + "/"
	}
	t := &tree{Machine: m, dir: dir, files: map[string]bool{}, dirs: map[string]bool{".": true}, byBase: map[string][]string{}, texts: map[string]string{},
		events: map[string][]event{}, qualifiers: map[string]string{}, defined: map[string]bool{}}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
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
	return t, nil
}

// isTree reports whether the folder is a build tree of kbuild or CMake.
func isTree(p string) bool {
	for _, mark := range []string{".kbuild", "CMakeCache.txt"} {
		if _, err := os.Lstat(filepath.Join(p, mark)); err == nil {
			return true
		}
	}
	return false
}

// note records a file of the tree.
func (t *tree) note(rel string) {
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
	}
}

func isSource(f string) bool {
	return !strings.HasPrefix(path.Base(f), ".") && slices.Contains([]string{".cu", ".hip", ".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".s", ".S"}, path.Ext(f))
}

// otherEndings lists extensions of sources and compiled device code that kbuild cannot use in a
// target.
var otherEndings = []string{".asm", ".nasm", ".ptx", ".cubin", ".fatbin", ".bc", ".ll", ".hsaco", ".f", ".for", ".f77", ".f90", ".f95", ".f03", ".f08", ".F", ".F90", ".cuf",
	".cl", ".ispc", ".m", ".mm", ".CU", ".CC", ".CPP", ".cp", ".i", ".ii", ".y", ".yy", ".l", ".proto", ".rs", ".adb"}

func isCode(f string) bool {
	return isSource(f) || slices.Contains([]string{".h", ".hpp", ".cuh", ".hh", ".hxx", ".inl", ".inc", ".tpp", ".ipp", ".def"}, path.Ext(f))
}

func (t *tree) has(f string) bool { return t.files[f] }

// text returns the content of a file. It is empty if the file is missing or too large.
func (t *tree) text(f string) string {
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

func (t *tree) eventsOf(f string) []event {
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

var qualifierRE = pattern(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:__\w+__|inline|static|extern|constexpr)(?:[ \t]+(?:__\w+__|inline|static|constexpr))*)[ \t\r]*(?://.*|/\*.*)?$`)

var defineLineRE = pattern(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)`)

// findQualifiers records macros that expand to __device__, inline and similar words.
func (t *tree) findQualifiers(f string) {
	for _, m := range defineLineRE().FindAllStringSubmatch(t.text(f), -1) {
		t.defined[m[1]] = true
	}
	for _, m := range qualifierRE().FindAllStringSubmatch(t.text(f), -1) {
		if t.qualifiers[m[1]] += " " + m[2]; len(t.qualifiers[m[1]]) > 1000 {
			t.qualifiers[m[1]] = m[2]
		}
	}
}

// auxiliary returns the outermost folder of tests, examples or benchmarks that contains the path.
func auxiliary(p string) string {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		if asideRE().MatchString(part) {
			return strings.Join(parts[:i+1], "/")
		}
	}
	return ""
}

// shadows reports whether the folder has a header with the name of a system header.
func (t *tree) shadows(dir string) bool {
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
