package toolchain

import (
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
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

// HostLTO holds what a host compiler needs besides itself to optimise across files.
type HostLTO struct {
	AR     Tool   // archiver of its objects; for gcc it is ar with Plugin
	Plugin string // gcc: liblto_plugin.so, which lets ar read its objects; "" for clang

	// clang: the ld.lld of its own LLVM if it would find another; "" if it finds that one.
	LD    string
	Error string // "" or why it cannot, and what to do
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
func (m Member) WrapperReads() bool { return m.NewDriver && m.Language() == "cuda" }

// Language returns the language whose toolchain links m: that of CUDA unless m holds other code.
func (m Member) Language() string {
	for _, i := range m.Images {
		if language := i.Code().Language(); language != "cuda" {
			return language
		}
	}
	return "cuda"
}

// Holds reports whether m holds code of a kind.
func (m Member) Holds(k gencode.Kind) bool {
	return slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return i.Kind == k })
}

// Floats holds the floating-point options that a compiler records in LTO-IR.
type Floats struct{ FTZ, PrecDiv, PrecSqrt, FMAD bool }

func (f Floats) String() string {
	return fmt.Sprintf("ftz=%t prec_div=%t prec_sqrt=%t fmad=%t", f.FTZ, f.PrecDiv, f.PrecSqrt, f.FMAD)
}

// DefaultFloats holds nvcc's defaults.
var DefaultFloats = Floats{PrecDiv: true, PrecSqrt: true, FMAD: true}

// FloatAttributes lists the attributes that set one option, in the order of ByName.
var FloatAttributes = [...]string{"ftz", "prec_div", "prec_sqrt", "fmad"}

// ByName returns the options in the order of FloatAttributes.
func (f Floats) ByName() [len(FloatAttributes)]bool {
	return [...]bool{f.FTZ, f.PrecDiv, f.PrecSqrt, f.FMAD}
}

// FloatOptions returns the options of t's attributes, or those of its compiler's dry run if other
// settings override them (NVCC_APPEND_FLAGS, flags.cicc).
func (t *Target) FloatOptions() Floats {
	if t.Floats != nil {
		return *t.Floats
	}
	return t.writtenFloats()
}

// writtenFloats returns the attributes of t, with fast_math resolved.
func (t *Target) writtenFloats() Floats {
	val := func(p *bool, fast, def bool) bool {
		if p != nil {
			return *p
		}
		if t.FastMath {
			return fast
		}
		return def
	}
	d := DefaultFloats
	return Floats{val(t.FTZ, true, d.FTZ), val(t.PrecDiv, false, d.PrecDiv), val(t.PrecSqrt, false, d.PrecSqrt), val(t.FMAD, true, d.FMAD)}
}

// FloatPos returns the position that makes t compile as f and not as other, for the first option
// that differs and has a known position. It is the option's attribute, fast_math, or the flags that
// override both.
func (t *Target) FloatPos(f, other Floats) manifest.Pos {
	written := t.writtenFloats()
	for i, name := range FloatAttributes {
		if f.ByName()[i] == other.ByName()[i] {
			continue
		}
		pos := t.AnyAttr(name, "fast_math")
		if written.ByName()[i] != f.ByName()[i] {
			pos = t.Attr("flags")
		}
		if pos != t.Pos {
			return pos
		}
	}
	return t.Pos
}
