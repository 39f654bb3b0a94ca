package manifest

import (
	"io/fs"
	"slices"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Project is a manifest after evaluation: plain data, no expressions left. Every target has the
// values of `defaults` filled in and every reference replaced by a label such as "library.solver".
type Project struct {
	Root       string                   // absolute folder of the manifest
	File       string                   // manifest, relative to Root
	Files      []string                 // all that was read (kernels.hcl, kernels.local.hcl, kernels.lock) and files of options, relative to Root or absolute
	Observed   []cache.Observation      // every path that was looked at, in order: with the same there and the same options Load comes to the same project
	Listed     map[string][]fs.DirEntry `json:"-"` // what folders among Observed held
	BuildDir   string                   // of this run: relative to Root and slash-separated when inside, else absolute
	Profiles   []string                 // their names
	Variables  []Variable               // in order of declaration, with the value in force
	Toolchains map[string]Toolchain     // "cuda", "hip"
	Archs      []gencode.Code           // of --arch
	Cache      Cache
	Package    *Package  // nil if there is no such block
	Targets    []*Target // in order of declaration; matrix instances in order of the matrix
	Groups     []Group
	Tests      []Test

	// Chosen are the generate blocks whose commands choose the names of their files. If Unsettled
	// is not empty, it is those that must run before there is more in Targets than what they need:
	// their files are not known.
	Chosen    []string
	Unsettled []string

	sources map[string][]byte // text of Files, for diagnostics
	lines   map[string]*lines // of them
}

// Text is what was read of one of Files.
func (p *Project) Text(file string) []byte { return p.sources[file] }

// Pos is a place in a manifest. Line and Column count from 1; File is relative to Project.Root.
type Pos struct {
	File         string
	Line, Column int
}

// Variable is an input variable after all overrides.
type Variable struct {
	Name, Type, Description string
	Value                   string // JSON
	Source                  string // "default", "profile dev", "kernels.local.hcl", "environment KBUILD_VAR_x", "--var"
}

// Toolchain is a toolchain block: which compiler to use and what it must be.
type Toolchain struct {
	Compiler     string // name or path; "" is the default of the kind
	HostCompiler string // attribute host_compiler, name or path; "" lets the probe choose
	Version      string // constraint such as ">= 11.2, < 13"; "" is any. With Pinned it is one version, "13.5.0"
	Path         string // folder of the toolkit, relative to Root or absolute; "" lets the probe look for it
	Pinned       bool   // from = "pypi": the toolkit is that of LockFile
	LockFile     string // relative to Root; Project.Text has what is in it, nothing if it is not there
	Parts        []string

	Pos     Pos            // of the block
	AttrPos map[string]Pos // of its attributes
}

// At is where an attribute is written, or else the block.
func (t Toolchain) At(attribute string) Pos {
	if p, ok := t.AttrPos[attribute]; ok {
		return p
	}
	return t.Pos
}

// Cache is the cache block: the cache on another machine that a project names for all who build it.
type Cache struct {
	Remote   string // address; "" is none
	ReadOnly bool   // nothing is sent there
}

// Package is the package block: what kbuild install calls what it installs.
type Package struct {
	Name, Version, Description string
	Pos                        Pos
}

// Header is a header that kbuild install installs.
type Header struct {
	Path      string // as Source.Path
	Generated string // label of the generate block that makes it, "" for a file of the project
	As        string // where it goes below the folder of headers
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

// Gencode is what a target ships.
type Gencode struct {
	Code     []gencode.Code // in the order written, native/all/all-major still unexpanded (Code.Kind == gencode.Set)
	ArchList []gencode.Code // attribute arch_list, reserved
}

// Flags are extra options by tool.
type Flags struct {
	NVCC, CICC, PTXAS, NVLink []string
	HIP, LLD                  []string
	Clang                     []string
	Host, Link                []string

	At map[string]Pos // where each flag is written, if it is written out
}

// Define is one -D. A nil Value is -DNAME.
type Define struct {
	Name  string
	Value *string
}

// Source is one source file of a target with everything that decides how it is compiled:
// the target's values with its partition's on top.
type Source struct {
	Path      string         // slash-separated, relative to Root (or absolute)
	Generated string         // label of the generate block that makes it, "" for a file of the project
	Language  string         // "c", "c++", "cuda", "hip", "asm"; from `language` or the ending
	Partition string         // name of the partition, ""
	Mode      string         // "whole", "rdc", "lto"; "" for C and C++
	Std       string         // of its language, "c++17"; "" is the compiler's default
	Opt       string         // as Target.Opt
	Defines   []Define       // sorted by name
	Includes  []string       // of its partition, relative to Root: they are searched before those of the target
	Code      []gencode.Code // of its partition, as Gencode.Code; nil: that of the target
	Flags     *Flags         // of all sources of its partition
	Memory    int64          // bytes, 0 unknown
	AttrPos   map[string]Pos // of each attribute that its partition writes, nil without a partition
	Pos       Pos            // of the sources attribute's element, or of the attribute
}

// Target is an evaluated library, executable, module, prebuilt or generate block.
type Target struct {
	Kind    Kind
	Name    string         // "solver"; "gemm:dtype=f16,tile=64" for an instance of a matrix
	Base    string         // name of the block: "gemm"
	Pos     Pos            // of the block header
	AttrPos map[string]Pos // of each attribute that was written, by name, also "defaults.NAME" for those filled from defaults
	Deps    []Dep
	Labels  map[string]string

	// library, executable, module
	Sources                      []Source
	Gencode                      Gencode
	Mode                         string   // of the target: "whole", "rdc", "lto"
	OutputName                   string   // of the file, without lib and ending
	Std                          string   // "c++17" for C++ sources; "" is the compiler's default
	DeviceStd                    string   // of CUDA and HIP sources
	Includes                     []string // relative to Root; targets that depend on this one search them too
	PrivateIncludes              []string // relative to Root; only sources of the target search them
	Libs                         []string // -l
	LibDirs                      []string // -L
	CudaRT                       string   // "static", "shared", "none"
	Opt                          string   // "0".."3", "s", "fast"; default "2"... see docs; "" is the compiler's default
	Debug, DeviceDebug, LineInfo bool
	FastMath                     bool
	FTZ, PrecDiv, PrecSqrt, FMAD *bool
	LTOFloats                    *bool // nil: true, and said
	MaxRegisters                 int   // 0: not set
	Flags                        Flags
	Memory                       int64
	StripUnused                  bool
	HostLTO                      string // of C and C++ sources: "thin", "full"; "" is none
	Split                        *bool  // attribute split: false keeps nvcc in one piece; nil: not set

	// library, executable
	Each string // the key of this instance of for_each, "" without

	// library
	Defines    []Define // of one without sources: for its users, whose sources have them already
	Shared     bool
	DeviceLink bool   // device_link = true: close a static library early
	AlwaysLink bool   // links take all objects of the archive; of a prebuilt, too
	SOVersion  string // of a shared one, "" is none

	// library, module
	PublicHeaders []Header

	// prebuilt
	Archive    string // relative to Root or absolute
	SharedFile string
	LTO        string // "required", "none", or "" (default: required when a consumer is lto)

	// generate
	Command []string // argv; paths of outputs already in the build tree
	Inputs  []string
	Depfile string   // relative, like Outputs; "" if the command writes none
	Outputs []string // relative; the file is BuildDir/gen/NAME/OUTPUT: as declared, or those that match Patterns

	// Patterns are its outputs where the command chooses the names, see graph.Collect; else nil.
	// Outputs are the files of its last run, none if it is one of Project.Unsettled.
	Patterns []string

	// module
	LateBound []string      // functions that its LTO-IR calls and the program brings when it links at run time
	Emit      []string      // "ptx", "cubin", "fatbin", "ltoir"; default ["fatbin"]
	Matrix    []MatrixValue // the values of this instance, in the order of names, sorted
	Embed     *Embed
}

// MatrixValue is one axis of a matrix instance.
type MatrixValue struct{ Name, Value string }

// Dep is a reference to another target.
type Dep struct {
	Label string // "library.solver"; a matrix module refers to all its instances
	Pos   Pos
}

// Embed asks for the module's artifacts as an object file and a C header.
type Embed struct {
	Symbol string
	Pos    Pos
}

// Group is a named list of targets.
type Group struct {
	Name    string
	Targets []Dep
	Pos     Pos
}

// Test is a program that `kbuild test` runs.
type Test struct {
	Name       string
	Executable string // label
	Args       []string
	Data       []string // files, relative to Root or absolute
	Env        []string // NAME=VALUE, sorted
	Deps       []Dep    // targets whose files it reads
	NeedsGPU   bool
	EachTime   bool          // it runs though nothing has changed since it passed
	Timeout    time.Duration // 0 is none
	Memory     int64         // bytes, 0 unknown
	Pos        Pos
}

// Label is the name a target has in references, messages and on the command line.
func (t *Target) Label() string { return string(t.Kind) + "." + t.Name }

// HIPForNVIDIA reports HIP sources in a target whose code is NVIDIA's: they are CUDA, by HIP's
// headers.
func (t *Target) HIPForNVIDIA() bool {
	code := t.Gencode.Code
	isHIP := func(s Source) bool { return s.Language == "hip" }
	return len(code) > 0 && !slices.ContainsFunc(code, isGFX) && slices.ContainsFunc(t.Sources, isHIP)
}
