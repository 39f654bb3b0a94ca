// Package cuda knows CUDA toolkits: what nvcc, and a clang that compiles CUDA, have in common. It is
// pure: it runs no program and reads no file.
package cuda

import (
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Toolkit is an installed CUDA toolkit.
type Toolkit struct {
	NVCC  toolchain.Tool // its ID covers everything that it runs
	Parts toolchain.Tool // the toolkit alone: cicc, ptxas and the like run no host compiler

	// The host compiler of nvcc (-ccbin), g++-11 for CUDA 11.8 of Debian 12.
	HostCXX toolchain.Tool
	Version string // "11.8"
	Build   string // "11.8.89"
	Root    string // folder that holds bin/, nvvm/ ...

	// Folders of libcudart_static.a and libcudadevrt.a, for the host link; in order.
	LibDirs []string

	// Include folders of the toolkit in which a host compiler finds cuda_runtime.h; may be empty.
	Includes []string

	// The folder of libdevice.
	DeviceLibs string

	// SASS codes that nvcc supports, including sm_90a and sm_100f; in ascending order.
	Archs []gencode.Code

	// "" or why `nvlink -dlto` fails as nvcc runs it, with the fix; kbuild needs that command only
	// if LibNVVM is "".
	LTOFault string

	LTOFloats LTOFloats

	// By file, of nvcc.Libraries: why a link would not find the toolkit's own, with the fix.
	LibFaults map[string]string

	// "" or why the toolchain block's host compiler does not work with this toolkit.
	HostFault string
	HostLimit int // the newest major version of g++ that it accepts; 0 if its headers state none

	// Files that every toolkit has, and it has not.
	Lacks    []string
	Mixed    string            // "" or which parts differ in version from nvcc, with the fix
	Programs map[string]string // the toolkit's own programs by name: "cicc", "ptxas"

	// C text that fatbinary writes for a placeholder image, by "rdc" and "whole"; host code is
	// compiled with it before there is device code.
	FatbinC map[string]string
	LibNVVM string // libnvvm.so if nvlink does not find it (LTOFault); else ""

	// The folder of LibDirs that nvcc does not pass, because it passes one that does not exist;
	// else "".
	LibDir string

	// LD_LIBRARY_PATH for nvcc, if its programs would otherwise load libraries from their working
	// directory; else "".
	LibPath string

	// -l name of the shared runtime if there is no libcudart.so: ":libcudart.so.13"; else "".
	CUDART string

	// Compiles in place of nvcc; nil if nvcc does. Archs then holds the codes that both support.
	Clang *Clang

	// Versions of the code that it generates, by kind: its linker rejects newer code.
	Makes map[gencode.Kind]gencode.Version
}

// LTOFloats is how an LTO link gets the floating-point options of its code.
type LTOFloats string

const (
	FloatsKept    LTOFloats = ""        // from the code
	FloatsTold    LTOFloats = "told"    // nvlink uses defaults unless -Xnvvm sets the options
	FloatsLost    LTOFloats = "lost"    // nvlink always uses defaults
	FloatsUntried LTOFloats = "untried" // the trial failed
)

// Clang is a clang that compiles CUDA with a toolkit.
type Clang struct {
	Driver   toolchain.Tool // clang++; its ID covers everything that it runs
	CUDAPath string         // the toolkit's folder
	Libs     []string       // all device libraries of the toolkit
}

// PartsTool is the tool, in keys, of passes that run no host compiler. Another host compiler can
// affect them only through the texts that they read.
const PartsTool = "toolkit"
