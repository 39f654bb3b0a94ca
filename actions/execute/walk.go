package execute

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// walker finds what paths lead to, as the kernel does, and remembers each step. It is for a moment
// in which nothing changes.
type walker map[string]entry

// entry is what is at a path: a folder, a link with its text, something else, or nothing.
type entry struct {
	mode os.FileMode // irregular of nothing
	link string
}

// place is where a path leads.
type place struct {
	real  string   // without links and dots, as far as it leads to folders
	there string   // the folder that is the part of real up to there
	links []string // that were followed, by their own real paths
}

// mostLinks is where the kernel gives up.
const mostLinks = 40

func (w walker) at(name string) entry {
	s, ok := w[name]
	if !ok {
		s.mode = os.ModeIrregular
		if info, err := os.Lstat(name); err == nil {
			s.mode = info.Mode()
			s.link, _ = os.Readlink(name)
		}
		w[name] = s
	}
	return s
}

// walk follows an absolute path. Below what is not there, or is no folder, it is taken as it is
// written.
func (w walker) walk(name string) place {
	p := place{real: "/"}
	for rest := elements(name); len(rest) > 0; {
		first := rest[0]
		rest = rest[1:]
		if first == ".." {
			p.real = path.Dir(p.real)
			continue
		}
		next := path.Join(p.real, first)
		s := w.at(next)
		switch {
		case s.link != "" && len(p.links) < mostLinks:
			p.links = append(p.links, next)
			if path.IsAbs(s.link) {
				p.real = "/"
			}
			rest = append(elements(s.link), rest...)
		case !s.mode.IsDir(): // or gone
			p.there = p.real
			p.real = strings.Join(append([]string{next}, rest...), "/")
			return p
		default:
			p.real = next
		}
	}
	p.there = p.real
	return p
}

// elements are the names in a path.
func elements(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." })
}

// pathSet is a set of paths, by where they lead.
type pathSet struct {
	walker
	real  map[string]bool
	links map[string]bool // on the way to one of them
}

func newPathSet() pathSet { return pathSet{walker{}, map[string]bool{}, map[string]bool{}} }

// add adds absolute paths.
func (s pathSet) add(names ...string) {
	for _, name := range names {
		p := s.walk(name)
		s.real[p.real] = true
		for _, l := range p.links {
			s.links[l] = true
		}
	}
}

// has reports that a path is in the set. If it is not there, something above it will do that is not
// there either or is no folder: that has to change first. A link on the way counts as well: it may
// lead elsewhere one day.
func (s pathSet) has(p place) bool {
	for _, l := range p.links {
		if !s.links[l] {
			return false
		}
	}
	for name := p.real; ; name = name[:strings.LastIndexByte(name, '/')] {
		if s.real[name] {
			return true
		}
		if strings.LastIndexByte(name, '/') <= len(p.there) {
			return false
		}
	}
}

// hasBelow reports of a folder that is not there that whatever was found in one of its name
// elsewhere is known to be missing here. gcc and clang do not go on to ask for a header in a folder
// that is not there, so that its name is not seen.
func (s pathSet) hasBelow(p place) bool {
	part := "/" + path.Base(p.real) + "/"
	any := false
	for name := range s.real {
		at := strings.LastIndex(name, part)
		if at < 0 || !s.at(name).mode.IsRegular() {
			continue
		}
		if !s.has(place{p.real + "/" + name[at+len(part):], p.there, p.links}) {
			return false
		}
		any = true
	}
	return any && p.real != p.there
}

// hasLink reports that a link is on the way to a path of the set.
func (s pathSet) hasLink(name string) bool {
	return s.links[path.Join(s.walk(path.Dir(name)).real, path.Base(name))]
}

// within reports that a path is a folder or below it.
func within(name, dir string) bool {
	rel, ok := strings.CutPrefix(name, dir)
	return ok && (rel == "" || strings.HasPrefix(rel, "/") || dir == "/")
}

// ofProgram are the files that the kernel reads to run a program: the interpreter of a script, the
// dynamic loader.
func ofProgram(file string) []string {
	if name := scriptInterpreter(file); name != "" {
		return []string{name}
	}
	if name := elfInterpreter(file); filepath.IsAbs(name) {
		return []string{name}
	}
	return nil
}
