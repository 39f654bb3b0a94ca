package toolchain

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// DryRun is the output of `nvcc --dryrun`, `hipcc -###` or `clang -###`, or the reason why there is
// none.
type DryRun struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`

	// The evidence that the dry run was misparsed: the unsplit command succeeded.
	SplitFailure string `json:"misparsed,omitempty"`
}

// Tool is a program with a fingerprint of its content.
type Tool struct {
	Path    string `json:"path"`             // absolute
	Version string `json:"version"`          // as it reports itself, "12.2.0"
	ID      string `json:"id"`               // hex digest over the content of everything it runs
	Family  string `json:"family,omitempty"` // of a host compiler: "gcc" or "clang"; "" for others
	Error   string `json:"error,omitempty"`  // why Path is empty
}

// Missed identifies a requirement of a toolchain block that nothing installed satisfies.
type Missed struct {
	Attribute string // "version"; "" if no attribute of the block is the cause
	Truth     string // "CUDA 11.8 is here, and not >= 12"; "" if nothing is installed
}

// Library describes the content of a prebuilt archive or shared file.
type Library struct {
	Error   string   // why it could not be read, or ""
	Form    string   // the kind of file: "archive", "object", "fatbin", "LTO-IR", ...
	Members []Member // archive members with device code, in order; a shared file has one
}

// Member is an object of a library that holds relocatable or linked device code.
type Member struct {
	Name string // "legacy.o"

	// Has __nv_relfatbin, AMD bitcode or .llvm.offloading: takes part in a device link.
	Relocatable bool

	// Has .llvm.offloading: takes part only in links of clang's new offload driver.
	NewDriver bool
	Images    []gencode.Image

	// Symbols by which its host code refers to linked HIP code: "__hip_fatbin_7fc235930abc2441".
	Fatbins []string

	// Cicc options of each kind of its LTO-IR: "-ftz=0 -prec_div=1 ..."; "" if not recorded.
	Options []string

	// Of the tools that generated its images, by kind; only known ones.
	Versions map[gencode.Kind]gencode.Version
}

// NVLinkReads reports whether m holds relocatable device code that nvlink reads. Other tools link
// AMD code.
func (m Member) NVLinkReads() bool {
	return m.Relocatable && !m.NewDriver && !m.Holds(gencode.Bitcode)
}

// WrapperReads reports whether m holds relocatable NVIDIA code that clang-linker-wrapper links.
func (m Member) WrapperReads() bool { return m.NewDriver && !m.AMD() }

// AMD reports whether m holds AMD code.
func (m Member) AMD() bool {
	return slices.ContainsFunc(m.Images, func(i gencode.Image) bool {
		return i.Kind == gencode.GFX || i.Kind == gencode.SPIRV || i.Kind == gencode.Bitcode && !strings.HasPrefix(i.Name, "sm_")
	})
}

// Holds reports whether m holds code of a kind.
func (m Member) Holds(k gencode.Kind) bool {
	return slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return i.Kind == k })
}
