// Package graph holds the build graph: actions, the files between them, their order and their
// names.
//
// It knows nothing of compilers, manifests, files on disk or time. The planner (graph/plan) makes a
// Graph; the executor (actions/sched, actions/execute) walks it; the renderers in this package draw
// it.
package graph

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Pos is the place in a manifest that made a node. The zero Pos means "nowhere in particular".
type Pos struct {
	File   string `json:"file"` // relative to the project root
	Line   int    `json:"line"` // from 1
	Column int    `json:"column"`
}

// String gives file:line, the form that editors open.
func (p Pos) String() string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// ActionID indexes Graph.Actions.
type ActionID int

// Action is one step of the build: what it reads, what it runs, what it writes. What only some have
// is its Work.
//
// All paths are slash-separated and either relative to the project root, in which every command
// runs, or absolute.
type Action struct {
	ID     ActionID
	Kind   Kind
	Target string   // label of the block that made it: "library.solver", "module.gemm:dtype=f16,tile=64"
	Name   string   // short and readable: "src/a.cu", "bin/app"
	Archs  []string // codes this action makes: "sm_80", "lto_90", "compute_90"
	Mode   string   // "whole", "rdc", "lto", or "" for host work
	Pos    Pos      // of the block that made it

	Argv []string // no shell; Argv[0] is a path or a name looked up in PATH. Empty for Copy; what Embed embeds
	Env  []string // KEY=VALUE on top of the executor's allow-list

	Inputs     []string // declared: everything known to be read; their content is in the key
	OrderOnly  []string // must be up to date first; in the key only if the depfile names them
	Outputs    []string // everything written
	Depfile    string   // written by the command, read by the executor, not an output
	SearchDirs []string // include directories in the order of search, for headers that newly shadow others

	Tools    []string // names of Facts tools whose content is in the key: "nvcc", "toolkit", "cxx", "cc", "ar"
	Pool     string   // "" or the name of one of Graph.Pools
	Memory   int64    // bytes the user says it needs; 0 is unknown
	InPlace  bool     // the command writes Outputs itself; no temporary names in Argv (generate, files beside an object)
	CwdInKey bool     // debug information holds the folder of the build

	// The outputs of an Intermediate action are kept in the cache and stand in the build tree only
	// while something reads them; those of a Transient one are not even kept in the cache, but made
	// again for who needs them.
	Intermediate bool
	Transient    bool

	Work Work // what it has by the kind of work that it is
}

// GenDir is the folder below the build tree for what generate blocks make, each in a folder of its
// name, and for the sources of embedded modules.
const GenDir = "gen"

// Flat is the name of a target as one element of a path: math@vec for math/vec, of an imported
// manifest. No name has an @, and what one target keeps is never in the folder of another.
func Flat(name string) string { return strings.ReplaceAll(name, "/", "@") }

// ShortName is a name of at most most bytes for a file or a folder: the name itself if it fits, or
// else its begin, a digest of all of it, and its endings, by which compilers know what a file is.
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

// Folders below the build tree: PartsDir for the outputs of parts, and in it SlicesDir for slices,
// by architecture.
const (
	PartsDir  = ".kbuild/parts"
	SlicesDir = PartsDir + "/slice"
)

// TestDir is the folder below the build tree for what tests have said; tests that use a GPU are in
// GPUPool, one at a time.
const (
	TestDir = "test"
	GPUPool = "gpu"
)

// Folders below the build tree: SymbolsDir for the PTX that tells what LTO-IR defines, CheckLinkDir
// for what --check-link links.
const (
	SymbolsDir   = ".kbuild/symbols"
	CheckLinkDir = ".kbuild/check-link"
)

// Target is a named node of the manifest and the actions that make it.
type Target struct {
	Label   string     // "executable.bench"
	Name    string     // "bench"
	Kind    string     // "executable", "library", "module", "prebuilt", "generate", "test", "group"
	Outputs []string   // final files that a user asks for
	Checks  []string   // what --check-link links: files that nobody reads
	Actions []ActionID // all that belong to it, in order
	Deps    []string   // labels
	Unbuilt string     // why nothing of it can be built; such a target has no actions
	Pos     Pos
}

// Graph is a plan: actions in a valid order of execution (every producer before its consumers).
type Graph struct {
	Actions  []*Action
	Targets  []*Target
	Default  []string // labels built when none are named
	Pools    map[string]int
	BuildDir string // relative to the root, or absolute

	producer map[string]ActionID // by output
	deps     [][]ActionID        // the edges, see Deps
	names    *nameIndex
}
