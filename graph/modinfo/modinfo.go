// Package modinfo is the manifest of a module instance: what stands beside its artifacts as JSON,
// for those who load them. It knows the document, how it is written and read, and nothing of files,
// toolkits or device code.
package modinfo

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Schema is the version of the document. Raise it when a reader of the old one would go wrong.
const Schema = 1

// Manifest is the whole document. Fields with omitzero may be absent; all others are always there.
type Manifest struct {
	Schema        int               `json:"schema"`
	Kbuild        string            `json:"kbuild"`  // the version of kbuild's keys, not of its release
	Module        string            `json:"module"`  // name of the block: "gemm"
	Variant       map[string]string `json:"variant"` // the instance of the matrix: {"dtype":"f16","tile":"64"}
	Mode          string            `json:"mode"`    // "whole", "rdc", "lto"
	Options       Options           `json:"options"`
	Partitions    []Partition       `json:"partitions,omitzero"`
	Compiler      Tool              `json:"compiler"`
	HostCompiler  Tool              `json:"host_compiler"`
	Architectures []string          `json:"architectures"` // of all artifacts and images, each once: "sm_80"
	Formats       []string          `json:"formats"`       // kinds of artifacts, each once, sorted
	InputDigest   string            `json:"input_digest"`  // over all that the artifacts were made from
	Artifacts     []Artifact        `json:"artifacts"`     // sorted by file
}

// Options are the attributes of the target that reach its compilers.
type Options struct {
	Std          string   `json:"std"` // "" is the compiler's default
	Opt          string   `json:"opt"`
	Defines      []string `json:"defines"` // "NAME" or "NAME=VALUE"
	Includes     []string `json:"includes"`
	ArchList     []string `json:"arch_list"` // what __CUDA_ARCH_LIST__ is made to spell; empty is the architectures of each compile
	FastMath     bool     `json:"fast_math"`
	FTZ          bool     `json:"ftz"` // this and the next three: in force, fast_math resolved
	PrecDiv      bool     `json:"prec_div"`
	PrecSqrt     bool     `json:"prec_sqrt"`
	FMAD         bool     `json:"fmad"`
	MaxRegisters int      `json:"max_registers"` // 0 is no limit
	Debug        bool     `json:"debug"`
	DeviceDebug  bool     `json:"device_debug"`
	LineInfo     bool     `json:"lineinfo"`
	Flags        Flags    `json:"flags"`
}

// Flags are extra options by tool.
type Flags struct {
	NVCC   []string `json:"nvcc"`
	CICC   []string `json:"cicc"`
	PTXAS  []string `json:"ptxas"`
	NVLink []string `json:"nvlink"`
	HIP    []string `json:"hip"`
	LLD    []string `json:"lld"`
	Host   []string `json:"host"`
}

// Partition is what some sources are compiled with instead.
type Partition struct {
	Name    string   `json:"name"`
	Sources []string `json:"sources"`
	Mode    string   `json:"mode"`
	Std     string   `json:"std"`
	Opt     string   `json:"opt"`
	Defines []string `json:"defines"`
	// Includes are searched before those of the module.
	Includes []string `json:"includes"`
	Flags    Flags    `json:"flags"`
}

// Tool is a compiler with its identity by content.
type Tool struct {
	Name    string `json:"name"`           // "nvcc"
	Version string `json:"version"`        // "11.8"
	Build   string `json:"build,omitzero"` // "11.8.89"
	Digest  string `json:"digest"`         // over the programs, libraries and headers behind it
}

// Artifact is one file of a module.
type Artifact struct {
	File       string      `json:"file"`             // relative to the manifest, slash-separated
	Kind       string      `json:"kind"`             // "cubin", "ptx", "fatbin", "ltoir", "hsaco", "bitcode"
	Arch       string      `json:"arch"`             // "sm_80"; "" for a fatbin, whose images say it
	Size       int64       `json:"size"`             // bytes
	SHA256     string      `json:"sha256"`           // 64 hex digits
	Kernels    []Kernel    `json:"kernels,omitzero"` // sorted by name; absent where the file does not tell
	Images     []Image     `json:"images,omitzero"`  // of a fatbin, in the order of the file
	LTOSymbols *LTOSymbols `json:"lto_symbols,omitzero"`
}

// Image is one piece of code in a file that holds several.
type Image struct {
	Kind    string   `json:"kind"`
	Arch    string   `json:"arch"`
	Kernels []Kernel `json:"kernels,omitzero"`
}

// Kernel is an entry point that a driver finds by its name.
type Kernel struct {
	Name       string  `json:"name"`      // as the driver wants it: mangled
	Demangled  string  `json:"demangled"` // as people wrote it; the same for extern "C"
	ParamBytes int     `json:"param_bytes"`
	Params     []Param `json:"params,omitzero"` // by index; absent where the layout is not known
}

// Param is one parameter of a kernel, in the block of bytes that a launch hands over.
type Param struct {
	Index     int    `json:"index"`
	Offset    int    `json:"offset"`
	Size      int    `json:"size"`
	ValueKind string `json:"value_kind,omitzero"` // of HIP: "by_value", "global_buffer", "hidden_block_count_x"
}

// LTOSymbols are what a piece of LTO-IR brings to a link and wants of it. LTO-IR does not tell;
// this is read off the PTX that the same run of the compiler makes.
type LTOSymbols struct {
	Kernels   []Symbol `json:"kernels"`
	Functions []Symbol `json:"functions"` // __device__ functions that other files may call
	Variables []Symbol `json:"variables"` // __device__ and __constant__ variables that other files may use
	Undefined []Symbol `json:"undefined"` // what another module must define
}

// Symbol is a name in a link.
type Symbol struct {
	Name      string `json:"name"`
	Demangled string `json:"demangled"`
}

// Complete fills in what follows from the artifacts, and puts them in order.
func (m *Manifest) Complete() {
	slices.SortFunc(m.Artifacts, func(a, b Artifact) int { return strings.Compare(a.File, b.File) })
	m.Architectures, m.Formats = architectures(m.Artifacts), formats(m.Artifacts)
}

func formats(artifacts []Artifact) []string {
	kinds := []string{}
	for _, a := range artifacts {
		kinds = append(kinds, a.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

func architectures(artifacts []Artifact) []string {
	var codes []gencode.Code
	add := func(arch string) {
		if c, err := gencode.Parse(arch); err == nil {
			codes = append(codes, c)
		}
	}
	for _, a := range artifacts {
		add(a.Arch)
		for _, i := range a.Images {
			add(i.Arch)
		}
	}
	slices.SortFunc(codes, gencode.Compare)
	names := []string{}
	for _, c := range slices.Compact(codes) {
		names = append(names, c.String())
	}
	return names
}

// Encode writes the document: indented, fields in the order above, maps sorted. Equal manifests
// give equal bytes.
func (m *Manifest) Encode() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(m); err != nil {
		panic("BUG: " + err.Error())
	}
	return b.Bytes()
}
