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
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
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
	found := u.unrecorded(again.Action, v.runner.Root)
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

// unrecorded returns the uses that neither the record of a, nor its tools, nor ignored accounts
// for. If a command probed a missing folder, the paths probed in it are not listed: a file can
// appear there only with the folder.
func (h *uses) unrecorded(a *graph.Action, projectRoot string) []Unrecorded {
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
