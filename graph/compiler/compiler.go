// Package compiler has what the compilers of device code have in common. Each has a package of its own below this one, as the compilers
// of host code have; none of them knows another.
package compiler

import "github.com/kbuild-dev/kbuild/graph/gencode"

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

// FirstHeaders are what nvcc, and clang for CUDA and HIP, have each source include first.
var FirstHeaders = []string{"cuda_runtime.h", "__clang_cuda_runtime_wrapper.h", "__clang_hip_runtime_wrapper.h"}
