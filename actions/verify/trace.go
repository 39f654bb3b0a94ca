package verify

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// A record is correct if it names all that the command read, and all that it probed and found
// absent. Dependency files of compilers, and what kbuild concludes from them (Absent), may be wrong
// or incomplete. No comparison of outputs shows that until a user makes the edit. The kernel knows:
// A trace runs commands under strace, and compares each path with the record.
//
// A record covers declared and discovered inputs, paths that must stay absent, and what is below a
// folder that must. The tools of the action cover a path whose content is part of their
// fingerprints, or whose appearance makes kbuild query them again. Every other path is a fault,
// except for the paths that ignored lists.

// Unrecorded is a path that a command used and that no record covers.
type Unrecorded struct {
	Action *graph.Action
	Path   string
	How    string // "read" or "looked for"
}

// NewTrace returns a Verifier of paths that runs actions by r. Actions that run in kbuild's own
// process are not traced.
func NewTrace(r *execute.Runner, tools map[string][]string, queried []string) *Verifier {
	r.ExpectReruns()
	return &Verifier{runner: r, tools: tools, queried: queried}
}

// Unrecorded returns how many commands ran again, and the paths that no record covers, in the order of
// actions.
func (v *Verifier) Unrecorded() (checked int, found []Unrecorded) {
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.SortFunc(v.found, func(a, b Unrecorded) int {
		return cmp.Or(cmp.Compare(a.Action.ID, b.Action.ID), cmp.Compare(a.How, b.How),
			cmp.Compare(a.Path, b.Path))
	})
	return v.checked, slices.Clone(v.found)
}

// comparePaths compares the paths that the commands of an action used with its record.
func (v *Verifier) comparePaths(again *execute.Rerun) error {
	if again.RunsEachTime() {
		return nil // it need not cover what the command reads
	}
	known := newPathSet()
	known.add(again.Known()...)
	for _, tool := range again.Action.Tools {
		known.add(v.tools[tool]...)
	}
	known.add(v.queried...)
	known.add(v.runner.Root)
	own, via := again.Own()
	known.add(via...)

	u := &uses{known: known, folders: map[string]bool{}, wrote: map[string]bool{},
		seen: map[strace.Access]bool{}}
	for _, name := range v.queried {
		if p := known.walk(name); p.real == p.there {
			u.folders[p.real] = true
		}
	}
	for _, name := range own {
		u.own = append(u.own, known.walk(name).real)
	}
	for _, log := range again.Logs() {
		if err := u.read(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: reading the log of strace: %w", again.Action.Name, err)
		}
	}
	found := u.faults(again.Action, v.runner.Root)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.found = append(v.found, found...)
	return nil
}

// use is one access of a command to a path.
type use struct {
	strace.Access
	place place
}

// uses are all accesses of an action's commands.
type uses struct {
	known   pathSet
	own     []string        // folders, or prefixes of names, that only this action uses
	folders map[string]bool // folders that make kbuild query the tools again when they change
	wrote   map[string]bool
	all     []use
	seen    map[strace.Access]bool
}

// read reads the log of strace about a command.
func (h *uses) read(log execute.Log) error {
	f, err := regular.Open(log.File, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := strace.Parse(f, log.Dir)
	if err != nil {
		return err
	}
	for _, a := range all {
		p := h.known.walk(a.Path)
		if a.Use == strace.Wrote {
			h.wrote[p.real] = true
			continue
		}
		if h.seen[a] {
			continue
		}
		h.seen[a] = true
		if h.wrote[p.real] && a.Use != strace.Looked {
			continue // the command reads its own output
		}
		h.all = append(h.all, use{a, p})
		if a.Use == strace.Ran {
			if name := interpreter(p.real); filepath.IsAbs(name) {
				loads := strace.Access{Use: strace.Read, Path: name, Program: a.Program}
				h.all = append(h.all, use{loads, h.known.walk(name)})
			}
		}
	}
	return nil
}

// faults returns the uses that neither the record of a, nor its tools, nor ignored accounts
// for. If a command probed a missing folder, the paths probed in it are not listed: a file can
// appear there only with the folder.
func (h *uses) faults(a *graph.Action, projectRoot string) []Unrecorded {
	found := map[Unrecorded]bool{}
	missing := map[string]bool{} // folders
	root := h.known.walk(projectRoot).real
	for _, u := range h.all {
		if h.isOwn(u.place.real) || h.wrote[u.place.real] || h.accounted(u) || ignored(a, root, u) {
			continue
		}
		how, name := "read", u.place.real
		switch u.Use {
		case strace.Looked:
			how = "looked for"
			if u.place.there != u.place.real {
				missing[u.place.real] = true
			}
		case strace.Link: // is reported as the command named it
			name = u.Path
		}
		found[Unrecorded{a, strings.TrimPrefix(name, projectRoot+"/"), how}] = true
	}
	maps.DeleteFunc(found, func(u Unrecorded, _ bool) bool {
		dir := cache.Absolute(projectRoot, u.Path)
		for u.How == "looked for" && dir != "/" {
			if dir = filepath.Dir(dir); missing[dir] {
				return true
			}
		}
		return false
	})
	return slices.Collect(maps.Keys(found))
}

// accounted reports whether the known paths cover a use. A path that is missing in a folder whose
// changes make kbuild query the tools again needs no record, if the links to it are known.
func (h *uses) accounted(u use) bool {
	if u.Use == strace.Link {
		return h.known.hasLink(u.Path)
	}
	return h.known.has(u.place) || u.Use == strace.Looked && (h.known.hasBelow(u.place) ||
		h.folders[u.place.there] && h.known.hasLinks(u.place))
}

func (h *uses) isOwn(name string) bool {
	return slices.ContainsFunc(h.own, func(own string) bool {
		return within(name, own) || strings.HasPrefix(name, own+"++")
	})
}

// interpreter returns the program that the kernel reads to run a program: the interpreter that the
// first line of a script names, or the dynamic loader. It returns "" if there is none.
func interpreter(file string) string {
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // the kernel does not read more
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	if rest, ok := strings.CutPrefix(line, "#!"); ok {
		if words := strings.Fields(rest); len(words) > 0 {
			return words[0]
		}
		return ""
	}
	program, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(p.Open())
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// ignored reports whether no record needs a use of a path. A class of uses hides every fault in it,
// so each names as little as possible, and has its reason. docs/cache.md summarises them.
func ignored(a *graph.Action, root string, u use) bool {
	base, probed := path.Base(u.Path), u.Use == strace.Looked
	switch {
	case a.Kind.Info().Generates && !within(u.place.real, root):
		// a generate block declares its inputs, and its program is in the key
	case within(u.Path, "/proc/self"), within(u.Path, "/sys/kernel/mm/transparent_hugepage"),
		u.Path == "/proc/sys/vm/overcommit_memory":
		// what the kernel reports to a process about itself, and how it grants memory
	case u.Path == "/etc/malloc.conf":
		// settings of jemalloc, which cicc 12 is linked with: how it grants memory
	case u.Path == "/dev/null", u.Path == "/dev/urandom":
		// one has no content, the other gives a name for a temporary file
	case u.Path == "/etc/ld.so.cache":
		// the index of ldconfig: the libraries in it are in the fingerprints of tools, which are
		// computed again when it changes
	case u.Path == "/usr/share/zoneinfo/UTC":
		// the zone of TZ=UTC, which every command has: outputs with the time are not shared, and
		// UTC does not change
	case u.Program == "collect2" && probed && slices.Contains(unusedByCollect2, base):
		// collect2 looks for nm and strip at each start, and needs them for no ELF file: if it ran
		// one, that would be read
	case probed && path.Dir(u.place.real) == root &&
		strings.HasPrefix(path.Base(u.place.real), "-l"):
		// gcc compares the name of its output with each argument, -lm too, and refuses an equal one
	case u.Program == "lto-wrapper" && probed &&
		strings.HasPrefix(strings.TrimPrefix(u.place.real, root+"/"), "-f"):
		// lto-wrapper opens each argument to see whether it is an object, even the options that the
		// linker's plugin passes
	case strings.HasPrefix(u.Program, "clang") && clang.ProbesForOther(a, u.place.real):
		// clang looks for a CUDA toolkit and for ROCm at each start, whatever it compiles
	default:
		return false
	}
	return true
}

var unusedByCollect2 = []string{"nm", "gnm", "strip", "gstrip"}

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
