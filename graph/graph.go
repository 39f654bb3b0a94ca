// Package graph holds the build graph: actions, the files between them, their order and their
// names.
//
// It knows nothing of compilers, manifests, files on disk or time. The planner (graph/plan) builds
// a Graph, the executor (actions/sched, actions/execute) walks it, and the renderers in this
// package draw it.
package graph

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Pos is the position in a manifest that created a node. The zero Pos means that no position is
// known.
type Pos struct {
	File   string `json:"file"` // relative to the project root
	Line   int    `json:"line"` // from 1
	Column int    `json:"column"`
}

// String returns file:line, the form that editors open, or "".
func (p Pos) String() string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// ActionID indexes Graph.Actions.
type ActionID int32

// Action is one step of the build: what it reads, what it runs, what it writes. Fields that only
// some kinds have are in Work.
//
// All paths are slash-separated and either relative to the project root, in which every command
// runs, or absolute.
type Action struct {
	ID     ActionID
	Kind   Kind
	Target string   // label of its block: "library.solver", "module.gemm:dtype=f16,tile=64"
	Name   string   // short and readable: "src/a.cu", "bin/app"
	Archs  []string // codes that it generates: "sm_80", "lto_90", "compute_90"
	Mode   string   // "whole", "rdc", "lto", or "" for host work
	Pos    Pos      // of its block

	// No shell; Argv[0] is a path or a name looked up in PATH. It is empty for Copy; for Embed it
	// lists what is embedded.
	Argv []string
	Env  []string // KEY=VALUE in addition to the executor's allow-list

	Inputs     []string // declared: everything known to be read; their content is in the key
	OrderOnly  []string // must be up to date first; in the key only if the depfile names them
	Outputs    []string // everything written
	Depfile    string   // written by the command, read by the executor, not an output
	SearchDirs []string // include folders in search order, for headers that newly shadow others

	// Names of the tools of Facts whose content is in the key: "nvcc", "toolkit", "cxx", "cc",
	// "ar".
	Tools  []string
	Pool   string // "" or the name of one of Graph.Pools
	Memory int64  // bytes that it needs by the manifest; 0 is unknown

	// The command writes Outputs directly; no temporary names in Argv (generate, files beside an
	// object).
	InPlace  bool
	CwdInKey bool // debug information records the folder of the build

	// The outputs of an Intermediate action are kept in the cache. They are in the build tree only
	// while an action reads them. Outputs of a Transient action are not cached either: the action
	// runs again if a dependent needs them.
	Intermediate bool
	Transient    bool

	Work Work // fields of only some kinds
}

// ShortName returns a file or folder name of at most most bytes. A longer name is replaced by its
// beginning, a digest of all of it, and its extensions, by which compilers recognise files.
func ShortName(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	digest, endings := fmt.Sprintf("-%x", sum[:16]), ""
	if _, after, ok := strings.Cut(name[len(name)-24:], "."); ok {
		endings = "." + after
	}
	head := name[:most-len(digest)-len(endings)]
	return strings.ToValidUTF8(head, "") + digest + endings
}

// Folders in the build tree: PartsDir for the outputs of passes, and in it SlicesDir for slices, by
// architecture.
const (
	PartsDir  = ".kbuild/parts"
	SlicesDir = PartsDir + "/slice"
)

// TestDir is the folder in the build tree for the output of tests. GPUPool is the pool of tests
// that use a GPU; it runs one at a time.
const (
	TestDir = "test"
	GPUPool = "gpu"
)

// Folders in the build tree: SymbolsDir for the PTX that lists what LTO-IR defines, CheckLinkDir
// for the outputs of --check-link.
const (
	SymbolsDir   = ".kbuild/symbols"
	CheckLinkDir = ".kbuild/check-link"
)

// Target is a named node of the manifest and its actions.
type Target struct {
	Label   string     // "executable.bench"
	Name    string     // "bench"
	Kind    string     // "executable", "library", "module", "prebuilt", "generate", "test", "group"
	Outputs []string   // final files that a user builds
	Checks  []string   // outputs of --check-link, which nothing reads
	Actions []ActionID // all its actions, in order
	Deps    []string   // labels
	Unbuilt string     // why it cannot be built; such a target has no actions
	Pos     Pos
}

// Graph is a plan: actions in a valid order of execution (every producer before its consumers).
type Graph struct {
	Actions  []*Action
	Targets  []*Target
	Default  []string // labels built if the user names none
	Pools    map[string]int
	BuildDir string // relative to the root, or absolute

	producer map[string]ActionID  // by output
	deps     adjacency            // the edges, see Deps
	names    map[string][]*Target // by label, and by the names that several may have, in order
}

// Add appends an action, sets its ID and returns it.
func (g *Graph) Add(a *Action) *Action {
	a.ID = ActionID(len(g.Actions))
	g.Actions = append(g.Actions, a)
	if g.producer == nil {
		g.producer = map[string]ActionID{}
	}
	for _, o := range a.Outputs {
		g.producer[o] = a.ID
	}
	return a
}

// Producer returns the action that writes path.
func (g *Graph) Producer(path string) (ActionID, bool) {
	id, ok := g.producer[path]
	return id, ok
}

// Seal computes the edges of the graph and indexes its targets after the last Add. The graph is
// then safe for concurrent reads. Seal checks that every producer comes before its consumers, so
// that there is no cycle, and that no two actions write one file.
func (g *Graph) Seal() error {
	g.names = map[string][]*Target{}
	for _, t := range g.Targets {
		base, _, _ := strings.Cut(t.Name, ":")
		names := []string{t.Name, base, t.Kind + "." + base}
		if t.Kind != "group" && t.Kind != "test" && t.Kind != "prebuilt" {
			names = append(names, Folders(t.Name)...)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			g.names[name] = append(g.names[name], t)
		}
	}
	for _, t := range slices.Backward(g.Targets) {
		g.names[t.Label] = []*Target{t} // and no other that has it as a name
	}
	var edges []uint64
	for _, a := range g.Actions {
		for _, o := range a.Outputs {
			if last := g.producer[o]; last != a.ID {
				return fmt.Errorf("%s is written twice: by %s and by %s", o, a.Target, g.Actions[last].Target)
			}
		}
		for _, list := range [3][]string{a.Inputs, a.OrderOnly, a.Pass().DiagnosticInputs} {
			for _, in := range list {
				p, ok := g.producer[in]
				if ok && p > a.ID {
					return fmt.Errorf("BUG: action %d (%s) stands before action %d (%s), which it needs", a.ID, a.Name, p, g.Actions[p].Name)
				}
				if ok && p != a.ID {
					edges = append(edges, pairOf(int(a.ID), p))
				}
			}
		}
	}
	g.deps = newAdjacency(len(g.Actions), edges)
	return nil
}

// Deps returns the actions that write what id reads, sorted, each once. The graph must be sealed.
func (g *Graph) Deps(id ActionID) []ActionID { return g.deps.of(int(id)) }

// Closure returns want and their transitive dependencies, sorted.
func (g *Graph) Closure(want []ActionID) []ActionID { return g.deps.reach(want, nil) }

// Needs reports whether id depends on dep, directly or transitively.
func (g *Graph) Needs(id, dep ActionID) bool {
	return slices.Contains(g.Closure(g.Deps(id)), dep)
}

// Select resolves names on the command line: target labels and names, output files, and source
// files (everything compiled from them). unknown holds the names that match nothing.
func (g *Graph) Select(names []string) (want []ActionID, unknown []string) {
	for _, n := range names {
		targets := g.FindTarget(n)
		for _, t := range g.Expand(targets) {
			for _, o := range t.Outputs {
				if id, ok := g.Producer(o); ok {
					want = append(want, id)
				}
			}
		}
		if targets != nil {
			continue
		}
		id, ok := g.Producer(n)
		if !ok {
			id, ok = g.Producer(g.BuildDir + "/" + n)
		}
		ids := []ActionID{id}
		if !ok {
			ids = g.compiledFrom(n)
		}
		if want = append(want, ids...); ids == nil {
			unknown = append(unknown, n)
		}
	}
	slices.Sort(want)
	return slices.Compact(want), unknown
}

// compiledFrom returns the actions that compile a source; for a split compile, its last passes. A
// link of HIP code reads intermediates of compiles, but does not count.
func (g *Graph) compiledFrom(source string) []ActionID {
	var ids []ActionID
	within := map[ActionID]bool{}
	for _, a := range g.Actions {
		from := len(a.Inputs) > 0 && a.Inputs[0] == source
		for _, d := range g.Deps(a.ID) {
			from = from || within[d] && a.Kind != LLD
		}
		switch {
		case from && a.Intermediate:
			within[a.ID] = true
		case from:
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// Unbuilt returns the targets among names that cannot be built.
func (g *Graph) Unbuilt(names []string) []*Target {
	var named, out []*Target
	for _, n := range names {
		named = append(named, g.FindTarget(n)...)
	}
	for _, t := range g.Expand(named) {
		if t.Unbuilt != "" {
			out = append(out, t)
		}
	}
	return out
}

// Names returns the labels and names that a user may write, for completion and did-you-mean.
func (g *Graph) Names() []string { return slices.Sorted(maps.Keys(g.names)) }

// Folders returns the names by which a user selects everything that is built in a folder of an
// imported manifest, and below it: "math/...", "math/deep/...".
func Folders(name string) (folders []string) {
	for i, c := range name {
		if c == '/' {
			folders = append(folders, name[:i]+"/...")
		}
	}
	return folders
}

// FindTarget looks a target up by label ("library.solver") or by name, which may be ambiguous. A
// matrix module's base name ("gemm") finds all its instances, a folder ("math/...") everything
// built in it.
func (g *Graph) FindTarget(name string) []*Target { return g.names[name] }

// Expand replaces groups by their members, each target once: groups contain groups, so the number
// of paths through them can double at each level.
func (g *Graph) Expand(targets []*Target) (out []*Target) {
	seen := map[*Target]bool{}
	stack := slices.Clone(targets)
	slices.Reverse(stack)
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[t] {
			continue
		}
		seen[t], out = true, append(out, t)
		for _, d := range slices.Backward(t.Deps) {
			if t.Kind == "group" {
				members := slices.Clone(g.FindTarget(d))
				slices.Reverse(members)
				stack = append(stack, members...)
			}
		}
	}
	return out
}
