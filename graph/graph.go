// Package graph holds the build graph: actions, the files between them, their order and their names.
//
// It knows nothing of compilers, manifests, files on disk or time. The planner (graph/plan) makes a
// Graph; the executor (actions/sched, actions/build) walks it; the renderers in this package draw it.
package graph

import "fmt"

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

// Action is one step of the build: what it reads, what it runs, what it writes.
//
// All paths are slash-separated and either relative to the project root, in which every command
// runs, or absolute.
type Action struct {
	ID     ActionID `json:"id"`
	Kind   Kind     `json:"kind"`
	Target string   `json:"target"`          // label of the block that made it: "library.solver", "module.gemm:dtype=f16,tile=64"
	Name   string   `json:"name"`            // short and readable: "src/a.cu", "bin/app"
	Archs  []string `json:"archs,omitempty"` // codes this action makes: "sm_80", "lto_90", "compute_90"
	Mode   string   `json:"mode,omitempty"`  // "whole", "rdc", "lto", or "" for host work

	Argv []string `json:"argv,omitempty"` // no shell; Argv[0] is a path or a name looked up in PATH. Empty for Copy; what Embed embeds
	Env  []string `json:"env,omitempty"`  // KEY=VALUE on top of the executor's allow-list

	Inputs     []string `json:"inputs"`                // declared: everything known to be read; their content is in the key
	OrderOnly  []string `json:"order_only,omitempty"`  // must be up to date first; in the key only if the depfile names them
	Outputs    []string `json:"outputs"`               // everything written
	Depfile    string   `json:"depfile,omitempty"`     // written by the command, read by the executor, not an output
	SearchDirs []string `json:"search_dirs,omitempty"` // include directories in the order of search, for headers that newly shadow others

	// Response makes the executor put Argv[Response:] into a response file when the command line
	// would grow too long, and pass ResponseFlag joined with its path instead
	// ("@" for gcc and ar; "--options-file=" for nvcc). 0 means never.
	Response     int    `json:"response,omitempty"`
	ResponseFlag string `json:"response_flag,omitempty"`

	Tools    []string `json:"tools,omitempty"`      // names of Facts tools whose content is in the key: "nvcc", "cxx", "cc", "ar"
	Pool     string   `json:"pool,omitempty"`       // "" or the name of one of Graph.Pools
	Memory   int64    `json:"memory,omitempty"`     // bytes the user says it needs; 0 is unknown
	InPlace  bool     `json:"in_place,omitempty"`   // the command writes Outputs itself; no temporary names in Argv (generate, files beside an object)
	CwdInKey bool     `json:"cwd_in_key,omitempty"` // debug information holds the folder of the build

	StageInKey bool `json:"stage_in_key,omitempty"` // debug information holds the names that the files of Stage have while the command runs

	// KeepDir is a folder of its own that the command writes to; KeepFiles in it become Outputs, in order.
	KeepDir   string   `json:"keep_dir,omitempty"`
	KeepFiles []string `json:"keep_files,omitempty"`

	// A Part is a step inside what nvcc does as one command. Its outputs are kept in the cache and stand in the
	// build tree only while something reads them; those of a Transient one are not even kept in the cache, but
	// made again for who needs them.
	Part      bool `json:"part,omitempty"`
	Transient bool `json:"transient,omitempty"`

	// Weak are read as well and can change only what the command says, not what it makes: line numbers. They
	// are in the key if the command said something. Aloud is the argv to run then instead.
	Weak  []string `json:"weak,omitempty"`
	Aloud []string `json:"aloud,omitempty"`

	Mentions []string `json:"mentions,omitempty"` // files that Argv names and whose content is not in the key: the source, for messages

	// Follows are preprocessed texts, outputs of other actions. Argv reads the source and the headers of these texts itself;
	// the texts are in the key in their place.
	Follows []string `json:"follows,omitempty"`

	// The command of a Gate writes nothing. Where it ends well, Outputs[0] is Inputs[0].
	Gate bool `json:"gate,omitempty"`

	Stage   []Staged `json:"stage,omitempty"`   // files that the executor puts into a folder of the action's own
	Texts   []Text   `json:"texts,omitempty"`   // outputs that the executor makes of other outputs
	Macros  []string `json:"macros,omitempty"`  // macros that Argv defines whose value is in the key only if the text uses them
	Figures bool     `json:"figures,omitempty"` // -v is in Argv for the figures of ptxas alone: what it says of functions is not for the user
	Apart   bool     `json:"apart,omitempty"`   // runs in an empty folder, with absolute paths: it must not find the sources

	Plain []string `json:"-"`               // the nvcc command that this action is a pass of
	Asked string   `json:"-"`               // the question to nvcc that the passes were learned from
	Whole string   `json:"whole,omitempty"` // why nvcc was not taken apart

	Link *LinkCheck `json:"link,omitempty"` // set on device links: what nvlink may say

	// HostRefs is the output of the action of that kind, for a device link that removes what no host code refers to. KeepsAll says why
	// one removes nothing.
	HostRefs string `json:"host_refs,omitempty"`
	KeepsAll string `json:"keeps_all,omitempty"`

	// Ships is the device code that the output must have: all of it, if it has any or, of a link, if an input has. Compilers and
	// linkers drop code with exit status 0.
	Ships []string `json:"ships,omitempty"`

	Head string `json:"head,omitempty"` // of Manifest: the document as far as it is known before anything is built

	Pos Pos `json:"pos"` // of the block that made it
}

// GenDir is the folder below the build tree for what generate blocks make, each in a folder of its name, and for the sources of embedded modules.
const GenDir = "gen"

// Folders below the build tree: PartsDir for the outputs of parts, and in it SlicesDir for slices, by architecture.
const (
	PartsDir  = ".kbuild/parts"
	SlicesDir = PartsDir + "/slice"
)

// Folders below the build tree: SymbolsDir for the PTX that tells what LTO-IR defines, CheckLinkDir for what --check-link links.
const (
	SymbolsDir   = ".kbuild/symbols"
	CheckLinkDir = ".kbuild/check-link"
)

// StageDir is the folder of Action.Stage in argv and in staged texts: "<stage>/kernels.stub.c".
const StageDir = "<stage>"

// Staged is a file of Action.Stage: Text, or the content of the file From.
type Staged struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"`
	From string `json:"from,omitempty"`
}

// Text says that the output Canon is the canonical form of the preprocessed text Raw: without line numbers and
// blank space. DropFalse leaves out what stands in #if 0. Clang says that it is for clang, which spells positions into names of
// functions.
type Text struct {
	Raw       string `json:"raw"`
	Canon     string `json:"canon"`
	DropFalse bool   `json:"drop_false,omitempty"`
	Clang     bool   `json:"clang,omitempty"`
}

// LinkCheck says which messages of nvlink are expected in a device link. nvlink exits 0 while it
// drops code, so its words decide (facts: "SM Arch not found", "Ignoring -dlto", "not built for LTO").
type LinkCheck struct {
	LTO      bool              `json:"lto"`
	Check    bool              `json:"check,omitempty"`     // only whether it links is wanted: --check-link
	NonLTO   []string          `json:"non_lto,omitempty"`   // files that may be "not built for LTO": rdc objects, prebuilts with lto = "none"
	Untold   []string          `json:"untold,omitempty"`    // inputs whose LTO-IR does not say how it was compiled, in words
	Owners   map[string]string `json:"owners,omitempty"`    // input path -> label of the target that brought it, for messages
	OwnerPos map[string]Pos    `json:"owner_pos,omitempty"` // input path -> position of that target
}

// Target is a named node of the manifest and the actions that make it.
type Target struct {
	Label   string     `json:"label"`             // "executable.bench"
	Name    string     `json:"name"`              // "bench"
	Kind    string     `json:"kind"`              // "executable", "library", "module", "prebuilt", "generate", "group"
	Outputs []string   `json:"outputs"`           // final files that a user asks for
	Checks  []string   `json:"checks,omitempty"`  // what --check-link links: files that nobody reads
	Actions []ActionID `json:"actions"`           // all that belong to it, in order
	Deps    []string   `json:"deps"`              // labels
	Unbuilt string     `json:"unbuilt,omitempty"` // why nothing of it can be built; such a target has no actions
	Pos     Pos        `json:"pos"`
}

// Graph is a plan: actions in a valid order of execution (every producer before its consumers).
type Graph struct {
	Actions  []*Action      `json:"actions"`
	Targets  []*Target      `json:"targets"`
	Default  []string       `json:"default"` // labels built when none are named
	Pools    map[string]int `json:"pools,omitempty"`
	BuildDir string         `json:"build_dir"` // relative to the root, or absolute

	producer map[string]ActionID
	names    *nameIndex
}
