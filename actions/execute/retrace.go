package execute

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// A record is correct if it names all that the command read, and all that it probed and found
// absent. Dependency files of compilers, and what kbuild concludes from them (Absent), may be wrong
// or incomplete. No comparison of outputs shows that until a user makes the edit. The kernel knows:
// Trace runs commands under strace, and compares each path with the record.
//
// A record covers declared and discovered inputs, paths that must stay absent, and what is below a
// folder that must. The tools of the action cover a path whose content is part of their
// fingerprints, or whose appearance makes kbuild query them again. Every other path is a fault,
// except for the paths in leftOut, each of which has a reason.

// Trace implements sched.Runner. It brings a build tree up to date as Runner does, and runs each
// command again under strace, beside the tree. The tree keeps the first outputs.
type Trace struct {
	rerun
	tools Covered

	mu      sync.Mutex
	checked int
	found   []Unrecorded
}

// Covered lists what the fingerprints of tools cover.
type Covered struct {
	// files whose content is part of a fingerprint, by the name of the tool
	Files map[string][]string
	// paths that make kbuild query the tools again if they appear or, for folders, change
	Asked []string
}

// Unrecorded is a path that a command used and that no record covers.
type Unrecorded struct {
	Action *graph.Action
	Path   string
	How    string // "read" or "looked for"
}

// NewTrace wraps r. Actions that run in kbuild's own process are not traced.
func NewTrace(r *Runner, tools Covered) *Trace {
	v := &Trace{tools: tools}
	v.rerun = rerun{r: r, compare: v.hold, traced: true}
	return v
}

// Found returns how many commands ran again, and the paths that no record covers, in the order of
// actions.
func (v *Trace) Found() (checked int, found []Unrecorded) {
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.SortFunc(v.found, func(a, b Unrecorded) int {
		return cmp.Or(cmp.Compare(a.Action.ID, b.Action.ID), cmp.Compare(a.How, b.How), cmp.Compare(a.Path, b.Path))
	})
	return v.checked, slices.Clone(v.found)
}

// hold compares what the commands of a did with its record.
func (v *Trace) hold(a *graph.Action, _, _ *cache.Record, dir scratch) error {
	h := v.held(a, dir)
	for _, d := range []scratch{dir, dir.again()} {
		if err := h.read(d.file(straceFile), d.cwd(v.r.Root, a)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: reading what strace wrote: %w", a.Name, err)
		}
		os.Remove(d.file(straceFile))
	}
	found := h.unrecorded(a)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked++
	v.found = append(v.found, found...)
	return nil
}

// use is one access of a command to a path.
type use struct {
	strace.Access
	place place
}

// holding is an action with all accesses of its commands.
type holding struct {
	v       *Trace
	known   pathSet
	own     []string // folders, or prefixes of names, that only this action uses
	wrote   map[string]bool
	folders map[string]bool // folders that make kbuild query the tools again when they change
	uses    []use
	seen    map[strace.Access]bool
}

// held returns the holding of a before the accesses of its commands are read.
func (v *Trace) held(a *graph.Action, dir scratch) *holding {
	h := &holding{v: v, known: newPathSet(), wrote: map[string]bool{}, folders: map[string]bool{}, seen: map[strace.Access]bool{}}
	h.add(a)
	for _, tool := range a.Tools {
		h.known.add(v.tools.Files[tool]...)
	}
	h.known.add(v.tools.Asked...)
	for _, name := range v.tools.Asked {
		if p := h.known.walk(name); p.real == p.there {
			h.folders[p.real] = true
		}
	}
	h.known.add(v.r.Root)
	own := dir.dir
	if dir.name != "" {
		own = filepath.Join(dir.dir, dir.name)
	}
	h.own = append(h.own, h.known.walk(v.r.tree.abs(own)).real)
	if v.r.scratches.short != "" {
		h.own = append(h.own, h.known.walk(filepath.Dir(v.r.scratches.short)).real)
		h.known.add(v.r.scratches.short, dir.tmp)
	}
	return h
}

// add adds the paths that the record of a names.
func (h *holding) add(a *graph.Action) {
	r := h.v.r
	for _, list := range [3][]string{r.discovery.Uses(r.lastRecord(a)), a.Step().UnkeyedPaths, {a.Link().HostRefs}} {
		for _, p := range list {
			if p != "" {
				h.known.add(r.tree.abs(p))
			}
		}
	}
	if rec := r.Records.Last(a.Outputs[0]); rec != nil {
		for _, p := range append(r.discovery.Shadows(rec), rec.Passed...) {
			h.known.add(r.tree.abs(p))
		}
	}
	for _, s := range a.Step().Staged {
		if s.From != "" {
			h.known.add(r.tree.abs(s.From))
		}
	}
}

// read reads the log of strace about a command that ran in the folder cwd.
func (h *holding) read(file, cwd string) error {
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := strace.Parse(f, cwd)
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.Use == strace.Wrote {
			h.wrote[h.known.walk(a.Path).real] = true
			continue
		}
		if h.seen[a] {
			continue
		}
		h.seen[a] = true
		p := h.known.walk(a.Path)
		if h.wrote[p.real] && a.Use != strace.Looked {
			continue // the command reads its own output
		}
		h.uses = append(h.uses, use{a, p})
		if a.Use == strace.Ran {
			for _, name := range ofProgram(p.real) {
				h.uses = append(h.uses, use{strace.Access{Use: strace.Read, Path: name, Program: a.Program}, h.known.walk(name)})
			}
		}
	}
	return nil
}

// unrecorded returns the uses that neither the record of a, nor its tools, nor leftOut accounts
// for. If a command probed a missing folder, the paths probed in it are not listed: a file can
// appear there only with the folder.
func (h *holding) unrecorded(a *graph.Action) (out []Unrecorded) {
	told := map[Unrecorded]bool{}
	gone := map[string]bool{}
	root := h.known.walk(h.v.r.Root).real
	for _, u := range h.uses {
		if h.isOwn(u.place.real) || h.wrote[u.place.real] || h.accounted(u) || reasonFor(a, root, u) != "" {
			continue
		}
		told[h.tell(a, u)] = true
		if u.Use == strace.Looked && u.place.there != u.place.real {
			gone[u.place.real] = true
		}
	}
	for u := range told {
		if u.How != "looked for" || !slices.ContainsFunc(above(h.v.r.tree.abs(u.Path)), func(dir string) bool { return gone[dir] }) {
			out = append(out, u)
		}
	}
	return out
}

// tell returns the report of a use. A link is named as the command named it.
func (h *holding) tell(a *graph.Action, u use) Unrecorded {
	how, name := "read", u.place.real
	if u.Use == strace.Looked {
		how = "looked for"
	}
	if u.Use == strace.Link {
		name = u.Path
	}
	return Unrecorded{a, strings.TrimPrefix(name, h.v.r.Root+"/"), how}
}

// above returns the folders above a path.
func above(name string) (dirs []string) {
	for name != "/" {
		name = filepath.Dir(name)
		dirs = append(dirs, name)
	}
	return dirs
}

// accounted reports whether the known paths cover a use.
func (h *holding) accounted(u use) bool {
	if u.Use == strace.Link {
		return h.known.hasLink(u.Path)
	}
	return h.known.has(u.place) || u.Use == strace.Looked && (h.known.hasBelow(u.place) || h.watched(u.place))
}

// watched reports whether a path is missing in a folder whose changes make kbuild query the tools
// again.
func (h *holding) watched(p place) bool {
	return h.folders[p.there] && !slices.ContainsFunc(p.links, func(l string) bool { return !h.known.links[l] })
}

func (h *holding) isOwn(name string) bool {
	return slices.ContainsFunc(h.own, func(own string) bool { return within(name, own) || strings.HasPrefix(name, own+"++") })
}

// scriptInterpreter returns the program that the first line of a script names, or "".
func scriptInterpreter(file string) string {
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // the kernel does not read more
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	rest, ok := strings.CutPrefix(line, "#!")
	if words := strings.Fields(rest); ok && len(words) > 0 {
		return words[0]
	}
	return ""
}

// elfInterpreter returns the dynamic loader that a program names, or "".
func elfInterpreter(file string) string {
	f, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(p.Open())
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}
