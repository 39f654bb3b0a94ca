// Package compiler has what the compilers of device code have in common. Each has a package of its
// own below this one, as the compilers of host code have; none of them knows another.
package compiler

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// The names that a question to a driver uses for its files; no project has them.
const (
	AskOutput = "kbuild_output"
	AskInput  = "kbuild_input.o"
)

// Compile is one compile of a .cu file.
type Compile struct {
	Source, Output, Depfile string
	Mode                    string // "whole", "rdc", "lto"
	Codes                   []gencode.Code
	Language                string // "cuda" if the ending of Source does not say so, else ""
	Emit                    string // "" for an object, or "ptx", "cubin", "fatbin"
}

// Options are the attributes of a target that reach a compiler of device code.
type Options struct {
	Std                          string // "c++17"
	Opt                          string // "2"; "" is the compiler's default
	Includes                     []string
	Defines                      []string // "NAME" or "NAME=VALUE", without -D
	FastMath                     bool
	FTZ, PrecDiv, PrecSqrt, FMAD *bool // nil is the compiler's default; for HIP the two of precision are one
	MaxRegisters                 int   // 0 is no limit
	Debug, DeviceDebug, LineInfo bool
	PIC                          bool
	Flags                        []string // extra ones of the driver
	CICC, PTXAS, Host, LLD       []string // extra ones by tool
}

// FirstHeaders are what nvcc, and clang for CUDA and HIP, have each source include first.
var FirstHeaders = []string{"cuda_runtime.h", "__clang_cuda_runtime_wrapper.h", "__clang_hip_runtime_wrapper.h"}

// Question is what a driver is asked for its steps.
type Question struct {
	Tool    string   // "nvcc", "hip" or "clang"
	Args    []string // of the driver
	Program string   // that the driver runs and that is asked in its place; "" is the driver
	Offload []string // architectures: AskInput has code for them, of no bytes, as clang's new offload driver packs it
}

// Key is the question as a text: the tool and the arguments, each ended by a newline.
func (q Question) Key() string {
	key := q.Tool + "\n" + strings.Join(q.Args, "\n") + "\n"
	if q.Program != "" {
		key += "asked of " + q.Program + " with " + strings.Join(q.Offload, " ") + "\n"
	}
	return key
}

// SourceHash is 64 hexadecimal digits for a source, and a variant of it, within any program.
func SourceHash(label, source, partition string) string {
	h := sha256.Sum256([]byte(label + "\x00" + source + "\x00" + partition))
	return hex.EncodeToString(h[:])
}

// FileName spells an architecture as the name of a file: "gfx90a_xnack-".
func FileName(arch string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\: ="'*?<>|`, r) {
			return '_'
		}
		return r
	}, arch)
}

// AskResourceUsage has a command of ptxas say what each function takes: the bytes that it makes are
// the same (11.8, 12.4), but for .note.nv.tkinfo, where 13.0 and newer note all their options.
func AskResourceUsage(a *graph.Action) {
	if !slices.ContainsFunc(a.Argv, IsVerbose) {
		a.Argv, a.Work.Step.ResourceUsage = slices.Insert(a.Argv, 1, "-v"), true
	}
}

// IsVerbose reports the option of ptxas.
func IsVerbose(option string) bool { return option == "-v" || option == "--verbose" }
