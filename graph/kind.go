package graph

import (
	"slices"
	"time"
)

// Kind identifies what an action does. The names appear in progress lines, JSON and graphs. The
// table of kinds below holds everything about a kind except how its actions run. Other packages
// read its columns: they do not compare kinds.
type Kind string

// Kinds of actions, along the flow of a build.
const (
	Generate    Kind = "generate"    // runs a command of the project
	Preprocess  Kind = "preprocess"  // source to text, for one architecture or for the host
	Cudafe      Kind = "cudafe++"    // text to host code without device code
	CICC        Kind = "cicc"        // text to PTX or LTO-IR of one architecture
	PTXAS       Kind = "ptxas"       // PTX to machine code
	TileIRAS    Kind = "tileiras"    // tile IR to machine code
	DeviceCode  Kind = "device-code" // source or text to a code object, bitcode or PTX of one architecture
	LLD         Kind = "lld"         // bitcode to a linked code object of one architecture
	Fatbinary   Kind = "fatbinary"   // device code of all architectures to one fatbin
	Bundle      Kind = "bundle"      // code objects of all architectures, or bitcode and a host object, to one file
	HostPart    Kind = "host-part"   // host code of a source with device code, to an object
	Join        Kind = "join"        // host object and device code to the object that the compiler would write
	Compile     Kind = "compile"     // source to an object with device code, by one command
	HostCompile Kind = "host-compile"
	ModuleEmit  Kind = "emit" // source to PTX, a cubin, a fatbin or LTO-IR, by one command
	Copy        Kind = "copy"
	Extract     Kind = "extract"     // the packed dynamic outputs of a command to files
	Embed       Kind = "embed"       // a module to the C source and the header that embed it
	Manifest    Kind = "manifest"    // describes the artifacts of a module as JSON
	References  Kind = "references"  // PTX that refers to the functions that LTO-IR defines, for --check-link
	Archive     Kind = "archive"     // objects to a static library
	Unbundle    Kind = "unbundle"    // an archive to its code for one architecture
	Slice       Kind = "slice"       // an object or archive to what a device link of one architecture reads
	HostRefs    Kind = "host-refs"   // lists the device symbols of a device link that host code refers to
	DeviceLink  Kind = "device-link" // objects and archives to an object with linked device code
	NVLink      Kind = "nvlink"      // slices to linked device code of one architecture
	HostLink    Kind = "link"        // links a program
	SharedLink  Kind = "shared-link"
	Test        Kind = "test" // runs a program, and keeps its output
)

// KindInfo is a row of the table of kinds.
type KindInfo struct {
	Kind Kind
	Lane Lane

	InProcess bool // kbuild does it in its own process

	// A program of the project or the user: the files that its arguments name are inputs, its key
	// has the whole environment that keys can have, and it writes its dependency file under the
	// name that the manifest gives.
	Project bool

	// A Project command whose program is an input too, found as a shell finds it. Its outputs count
	// as sources: only their content tells what they hold.
	Generates bool

	Reads, Writes Form   // of a compiler command; "" for other files
	Linker        Linker // that searches for the libraries in the command; "" if it is no link
	Makes         Product
	Cuts          bool // its output is what a device link reads of its first input

	// The output does not depend on its name: another build tree or profile reuses it.
	Unnamed  bool
	Pool     string // of Graph.Pools; "" for no pool
	Portable bool   // it reads only what its command names and its tool: it can run remotely
	Shared   bool   // several links may plan the same action

	// Its command writes a single file besides a dependency file, and names no temporary file after
	// it.
	SingleFile bool

	NamesInside bool // arguments have the names of its files in them: "-input=a.o"

	// Of a device compiler: it allocates memory in many small pieces, which huge pages speed up.
	FrontEnd bool

	// Cost and Memory are estimates for an action that never ran on this machine. They order the
	// starts of actions and limit how many run concurrently. PerArch means that the cost is that of
	// one architecture. Both are slightly above measurements with nvcc 11.8, hipcc 5.2 and sources
	// that use CUB. Memory: preprocessing 70 MiB, cicc 70 to 320, cudafe++ 180 to 380, a link
	// without LTO up to 640, one with LTO up to 2.2 GB.
	Cost      time.Duration // where the table has none: a second, and nearly nothing in process
	PerArch   bool
	Memory    int64 // bytes at the peak; where the table has none: 512 MiB, and none in process
	LTOMemory int64 // Memory of a link that optimises; 0 is Memory

	// The memory that a manifest gives a target is for the largest step, and this is not it.
	IgnoresManifestMemory bool
}

// Form is a form of code between a source and an object.
type Form string

const (
	FormSource Form = "source"    // of the project, with its headers
	FormText   Form = "text"      // preprocessed
	FormHost   Form = "host code" // without device code
	FormObject Form = "object"    // code of the host or of one architecture
)

// Linker identifies how a link searches for libraries.
type Linker string

const (
	LinkerHost   Linker = "ld"
	LinkerNVLink Linker = "nvlink"
	LinkerLLD    Linker = "lld"    // of device code
	LinkerDriver Linker = "driver" // a compiler that starts the linker
)

// Product identifies what targets are for their users.
type Product string

const (
	Program       Product = "program"
	StaticLibrary Product = "static library"
	SharedLibrary Product = "shared library"
)

// Lane groups kinds: it is a colour in the graph, and a category in the trace. Nothing is decided by
// it.
type Lane string

const (
	laneGenerate Lane = "generate"
	laneDevice   Lane = "device code"
	laneHost     Lane = "host code"
	// Code of several architectures, or host and device code, to one file.
	lanePack    Lane = "packing"
	laneModule  Lane = "modules"
	laneArchive Lane = "libraries"
	laneDevLink Lane = "device links"
	laneLink    Lane = "links"
	laneTest    Lane = "tests"

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

const (
	mib, gib = 1 << 20, 1 << 30

	twice, link = 2 * time.Second, 4 * time.Second
	small       = 128 * mib
)

// kinds is the table, in the order of a legend.
var kinds = withEstimates([]KindInfo{
	{Kind: drawSource, Lane: laneSource},
	{Kind: Generate, Lane: laneGenerate, Project: true, Generates: true},
	{Kind: Extract, Lane: laneGenerate, InProcess: true, Unnamed: true},
	{Kind: Preprocess, Lane: laneDevice, Reads: FormSource, Writes: FormText, Memory: small,
		IgnoresManifestMemory: true},
	{Kind: Cudafe, Lane: laneHost, Reads: FormText, Writes: FormHost, IgnoresManifestMemory: true,
		FrontEnd: true, Portable: true},
	{Kind: CICC, Lane: laneDevice, Reads: FormText, Cost: twice, PerArch: true, Unnamed: true,
		FrontEnd: true, Portable: true},
	{Kind: PTXAS, Lane: laneDevice, Unnamed: true, Portable: true},
	{Kind: TileIRAS, Lane: laneDevice, Unnamed: true},
	{Kind: DeviceCode, Lane: laneDevice, Reads: FormText, Writes: FormObject, Cost: twice,
		PerArch: true, Portable: true},
	{Kind: Compile, Lane: laneDevice, Reads: FormSource, Writes: FormObject, Cost: twice, PerArch: true},
	{Kind: HostPart, Lane: laneHost, Reads: FormHost, Writes: FormObject, IgnoresManifestMemory: true},
	{Kind: HostCompile, Lane: laneHost, Reads: FormSource, Writes: FormObject, SingleFile: true},
	{Kind: Fatbinary, Lane: lanePack, Shared: true, Memory: small, IgnoresManifestMemory: true,
		Unnamed: true},
	{Kind: Bundle, Lane: lanePack, Memory: small, IgnoresManifestMemory: true, NamesInside: true},
	{Kind: Join, Lane: lanePack, InProcess: true},
	{Kind: ModuleEmit, Lane: laneModule, Reads: FormSource, Cost: twice, PerArch: true},
	{Kind: Copy, Lane: laneModule, InProcess: true, Unnamed: true},
	{Kind: Manifest, Lane: laneModule, InProcess: true},
	{Kind: Embed, Lane: laneModule, InProcess: true},
	{Kind: References, Lane: laneModule, Shared: true, InProcess: true},
	{Kind: Archive, Lane: laneArchive, Makes: StaticLibrary, Memory: small, SingleFile: true,
		IgnoresManifestMemory: true},
	{Kind: drawPrebuilt, Lane: lanePrebuilt},
	{Kind: Unbundle, Lane: laneDevLink, Cuts: true, Shared: true, Memory: small,
		IgnoresManifestMemory: true},
	{Kind: Slice, Lane: laneDevLink, Cuts: true, Shared: true, InProcess: true},
	{Kind: HostRefs, Lane: laneDevLink, InProcess: true},
	{Kind: DeviceLink, Lane: laneDevLink, Linker: LinkerDriver, Pool: DeviceLinkPool, Cost: link,
		PerArch: true, Memory: gib, LTOMemory: 3 * gib},
	{Kind: NVLink, Lane: laneDevLink, Linker: LinkerNVLink, Pool: DeviceLinkPool, Cost: link,
		PerArch: true, Memory: gib, LTOMemory: 3 * gib, Unnamed: true, Portable: true},
	{Kind: LLD, Lane: laneDevLink, Linker: LinkerLLD, Pool: DeviceLinkPool, Cost: link, PerArch: true,
		Memory: gib, LTOMemory: 3 * gib, Portable: true},
	{Kind: HostLink, Lane: laneLink, Linker: LinkerHost, Makes: Program},
	{Kind: SharedLink, Lane: laneLink, Linker: LinkerHost, Makes: SharedLibrary},
	{Kind: Test, Lane: laneTest, Project: true},
})

func withEstimates(rows []KindInfo) []KindInfo {
	for i := range rows {
		k := &rows[i]
		switch {
		case k.InProcess:
			k.Cost = time.Millisecond
		case k.Cost == 0:
			k.Cost = time.Second
		}
		if k.Memory == 0 && !k.InProcess {
			k.Memory = 512 * mib
		}
	}
	return rows
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

// LinksHost reports whether it is a link of host code, LinksDevice whether it is one of device code.
func (k *KindInfo) LinksHost() bool   { return k.Linker == LinkerHost }
func (k *KindInfo) LinksDevice() bool { return k.Linker != "" && k.Linker != LinkerHost }

// CompilesSource reports whether its command compiles a source, in one step.
func (k *KindInfo) CompilesSource() bool { return k.Reads == FormSource && k.Writes != FormText }

// Info returns the row of a kind, or an empty one if it is not in the table.
func (k Kind) Info() *KindInfo {
	if info := kindByName[k]; info != nil {
		return info
	}
	return &KindInfo{Kind: k}
}

// InProcess reports whether kbuild does it in its own process.
func (k Kind) InProcess() bool { return k.Info().InProcess }
