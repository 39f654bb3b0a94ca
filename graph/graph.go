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
