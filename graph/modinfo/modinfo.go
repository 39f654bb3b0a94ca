// Package modinfo defines the manifest of a module instance: the JSON document beside its
// artifacts, for programs that load them. It knows how to write, read and check the document, and
// nothing of files, toolkits or device code.
package modinfo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Schema is the version of the document. Raise it if readers of the old one would misread the new
// one.
const Schema = 1

// Manifest is the whole document. Fields with omitzero may be absent; all others are always
// present.
type Manifest struct {
	Schema int `json:"schema"`

	// The version of kbuild's keys, not of its release.
	Kbuild        string            `json:"kbuild"`
	Module        string            `json:"module"`  // name of the block: "gemm"
	Variant       map[string]string `json:"variant"` // matrix instance: {"dtype":"f16","tile":"64"}
	Mode          string            `json:"mode"`    // "whole", "rdc", "lto"
	Options       Options           `json:"options"`
	Partitions    []Partition       `json:"partitions,omitzero"`
	Compiler      Tool              `json:"compiler"`
	HostCompiler  Tool              `json:"host_compiler"`
	Architectures []string          `json:"architectures"` // of all artifacts and images: "sm_80"
	Formats       []string          `json:"formats"`       // kinds of artifacts, each once, sorted
	InputDigest   string            `json:"input_digest"`  // over all inputs of the artifacts
	Artifacts     []Artifact        `json:"artifacts"`     // sorted by file
}

// Options holds the attributes of the target that reach its compilers.
type Options struct {
	Std      string   `json:"std"` // "" is the compiler's default
	Opt      string   `json:"opt"`
	Defines  []string `json:"defines"` // "NAME" or "NAME=VALUE"
	Includes []string `json:"includes"`

	// The value of __CUDA_ARCH_LIST__; empty is the architectures of each compile.
	ArchList []string `json:"arch_list"`
	FastMath bool     `json:"fast_math"`

	// This and the next three: effective values, with fast_math resolved.
	FTZ          bool  `json:"ftz"`
	PrecDiv      bool  `json:"prec_div"`
	PrecSqrt     bool  `json:"prec_sqrt"`
	FMAD         bool  `json:"fmad"`
	MaxRegisters int   `json:"max_registers"` // 0 is no limit
	Debug        bool  `json:"debug"`
	DeviceDebug  bool  `json:"device_debug"`
	LineInfo     bool  `json:"lineinfo"`
	Flags        Flags `json:"flags"`
}

// Flags holds extra options by tool.
type Flags struct {
	NVCC   []string `json:"nvcc"`
	CICC   []string `json:"cicc"`
	PTXAS  []string `json:"ptxas"`
	NVLink []string `json:"nvlink"`
	HIP    []string `json:"hip"`
	LLD    []string `json:"lld"`
	Host   []string `json:"host"`
}

// Partition holds the settings of a group of sources that differ from the module's.
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

// Tool is a compiler with a fingerprint of its content.
type Tool struct {
	Name    string `json:"name"`           // "nvcc"
	Version string `json:"version"`        // "11.8"
	Build   string `json:"build,omitzero"` // "11.8.89"
	Digest  string `json:"digest"`         // over its programs, libraries and headers
}

// Artifact is one file of a module.
type Artifact struct {
	File string `json:"file"` // relative to the manifest, slash-separated
	Kind string `json:"kind"` // "cubin", "ptx", "fatbin", "ltoir", "hsaco", "bitcode"

	// "sm_80"; "" for a fatbin, whose images have it.
	Arch   string `json:"arch"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // 64 hex digits

	// Sorted by name; absent if the file does not list them.
	Kernels    []Kernel    `json:"kernels,omitzero"`
	Images     []Image     `json:"images,omitzero"` // of a fatbin, in the order of the file
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
	Name       string  `json:"name"`      // the name for the driver: mangled
	Demangled  string  `json:"demangled"` // as in the source; the same for extern "C"
	ParamBytes int     `json:"param_bytes"`
	Params     []Param `json:"params,omitzero"` // by index; absent if the layout is unknown
}

// Param is one parameter of a kernel, in the parameter block of a launch.
type Param struct {
	Index  int `json:"index"`
	Offset int `json:"offset"`
	Size   int `json:"size"`

	// Of HIP: "by_value", "global_buffer", "hidden_block_count_x".
	ValueKind string `json:"value_kind,omitzero"`
}

// LTOSymbols holds what a piece of LTO-IR defines and needs in a link. LTO-IR does not list its
// symbols; they come from the PTX that the same compiler run writes.
type LTOSymbols struct {
	Kernels   []Symbol `json:"kernels"`
	Functions []Symbol `json:"functions"` // exported __device__ functions
	Variables []Symbol `json:"variables"` // exported __device__ and __constant__ variables
	Undefined []Symbol `json:"undefined"` // what another module must define
}

// Symbol is a name in a link.
type Symbol struct {
	Name      string `json:"name"`
	Demangled string `json:"demangled"`
}

// Complete sorts the artifacts and sets the fields that derive from them.
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

// Encode returns the document: indented, fields in the order above, maps sorted. Equal manifests
// have equal bytes.
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

// Compare compares an artifact in a manifest with the one found in its file and returns a problem
// for every field that differs. field is the artifact's path in the document: "artifacts[2]". It
// skips what a file does not record: LTO symbols, and kernels that found lacks.
func Compare(field string, given, found Artifact) []Problem {
	given.LTOSymbols, found.LTOSymbols = nil, nil
	if found.Kernels == nil {
		given.Kernels = nil
	}
	c := comparison{file: given.File}
	c.value(field, reflect.ValueOf(given), reflect.ValueOf(found))
	return c.problems
}

type comparison struct {
	file     string
	problems []Problem
}

func (c *comparison) problem(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{field, fmt.Sprintf(format, args...)})
}

func (c *comparison) value(field string, given, found reflect.Value) {
	switch given.Kind() {
	case reflect.Struct:
		for i := range given.NumField() {
			name, _ := tag(given.Type().Field(i))
			c.value(join(field, name), given.Field(i), found.Field(i))
		}
	case reflect.Slice:
		c.list(field, given, found)
	case reflect.Pointer: // of LTO symbols, which a file does not record
	default:
		if !given.Equal(found) {
			c.problem(field, "is %v, the file %s has %v", shown(given), c.file, shown(found))
		}
	}
}

func (c *comparison) list(field string, given, found reflect.Value) {
	switch {
	case given.IsNil() != found.IsNil() && given.IsNil():
		c.problem(field, "is missing, the file %s has %d", c.file, found.Len())
	case given.IsNil() != found.IsNil():
		c.problem(field, "has %d, which the file %s does not show", given.Len(), c.file)
	case given.Len() != found.Len():
		c.problem(field, "has %d%s, the file %s has %d%s", given.Len(), names(given), c.file, found.Len(), names(found))
	default:
		for i := range given.Len() {
			c.value(fmt.Sprintf("%s[%d]", field, i), given.Index(i), found.Index(i))
		}
	}
}

// names formats the names of kernels.
func names(list reflect.Value) string {
	kernels, ok := list.Interface().([]Kernel)
	if !ok {
		return ""
	}
	s := []string{}
	for _, k := range kernels {
		s = append(s, k.Name)
	}
	return fmt.Sprint(" ", s)
}

func shown(v reflect.Value) any {
	if v.Kind() == reflect.String && v.String() == "" {
		return `""`
	}
	return v
}
