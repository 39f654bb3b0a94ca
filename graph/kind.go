package graph

import (
	"slices"
	"time"
)

// Kind identifies what an action does. The names appear in progress lines, JSON and graphs. The
// table of kinds below holds everything about a kind except how its actions run; no other code
// switches over kinds for it.
type Kind string

// Kinds of actions, along the flow of a build.
const (
	Generate    Kind = "generate"
	Preprocess  Kind = "preprocess"
	Cudafe      Kind = "cudafe++"
	CICC        Kind = "cicc"
	PTXAS       Kind = "ptxas"
	TileIRAS    Kind = "tileiras"
	DeviceCode  Kind = "device-code"
	LLD         Kind = "lld"
	Fatbinary   Kind = "fatbinary"
	Bundle      Kind = "bundle"
	HostPart    Kind = "host-part"
	Join        Kind = "join"
	Compile     Kind = "compile"
	HostCompile Kind = "host-compile"
	ModuleEmit  Kind = "emit"
	Copy        Kind = "copy"
	Extract     Kind = "extract"
	Embed       Kind = "embed"
	Manifest    Kind = "manifest"
	References  Kind = "references"
	Archive     Kind = "archive"
	Unbundle    Kind = "unbundle"
	Slice       Kind = "slice"
	HostRefs    Kind = "host-refs"
	DeviceLink  Kind = "device-link"
	NVLink      Kind = "nvlink"
	HostLink    Kind = "link"
	SharedLink  Kind = "shared-link"
	Test        Kind = "test"
)

// KindInfo is a row of the table of kinds.
type KindInfo struct {
	Kind Kind
	Does string // what it converts to what
	Lane Lane

	InProcess bool // kbuild does it in its own process

	// The output does not depend on its name: another build tree or profile reuses it.
	Unnamed  bool
	Pool     string // of Graph.Pools; "" is none
	Portable bool   // it reads only what its command names and its tool: it can run remotely

	// A program of the project or the user: the files that its arguments name are inputs, its key
	// has the whole environment that keys can have, and it writes its dependency file under the
	// name that the manifest gives.
	Project bool

	Shared bool // several links may plan the same action

	// Its command writes a single file besides a dependency file, and names no temporary file after
	// it.
	SingleFile bool

	// Of a device compiler: it allocates memory in many small pieces, which huge pages speed up.
	FrontEnd bool

	// Cost and Memory are estimates for an action that never ran on this machine. They order the
	// starts of actions and limit how many run concurrently. PerArch means that the cost is that of
	// one architecture. Both are slightly above measurements with nvcc 11.8, hipcc 5.2 and sources
	// that use CUB. Memory: preprocessing 70 MiB, cicc 70 to 320, cudafe++ 180 to 380, a link
	// without LTO up to 640, one with LTO up to 2.2 GB.
	Cost      time.Duration
	PerArch   bool
	Memory    int64 // bytes at the peak
	LTOMemory int64 // Memory of a link that optimises; 0 is Memory
	Small     bool  // a manifest's memory is for the largest step of a target, and this is not it
}

// Lane is the part of a build that a kind belongs to: a colour in the graph, and a category in the
// trace.
type Lane string

const (
	LaneGenerate Lane = "generate"
	LaneDevice   Lane = "device code"
	LaneHost     Lane = "host code"
	// Code of several architectures, or host and device code, to one file.
	LanePack    Lane = "packing"
	LaneModule  Lane = "modules"
	LaneArchive Lane = "libraries"
	LaneDevLink Lane = "device links"
	LaneLink    Lane = "links"
	LaneTest    Lane = "tests"

	laneSource   Lane = "sources" // of drawn nodes that are no actions
	lanePrebuilt Lane = "prebuilt libraries"
)

// Kinds of nodes in a drawing that are no actions.
const (
	drawSource   Kind = "source"
	drawPrebuilt Kind = "prebuilt"
)

// DeviceLinkPool is the pool of device links. It has no limit of its own: an LTO link takes
// gigabytes, and memory limits their number.
const DeviceLinkPool = "device-link"

const mib, gib = 1 << 20, 1 << 30

// kinds is the table, in the order of a legend.
var kinds = []KindInfo{
	{Kind: drawSource, Does: "a file of the project", Lane: laneSource},
	{Kind: Generate, Does: "runs a command of the project", Lane: LaneGenerate, Project: true, Cost: time.Second, Memory: 512 * mib},
	{Kind: Extract, Does: "the files that a command of the project chose to write, as they were packed", Lane: LaneGenerate, Cost: time.Millisecond, InProcess: true, Unnamed: true},
	{Kind: Preprocess, Does: "source to preprocessed text, for one architecture or for the host", Lane: LaneDevice, Cost: time.Second, Memory: 128 * mib, Small: true},
	{Kind: Cudafe, Does: "preprocessed text to host code without device code", Lane: LaneHost, Cost: time.Second, Memory: 512 * mib, Small: true, FrontEnd: true, Portable: true},
	{Kind: CICC, Does: "preprocessed text to PTX or LTO-IR of one architecture", Lane: LaneDevice, Cost: 2 * time.Second, PerArch: true, Memory: 512 * mib, Unnamed: true, FrontEnd: true, Portable: true},
	{Kind: PTXAS, Does: "PTX to machine code", Lane: LaneDevice, Cost: time.Second, Memory: 512 * mib, Unnamed: true, Portable: true},
	{Kind: TileIRAS, Does: "tile IR to machine code", Lane: LaneDevice, Cost: time.Second, Memory: 512 * mib, Unnamed: true},
	{Kind: DeviceCode, Does: "source or preprocessed text to a code object, LLVM bitcode or PTX of one architecture", Lane: LaneDevice, Cost: 2 * time.Second, PerArch: true, Memory: 512 * mib, Portable: true},
	{Kind: Compile, Does: "source to an object with device code, by one command", Lane: LaneDevice, Cost: 2 * time.Second, PerArch: true, Memory: 512 * mib},
	{Kind: HostPart, Does: "host code that the compiler of device code made, to an object", Lane: LaneHost, Cost: time.Second, Memory: 512 * mib, Small: true},
	{Kind: HostCompile, Does: "C, C++ or assembler to an object", Lane: LaneHost, Cost: time.Second, Memory: 512 * mib, SingleFile: true},
	{Kind: Fatbinary, Shared: true, Does: "device code of all architectures to one fatbin", Lane: LanePack, Cost: time.Second, Memory: 128 * mib, Small: true, Unnamed: true},
	{Kind: Bundle, Does: "code objects of all architectures, or bitcode and a host object, to one file", Lane: LanePack, Cost: time.Second, Memory: 128 * mib, Small: true},
	{Kind: Join, Does: "host object and device code to the object that the compiler would make", Lane: LanePack, Cost: time.Millisecond, InProcess: true},
	{Kind: ModuleEmit, Does: "source to PTX, a cubin, a fatbin or LTO-IR, by one command", Lane: LaneModule, Cost: 2 * time.Second, PerArch: true, Memory: 512 * mib},
	{Kind: Copy, Does: "copies a file to where it is asked for", Lane: LaneModule, Cost: time.Millisecond, InProcess: true, Unnamed: true},
	{Kind: Manifest, Does: "says what the artifacts of a module are, as JSON", Lane: LaneModule, Cost: time.Millisecond, InProcess: true},
	{Kind: Embed, Does: "writes the C source and the header of an embedded module", Lane: LaneModule, Cost: time.Millisecond, InProcess: true},
	{Kind: References, Shared: true, Does: "PTX that refers to the functions that LTO-IR defines, for --check-link", Lane: LaneModule, Cost: time.Millisecond, InProcess: true},
	{Kind: Archive, Does: "objects to a static library", Lane: LaneArchive, Cost: time.Second, Memory: 128 * mib, Small: true, SingleFile: true},
	{Kind: drawPrebuilt, Does: "a library that was built elsewhere", Lane: lanePrebuilt},
	{Kind: Unbundle, Shared: true, Does: "what an archive of AMD code holds for one architecture", Lane: LaneDevLink, Cost: time.Second, Memory: 128 * mib, Small: true},
	{Kind: Slice, Shared: true, Does: "what a device link of one architecture reads of an object or archive", Lane: LaneDevLink, Cost: time.Millisecond, InProcess: true},
	{Kind: HostRefs, Does: "which kernels and variables of a device link host code refers to", Lane: LaneDevLink, Cost: time.Millisecond, InProcess: true},
	{Kind: DeviceLink, Does: "objects and archives to an object with linked device code", Lane: LaneDevLink, Pool: DeviceLinkPool, Cost: 4 * time.Second, PerArch: true, Memory: gib, LTOMemory: 3 * gib},
	{Kind: NVLink, Does: "slices to linked device code of one architecture", Lane: LaneDevLink, Pool: DeviceLinkPool, Cost: 4 * time.Second, PerArch: true, Memory: gib, LTOMemory: 3 * gib, Unnamed: true, Portable: true},
	{Kind: LLD, Does: "LLVM bitcode to a linked code object of one architecture", Lane: LaneDevLink, Pool: DeviceLinkPool, Cost: 4 * time.Second, PerArch: true, Memory: gib, LTOMemory: 3 * gib, Portable: true},
	{Kind: HostLink, Does: "links a program", Lane: LaneLink, Cost: time.Second, Memory: 512 * mib},
	{Kind: SharedLink, Does: "links a shared library", Lane: LaneLink, Cost: time.Second, Memory: 512 * mib},
	{Kind: Test, Does: "runs a program, and keeps what it says", Lane: LaneTest, Project: true, Cost: time.Second, Memory: 512 * mib},
}

// Kinds returns the rows of the kinds of actions, along the flow of a build.
func Kinds() []KindInfo {
	return slices.DeleteFunc(slices.Clone(kinds), func(k KindInfo) bool { return k.Lane == laneSource || k.Lane == lanePrebuilt })
}

var kindByName = func() map[Kind]*KindInfo {
	m := make(map[Kind]*KindInfo, len(kinds))
	for i := range kinds {
		m[kinds[i].Kind] = &kinds[i]
	}
	return m
}()

// optimises reports whether the kind is a link that takes a multiple of the memory if it optimises
// the whole program.
func (k *KindInfo) optimises() bool { return k.LTOMemory > k.Memory }

// Info returns the row of a kind, or an empty one if it is not in the table.
func (k Kind) Info() *KindInfo {
	if info := kindByName[k]; info != nil {
		return info
	}
	return &KindInfo{Kind: k}
}

// InProcess reports whether kbuild does it in its own process.
func (k Kind) InProcess() bool { return k.Info().InProcess }
