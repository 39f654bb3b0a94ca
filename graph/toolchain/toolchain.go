// Package toolchain holds the interface between the planner and the toolchains, which compile and
// link device code, and what toolchains share. Each toolchain has a package of its own below this
// one. None of these packages knows another, none runs a program, and the planner knows none.
package toolchain

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// The planner knows targets, their dependencies, and the files and codes that these bring to a
// link. It does not know how nvcc, hipcc or clang compile and link device code: for that it has
// values of the interface Toolchain, from package vendors.
//
// A toolchain gets requests, structs with all that it needs, and returns values: the actions of its
// passes in order, the problems that it found, and what its next request needs to know, such as the
// files of an object that a device link reads. It calls nothing of the planner, and looks nothing
// up: what is installed is a field of the toolchain, and the output of a driver's dry run is among
// the Answers of the Build. If an answer is missing, the toolchain adds a Question and plans the
// command as one action. The caller has the driver queried, and plans again.
//
// So a plan is a function of the project and the facts, and the planner tells each story once: how
// the sources of a target are compiled, how a program is linked, how a module is described. What
// differs is in the results: which objects a host link has, which program links them, and with
// which options.
//
// To add a toolchain, write a package with a type that finds itself through find.Host and has the
// methods of Toolchain; give package vendors a field and a line for it, and gencode the names of its
// language and its code. Dry runs are recorded in its testdata and parsed by it alone (see
// dryruntest). Plans of it are goldens in graph/plan.
//
// Exceptions: clang for CUDA gets the toolchain of nvcc as a field, since nvlink links prebuilt code
// of nvcc also beside code that clang compiled. What the two know of a CUDA toolkit is in package
// cuda, and what hip and clang for CUDA know of clang in package clang.

// Toolchain compiles and links device code. Its requests are of one plan.
type Toolchain interface {
	// Info describes what is installed.
	Info() Info

	// Compile plans the compile of one source with device code, or the object around prebuilt
	// device code.
	Compile(CompileRequest) Compiled

	// Link plans the device link of a target, and returns how its host link differs from one
	// without device code.
	Link(LinkRequest) Linked

	// Module plans the artifacts of a module.
	Module(ModuleRequest) Module

	// Check plans links of LTO-IR that only test whether it links, as at run time.
	Check(CheckRequest) Checked

	// Expand resolves a code or a word of a gencode, and checks it.
	Expand(ExpandRequest) Expanded

	// Reads reports which relocatable code of a prebuilt member a link reads: LTO-IR, or other code.
	Reads(Member) (lto, rdc bool)
}

// Exporter is a Toolchain whose LTO-IR other build tools can link.
type Exporter interface {
	// ExportLTO returns the options of a device link for the LTO-IR of t, whichever toolkit compiled
	// it, and the compiler's options that it was compiled with; nothing where the defaults suffice.
	ExportLTO(t *Target) (link string, compile []string)
}

// Build holds what the requests of one plan have in common.
type Build struct {
	Layout
	Project      *manifest.Project
	NoSplit      bool // run compiler drivers unsplit
	RequireSplit bool // reject commands that stay unsplit for another reason than the user's choice
	Answers      Answers
	Reported     map[string]bool // problems that concern the whole plan, and are reported once
}

// Problems that are reported once: with the CUDA toolkit, and with the compiler for AMD's GPUs.
const NoToolkit, NoCompiler = "toolkit", "compiler"

// Once reports whether a problem is not reported yet.
func (b *Build) Once(problem string) bool {
	first := !b.Reported[problem]
	if b.Reported == nil {
		b.Reported = map[string]bool{}
	}
	b.Reported[problem] = true
	return first
}

// Local returns list with paths of the project made relative to it. The result is never nil.
func (b *Build) Local(list []string) []string {
	out := []string{}
	for _, s := range list {
		out = append(out, strings.ReplaceAll(s, b.Project.Root+"/", ""))
	}
	return out
}

// Info describes an installed toolchain.
type Info struct {
	Language string // of its sources, and its name in manifests: "cuda"

	Code    string // names its device code in messages: "CUDA code"
	None    string // "no HIP compiler was found"
	Missing string // why it is not installed; "" if it is
	Version string
	Drivers []Driver
	Emits   []string // kinds of files of modules for its GPUs

	Opt       Levels
	NoModules bool // it makes none of them, and reports that

	// The tools that a module's manifest names.
	Compiler, HostCompiler modinfo.Tool

	// How host sources of a target with its device code are compiled. If Tool is empty, by the
	// project's compilers.
	CXX      Tool
	Tool     string   // of CXX, in keys
	Env      []string // of CXX
	Includes []string // folders of the runtime's headers
	Defines  []string

	LibDirs []string       // folders of the runtime's libraries
	Archs   []gencode.Code // machine code that it makes; nil if unknown

	// For other build tools, if they do not link its code by themselves: CMake's name of the runtime,
	// PACKAGE::LIBRARY, or "", and the command that links relocatable code.
	Runtime, Linker string

	// The command that prints a file of machine code as text, but for that file; nil if it has none.
	Disassemble []string
}

// Driver is a program of a toolchain that actions name among their tools.
type Driver struct {
	Tool
	Name    string   // in actions, and in questions if it is a compiler driver: "hip"
	Program string   // of a compiler driver, in messages: "hipcc"
	Of      string   // what it is of, for messages: "CUDA 11.8"
	Env     []string // further variables of its environment where it answers a question
	Flags   []string // what the environment adds to each command
}

// Plan is the result of a request: actions, producers first, and the problems that were found.
type Plan struct {
	Actions []*graph.Action
	Diagnostics
}

// Emit adds an action.
func (p *Plan) Emit(a *graph.Action) { p.Actions = append(p.Actions, a) }

// ExpandRequest is a request to resolve a word of a gencode, and to check it.
type ExpandRequest struct {
	*Build
	Target *Target
	Code   gencode.Code
	Pos    manifest.Pos
	Native []gencode.Code // of the GPUs of this machine
}

// Expanded holds the codes that a word stands for.
type Expanded struct {
	Plan
	Codes   []gencode.Code
	Unknown string // why the toolchain cannot make the code; "" if it can or that is reported
}

// Sources describes what the compiles of a target have in common.
type Sources struct {
	Includes   []string                // include folders of the target
	IncludePos map[string]manifest.Pos // of the attributes of dependencies that export folders
	Headers    []string                // generated files that must exist before a compile
}

// CompileRequest is a request to compile one source of a target.
type CompileRequest struct {
	*Build
	Sources
	Target *Target
	Source manifest.Source // Language is "fatbin" or "LTO-IR" for prebuilt device code
	Output string
}

// Command returns the unsplit command that compiles to codes. argv is what it runs, a compile as
// the toolchain writes it, and tool is its name in keys.
func (r *CompileRequest) Command(codes []gencode.Code, argv, env []string, tool string) *graph.Action {
	s := r.Source
	return &graph.Action{
		Kind: graph.Compile, Name: s.Path, Archs: CodeNames(codes), Mode: s.Mode, Argv: argv, Env: env,
		Inputs: []string{s.Path}, OrderOnly: r.Headers, Outputs: []string{r.Output}, Depfile: r.Output + ".d",
		SearchDirs: r.Searched(s), Tools: []string{tool}, Memory: s.Memory, Work: graph.Work{Driver: &graph.Driver{}},
	}
}

// Compile returns the compile to codes.
func (r *CompileRequest) Compile(codes []gencode.Code) Compile {
	return Compile{Source: r.Source.Path, Output: r.Output, Depfile: r.Output + ".d", Mode: r.Source.Mode,
		Codes: codes, Language: LanguageFlag(r.Source)}
}

// Searched returns the include folders of a source.
func (s *Sources) Searched(of manifest.Source) []string {
	if len(of.Includes) == 0 {
		return s.Includes
	}
	dirs := slices.Clone(of.Includes)
	for _, dir := range s.Includes {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Compiled is a planned compile.
type Compiled struct {
	Plan
	OK bool // false if a problem was reported and there is no command
	Made
}

// Made describes the output of a compile for the links that read it.
type Made struct {
	// Inputs of a device link by architecture; nil if the device link reads the object, or the
	// compile stayed unsplit.
	Code   map[string]string
	Floats *Floats // options of LTO-IR that the dry run shows; nil if unknown
	Driver any     // which driver made relocatable code, in the toolchain's terms
}

// LinkRequest is a request to link a target.
type LinkRequest struct {
	*Build
	Target   *Target
	Static   bool             // of a static library with a device link of its own
	Inputs   []LinkInput      // targets with relocatable device code, Target first
	Host     host.LinkOptions // the host link without device code; its first objects are Target's
	Runtime  bool             // the host link has code that needs the runtime of device code
	KeepsAll string           // why the device link keeps code that nothing refers to; "" if not
	HostRefs *graph.Action    // lists what host code refers to; nil if KeepsAll is set
}

// WithObjects returns the host link with other objects of the target.
func (r *LinkRequest) WithObjects(objects []string) host.LinkOptions {
	h := r.Host
	h.Objects = slices.Concat(objects, h.Objects[len(r.Target.Objects):])
	return h
}

// Linked is a planned device link, and the host link with its output.
type Linked struct {
	Plan
	Failed bool   // a problem was reported, and there is no host link
	Device string // the object of the device link; "" if there is none
	Host   host.LinkOptions

	// Command replaces the compiler in the host link; nil leaves it. Options are added at the end.
	Command, Options []string
	Inputs           []string // further inputs of the host link, or objects that come last
	Tools, Env       []string
	Archs            []string
	Mode             string
	Work             graph.Work
}

// ModuleRequest is a request for the artifacts of a module.
type ModuleRequest struct {
	*Build
	Sources
	Target *Target
	Inputs []LinkInput // as of LinkRequest; for the modes rdc and lto
}

// Module is the planned artifacts of a module.
type Module struct {
	Plan
	Artifacts []Artifact
}

// CheckRequest is a request to test whether the LTO-IR of a module links.
type CheckRequest struct {
	*Build
	Target *Target
	Inputs []LinkInput // modules and prebuilt libraries with LTO-IR
	Archs  []gencode.Code
}

// Checked is a planned test.
type Checked struct {
	Plan
	Outputs []string
}

// RefuseMember reports device code of a prebuilt library u that the link of t would ignore.
func RefuseMember(p *Diagnostics, t, u *Target, m Member) {
	made := "--no-offload-new-driver"
	if m.NewDriver {
		made = "--offload-new-driver (section .llvm.offloading)"
	}
	p.Bothf(u.Pos, t.Pos, t.Label+" links it", "Have it compiled by the other driver, or in mode whole (-fno-gpu-rdc).",
		"%s:%s was compiled with %s, and the link of %s ignores such device code", u.File, m.Name, made, t.Label)
}

// Lacks reports that a library has no code for an architecture that t links for.
func Lacks(p *Plan, t, lib *Target, want gencode.Code, has []gencode.Code) {
	p.Bothf(t.Attr("gencode"), lib.Attr("gencode"), lib.Label+" says what it has",
		"Without it the program would hold no code of it for that architecture. Add it to "+lib.Label+", or drop it here.",
		"%s needs %s, but %s has %s only", t.Label, want, lib.Label, Spell(has))
}

// AtFile describes a response file of ar, lld and compiler drivers that holds the arguments from
// index from on.
func AtFile(from int) *graph.Response { return &graph.Response{From: from, Flag: "@"} }

// File names in queries to drivers; no project uses them.
const (
	AskOutput  = "kbuild_output"
	QueryInput = "kbuild_input.o"
)

// Compile describes one compile of a source with device code.
type Compile struct {
	Source, Output, Depfile string
	Mode                    string // "whole", "rdc", "lto"
	Codes                   []gencode.Code
	Language                string // "cuda" if the extension of Source does not imply it, else ""
	Emit                    string // "" for an object, or "ptx", "cubin", "fatbin"
}

// Options holds the attributes of a target that reach a compiler of device code.
type Options struct {
	Std      string // "c++17"
	Opt      string // "2"; "" is the compiler's default
	Includes []string
	Defines  []string // "NAME" or "NAME=VALUE", without -D
	FastMath bool

	// Nil is the compiler's default; for HIP the two precisions are one option.
	FTZ, PrecDiv, PrecSqrt, FMAD *bool
	MaxRegisters                 int // 0 is no limit
	Debug, DeviceDebug, LineInfo bool
	PIC                          bool
	Flags                        []string // extra options of the driver
	CICC, PTXAS, Host, LLD       []string // extra options by tool
}

// FirstHeaders lists the headers that nvcc, and clang for CUDA and HIP, include first in each
// source.
var FirstHeaders = []string{"cuda_runtime.h", "__clang_cuda_runtime_wrapper.h", "__clang_hip_runtime_wrapper.h"}

// Question is a dry run query to a compiler driver.
type Question struct {
	Tool    string   // the name of the driver among tools: "nvcc"
	By      string   // its command in messages: "nvcc --dryrun"
	Args    []string // of the driver
	Program string   // a program that the driver runs, queried in its place; "" is the driver

	// Architectures of QueryInput: its code for each is empty, packed as by clang's new offload
	// driver.
	Offload []string
}

// Key returns the query as text: the tool and the arguments, each followed by a newline.
func (q Question) Key() string {
	key := q.Tool + "\n" + strings.Join(q.Args, "\n") + "\n"
	if q.Program != "" {
		key += "asked of " + q.Program + " with " + strings.Join(q.Offload, " ") + "\n"
	}
	return key
}

// SourceHash returns 64 hexadecimal digits that identify a source, and a variant of it, within any
// program.
func SourceHash(label, source, partition string) string {
	h := sha256.Sum256([]byte(label + "\x00" + source + "\x00" + partition))
	return hex.EncodeToString(h[:])
}

// FileName returns an architecture as a file name: "gfx90a_xnack-".
func FileName(arch string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\: ="'*?<>|`, r) {
			return '_'
		}
		return r
	}, arch)
}

// AskResourceUsage makes a ptxas command print the resource usage of each function. The output
// bytes stay the same (11.8, 12.4), except for .note.nv.tkinfo, where 13.0 and newer record all
// options.
func AskResourceUsage(a *graph.Action) {
	if !slices.ContainsFunc(a.Argv, IsVerbose) {
		a.Argv, a.Work.Pass.ResourceUsage = slices.Insert(a.Argv, 1, "-v"), true
	}
}

// IsVerbose reports whether option is the verbose option of ptxas.
func IsVerbose(option string) bool { return option == "-v" || option == "--verbose" }
