// Package toolchain holds what the compilers of device code have in common: options, queries and the
// units of a split command. Each compiler has a package of its own below this one, as host
// compilers do. None of these packages knows another, and none runs a program.
package toolchain

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

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
	Tool    string   // "nvcc", "hip" or "clang"
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
		a.Argv, a.Work.Step.ResourceUsage = slices.Insert(a.Argv, 1, "-v"), true
	}
}

// IsVerbose reports whether option is the verbose option of ptxas.
func IsVerbose(option string) bool { return option == "-v" || option == "--verbose" }
