package manifest

import (
	"io/fs"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Project is an evaluated manifest: plain data without expressions. Values of `defaults` are filled
// in for every target, and every reference is a label such as "library.solver".
type Project struct {
	Root string // absolute folder of the manifest
	File string // manifest, relative to Root
	// All files that were read (kernels.hcl, kernels.local.hcl, kernels.lock, option files),
	// relative to Root or absolute.
	Files []string
	// Every path that Load checked, in order: if none has changed, Load with the same options
	// returns the same project.
	Observed []cache.Observation
	Listed   map[string][]fs.DirEntry `json:"-"` // contents of the folders in Observed
	// Relative to Root and slash-separated if inside, else absolute.
	BuildDir   string
	Profiles   []string             // names of all profiles
	Variables  []Variable           // in order of declaration, with the effective value
	Toolchains map[string]Toolchain // "cuda", "hip"
	Archs      []gencode.Code       // from --arch
	Cache      Cache
	Package    *Package  // nil if there is no such block
	Targets    []*Target // in order of declaration; matrix instances in order of the matrix
	Groups     []Group
	Tests      []Test

	// Dynamic are the labels of the generate blocks with dynamic outputs. Pending are those whose
	// outputs are not known yet and that can run. If it is not empty, Targets contains only what
	// they need, and Load must be called again after they have run.
	Dynamic []string
	Pending []string

	sources map[string][]byte // text of Files, for diagnostics
}

// Text returns the content of one of Files.
func (p *Project) Text(file string) []byte { return p.sources[file] }

// Pos is a position in a manifest. Line and Column count from 1; File is relative to Project.Root.
type Pos struct {
	File         string
	Line, Column int
}

// Variable is an input variable after all overrides.
type Variable struct {
	Name, Type  string
	Description string `attr:"description"`
	Value       string // JSON
	// "default", "profile dev", "kernels.local.hcl", "environment KBUILD_VAR_x", "--var".
	Source string
}

// Toolchain is a toolchain block: the compiler to use and the version that it must have.
type Toolchain struct {
	Compiler     string `attr:"compiler"`      // name or path; "" is the default of the kind
	HostCompiler string `attr:"host_compiler"` // name or path; "" lets the probe choose
	// Constraint such as ">= 11.2, < 13"; "" allows any. If Pinned, one version such as "13.5.0".
	Version string `attr:"version"`
	// Folder of the toolkit, relative to Root or absolute; "" lets the probe search.
	Path   string `attr:"path"`
	Pinned bool   // from = "pypi": LockFile determines the toolkit
	// Relative to Root; Project.Text returns its content, nothing if it does not exist.
	LockFile string
	Parts    []string `attr:"parts"`

	Pos     Pos            // of the block
	AttrPos map[string]Pos // of its attributes
}

// At returns the position of an attribute, or else that of the block.
func (t Toolchain) At(attribute string) Pos {
	if p, ok := t.AttrPos[attribute]; ok {
		return p
	}
	return t.Pos
}

// Cache is the cache block: the remote cache of a project.
type Cache struct {
	Remote   string `attr:"remote"`    // address; "" means none
	ReadOnly bool   `attr:"read_only"` // send nothing to it
}

// Package is the package block: the name and version for kbuild install.
type Package struct {
	Name        string `attr:"name"`
	Version     string `attr:"version"`
	Description string `attr:"description"`
	Pos         Pos
}

// Header is a header that kbuild install installs.
type Header struct {
	Path      string // as Source.Path
	Generated string // label of its generate block, "" for a source file
	As        string // path below the folder of installed headers
	Pos       Pos
}

// Kind of a target.
type Kind string

const (
	Library    Kind = "library"
	Executable Kind = "executable"
	Module     Kind = "module"
	Prebuilt   Kind = "prebuilt"
	Generate   Kind = "generate"
)

// Gencode is the code that a target ships.
type Gencode struct {
	// In written order; native, all and all-major are not expanded (Code.Kind == gencode.Set).
	Code     []gencode.Code `attr:"code"`
	ArchList []gencode.Code `attr:"arch_list"`
}

// Language returns the language of the code; "" if there is none.
func (g Gencode) Language() string {
	if len(g.Code) == 0 {
		return ""
	}
	return g.Code[0].Language()
}

// Flags are extra options for each tool.
type Flags struct {
	NVCC, CICC, PTXAS, NVLink []string
	HIP, LLD                  []string
	Clang                     []string
	Host, Link                []string

	At map[string]Pos // position of each flag that is written literally
}

// Define is one -D option. A nil Value means -DNAME.
type Define struct {
	Name  string
	Value *string
}

// Source is a source file of a target with all settings for compiling it. Those with a tag are of
// its partition, or of the target if the partition does not set the attribute.
type Source struct {
	Path      string // slash-separated, relative to Root (or absolute)
	Generated string // label of its generate block, "" for a file in the source tree
	// "c", "c++", "cuda", "hip", "asm"; from `language` or the file extension.
	Language  string   `attr:"language"`
	Partition string   // name of the partition; "" without one
	Mode      string   `attr:"mode"` // "whole", "rdc", "lto"; "" for C and C++
	Std       string   // standard of its language, "c++17"; "" is the compiler's default
	Opt       string   `attr:"opt"` // as Target.Opt
	Defines   []Define // sorted by name
	// Include folders of its partition, relative to Root; searched before those of the target.
	Includes []string
	Code     []gencode.Code // of its partition, as Gencode.Code; nil means that of the target
	Flags    *Flags         // shared by all sources of its partition
	Memory   int64          `attr:"memory"` // bytes; 0 if unknown
	AttrPos  map[string]Pos // of each attribute that its partition sets; nil without a partition
	Pos      Pos            // of the element in the sources attribute, or of the attribute
}

// IsDevice reports whether s is a source with device code.
func (s Source) IsDevice() bool { return gencode.Languages[s.Language] != "" }

// Target is an evaluated library, executable, module, prebuilt or generate block.
type Target struct {
	Kind Kind
	Name string // "solver"; "gemm:dtype=f16,tile=64" for an instance of a matrix
	Base string // name of the block: "gemm"
	Pos  Pos    // of the block header
	// Position of each attribute that is set, by name; "defaults.NAME" for an inherited one.
	AttrPos map[string]Pos
	Deps    []Dep             `attr:"deps"`
	Labels  map[string]string `attr:"labels"`

	// library, executable, module
	Sources    []Source
	Gencode    Gencode `attr:"gencode"`
	Mode       string  `attr:"mode"`        // of the target: "whole", "rdc", "lto"
	OutputName string  `attr:"output_name"` // file name without the prefix lib and the extension
	Std        string  // "c++17" for C++ sources; "" is the compiler's default
	DeviceStd  string  // standard of CUDA and HIP sources
	// Relative to Root. Dependents search Includes too, and only the target's own sources search
	// PrivateIncludes.
	Includes        []string `attr:"includes"`
	PrivateIncludes []string `attr:"private_includes"`
	Libs            []string `attr:"libs"`     // -l
	LibDirs         []string `attr:"lib_dirs"` // -L
	CudaRT          string   `attr:"cudart"`   // "static", "shared", "none"
	// "0".."3", "s", "fast"; default "2"... see docs; "" is the compiler's default.
	Opt          string `attr:"opt"`
	Debug        bool   `attr:"debug"`
	DeviceDebug  bool   `attr:"device_debug"`
	LineInfo     bool   `attr:"lineinfo"`
	FastMath     bool   `attr:"fast_math"`
	FTZ          *bool  `attr:"ftz"`
	PrecDiv      *bool  `attr:"prec_div"`
	PrecSqrt     *bool  `attr:"prec_sqrt"`
	FMAD         *bool  `attr:"fmad"`
	LTOFloats    *bool  `attr:"lto_floats"`    // nil: true, with a message
	MaxRegisters int    `attr:"max_registers"` // 0 if not set
	Flags        Flags  `attr:"flags"`
	Memory       int64  `attr:"memory"`
	StripUnused  bool   `attr:"strip_unused"`
	HostLTO      string `attr:"host_lto"` // for C and C++ sources: "thin", "full"; "" means none
	Split        *bool  `attr:"split"`    // false runs nvcc unsplit; nil if not set

	// library, executable
	Each string // key of this instance of for_each; "" without for_each

	// library
	// Defines of a header-only library, for its dependents; sources have theirs in Source.
	Defines    []Define
	Shared     bool
	DeviceLink bool   `attr:"device_link"` // close a static library early
	AlwaysLink bool   `attr:"always_link"` // links take all objects of the archive, or prebuilt
	SOVersion  string `attr:"soversion"`   // of a shared library; "" means none

	// library, module
	PublicHeaders []Header

	// prebuilt
	Archive    string `attr:"archive"` // relative to Root or absolute
	SharedFile string `attr:"shared"`
	LTO        string `attr:"lto"` // "required", "none", or "": required when a consumer is lto

	// generate
	Command []string `attr:"command"` // argv; output paths are in the build tree
	Inputs  []string `attr:"inputs"`
	Depfile string   `attr:"depfile"` // relative, like Outputs; "" if the command writes none
	Outputs []string // relative to BuildDir/gen/NAME: as declared, or the files that match Patterns

	// Patterns are the declared outputs if some are dynamic, see fileset; otherwise nil.
	// Outputs are then the files of the last run; empty if the block is one of Project.Pending.
	Patterns []string

	// module
	// Functions that its LTO-IR calls and that the program provides when it links at run time.
	LateBound []string      `attr:"late_bound"`
	Emit      []string      `attr:"emit"` // "ptx", "cubin", "fatbin", "ltoir"; default ["fatbin"]
	Matrix    []MatrixValue // the values of this instance, sorted by name
	Embed     *Embed
}

// MatrixValue is one axis of a matrix instance.
type MatrixValue struct{ Name, Value string }

// Dep is a reference to another target.
type Dep struct {
	Label string // "library.solver"; for a module with a matrix, all its instances
	Pos   Pos
}

// Embed requests the module's artifacts as an object file and a C header.
type Embed struct {
	Symbol string `attr:"symbol"`
	Pos    Pos
}

// Group is a named list of targets.
type Group struct {
	Name    string
	Targets []Dep `attr:"targets"`
	Pos     Pos
}

// Test is a program that `kbuild test` runs.
type Test struct {
	Name       string
	Executable string        // label
	Args       []string      `attr:"args"`
	Data       []string      `attr:"data"` // files, relative to Root or absolute
	Env        []string      // NAME=VALUE, sorted
	Deps       []Dep         `attr:"deps"` // targets whose files it reads
	NeedsGPU   bool          `attr:"needs_gpu"`
	EachTime   bool          // run even if nothing has changed since it passed
	Timeout    time.Duration `attr:"timeout"` // 0 means no limit
	Memory     int64         `attr:"memory"`  // bytes; 0 if unknown
	Pos        Pos
}

// Label returns the name of a target in references, messages and on the command line.
func (t *Target) Label() string { return string(t.Kind) + "." + t.Name }
