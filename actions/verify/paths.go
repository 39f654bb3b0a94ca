package verify

import (
	"os"
	"path"
	"slices"
	"strings"
)

// walker resolves paths as the kernel does, and remembers each step. It is valid only while no file
// changes.
type walker map[string]entry

// entry describes what exists at a path: a folder, a link with its text, another file, or nothing.
type entry struct {
	mode os.FileMode // irregular if nothing exists
	link string
}

// place is the result of resolving a path.
type place struct {
	real  string   // the path without links and dots, as far as it leads to folders
	there string   // the part of real that is an existing folder
	links []string // the links that were followed, by their own real paths
}

// mostLinks is the number of links after which the kernel gives up.
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

// walk resolves an absolute path. What follows a missing element, or one that is not a folder,
// stays as written.
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
		case !s.mode.IsDir(): // or missing
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

// elements returns the names in a path.
func elements(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool {
		return s == "" || s == "."
	})
}

// pathSet is a set of paths, compared by where they lead.
type pathSet struct {
	walker
	real  map[string]bool
	links map[string]bool // links on the way to one of the paths
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

// has reports whether a path is in the set. For a missing path, it is enough that the set has a
// missing element above it, or one that is not a folder: that has to change first. Every link on
// the way must be in the set as well, since a link may change.
func (s pathSet) has(p place) bool {
	if !s.hasLinks(p) {
		return false
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

// hasLinks reports whether all links on the way to a path are in the set.
func (s pathSet) hasLinks(p place) bool {
	return !slices.ContainsFunc(p.links, func(l string) bool { return !s.links[l] })
}

// hasBelow reports whether the set accounts for a missing folder. If the set has a file below
// another folder of this name, its absence below this folder must be known. gcc and clang do not
// probe for headers in a missing folder, so the names of the headers are not observed.
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

// hasLink reports whether a link is on the way to a path of the set.
func (s pathSet) hasLink(name string) bool {
	return s.links[path.Join(s.walk(path.Dir(name)).real, path.Base(name))]
}

// within reports whether a path is a folder or below it.
func within(name, dir string) bool {
	rel, ok := strings.CutPrefix(name, dir)
	return ok && (rel == "" || strings.HasPrefix(rel, "/") || dir == "/")
}
