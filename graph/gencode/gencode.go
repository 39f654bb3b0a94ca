// Package gencode knows the names of GPU codes: what they mean, how they are written, and what can
// link or run on what. It does not know which codes a toolkit supports: that is a fact that callers
// supply.
package gencode

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Kind is the kind of code that a name selects.
type Kind int

const (
	SASS Kind = iota // sm_90: machine code
	PTX              // compute_90: text that the driver compiles
	LTO              // lto_90: LTO-IR for a later link
	GFX              // gfx90a:xnack-: a HIP code object; amdgcnspirv, whose code is SPIRV
	Set              // native, all, all-major: a set that the planner expands
	// gfx90a, still to be linked: LLVM bitcode in an object; no code name selects it.
	Bitcode
	// amdgcnspirv, in a file: the runtime compiles it; in a code list its kind is GFX.
	SPIRV
)

// Code is one element of a `code` list. The zero value is not a valid code.
type Code struct {
	Kind   Kind
	Num    int    // 90 for sm_90, sm_90a; 0 for GFX, Set and Bitcode
	Suffix string // "a" (this chip only), "f" (this family), ""

	// GFX, Bitcode: "gfx90a", "gfx11-generic", "amdgcnspirv"; Set: "native", "all", "all-major".
	Name    string
	Feature string // GFX, Bitcode: ":sramecc+:xnack-", with its colons, or ""
}

// Languages holds the ending of the sources of each language with device code, by its name in
// manifests: of sources, and of a toolchain block.
var Languages = map[string]string{"cuda": ".cu", "hip": ".hip"}

var nvRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(sm|compute|lto)_([1-9][0-9]{1,2})([af]?)$`) })
var gfxRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(gfx[0-9a-f]{3,4}|gfx[1-9][0-9]?(?:-[1-9])?-generic)((?::(?:sramecc|xnack)[+-]){0,2})$`)
})

// Parse parses a code name such as sm_90a, compute_80, lto_75, gfx90a:xnack- or native.
func Parse(s string) (Code, error) {
	switch s {
	case "native", "all", "all-major":
		return Code{Kind: Set, Name: s}, nil
	}
	if s == SPIRVTarget {
		return Code{Kind: GFX, Name: s}, nil
	}
	if m := nvRE().FindStringSubmatch(s); m != nil {
		n, _ := strconv.Atoi(m[2])
		k := map[string]Kind{"sm": SASS, "compute": PTX, "lto": LTO}[m[1]]
		return Code{Kind: k, Num: n, Suffix: m[3]}, nil
	}
	if m := gfxRE().FindStringSubmatch(s); m != nil {
		return Code{Kind: GFX, Name: m[1], Feature: m[2]}, nil
	}
	return Code{}, fmt.Errorf("%q is not an architecture; write sm_80 (SASS), compute_80 (PTX), lto_80 (LTO-IR), gfx90a, gfx11-generic or amdgcnspirv (HIP), or native, all, all-major", s)
}

// String returns the code as a manifest spells it.
func (c Code) String() string {
	switch c.Kind {
	case SASS:
		return fmt.Sprintf("sm_%d%s", c.Num, c.Suffix)
	case PTX:
		return fmt.Sprintf("compute_%d%s", c.Num, c.Suffix)
	case LTO:
		return fmt.Sprintf("lto_%d%s", c.Num, c.Suffix)
	}
	return c.Name + c.Feature
}

// Language returns the language of the sources that c is compiled from. The planner has a toolchain
// for each.
func (c Code) Language() string {
	if c.Kind == GFX || c.Kind == SPIRV || c.Kind == Bitcode && !strings.HasPrefix(c.Name, "sm_") {
		return "hip"
	}
	return "cuda"
}

// Virtual returns the compute_ name that code is compiled from: compute_90a for sm_90a.
func (c Code) Virtual() string { return fmt.Sprintf("compute_%d%s", c.Num, c.Suffix) }

// As returns the same architecture as another kind: sm_90 as lto_90.
func (c Code) As(k Kind) Code { c.Kind = k; return c }

// Compare orders codes by architecture, then suffix, then kind. Sets and GFX come last, by name, as
// clang orders them: amdgcnspirv, gfx11-generic, gfx9-4-generic, gfx906.
func Compare(a, b Code) int {
	ga, gb := a.Num == 0, b.Num == 0
	if ga != gb {
		if ga {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Num, b.Num), cmp.Compare(a.Suffix, b.Suffix), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Feature, b.Feature))
}

// LinksInto reports whether an image img can take part in a device link for target (an SASS code).
// lto is set for a -dlto link. Measured with nvlink 11.8, 12.4 and 13.5: SASS links for the same
// major and the same or a newer minor, PTX for the same or newer codes. LTO-IR does too, but only
// with -dlto. Architecture-specific images (suffix "a") link for exactly their own architecture.
// Those of a family (suffix "f") link for its own and newer codes of the same major, whatever their
// suffix. That holds for PTX and LTO-IR too.
func LinksInto(img Image, target Code, lto bool) bool {
	sameMajor := img.Num/10 == target.Num/10 && img.Num <= target.Num
	switch img.Suffix {
	case "a":
		return img.Num == target.Num && img.Suffix == target.Suffix && (img.Kind != LTO || lto)
	case "f":
		return sameMajor && (img.Kind != LTO || lto)
	}
	switch img.Kind {
	case SASS:
		return sameMajor
	case PTX:
		return img.Num <= target.Num
	case LTO:
		return lto && img.Num <= target.Num
	}
	return false
}

// Image is device code found in a file: a kind for an architecture.
type Image struct {
	Kind   Kind
	Num    int
	Suffix string

	// GFX, Bitcode, SPIRV: "gfx90a", as in Code; "" for bitcode that does not record it.
	Name    string
	Feature string // GFX, Bitcode: ":xnack-", as in Code
}

// Version is the version of the tool that generated an image, from the left as far as known. For
// machine code it is the release of the toolkit (13, 5), for PTX that of the language (9, 5). For
// LTO-IR it has those of its container and of NVVM IR (1, 67, 2, 131). A linker rejects versions
// newer than its own.
type Version [4]int

// Newer reports whether v is of a newer tool than w. Unknown parts of v do not count as newer.
func (v Version) Newer(w Version) bool { return slices.Compare(v[:], w[:]) > 0 }

// String returns "13.5", or "1.67 with NVVM IR 2.131".
func (v Version) String() string {
	s := fmt.Sprintf("%d.%d", v[0], v[1])
	if v[2] > 0 {
		s += fmt.Sprintf(" with NVVM IR %d.%d", v[2], v[3])
	}
	return s
}

// Code returns the image's architecture as a manifest spells it: lto_80, gfx90a:xnack-.
func (i Image) Code() Code { return Code(i) }

// String returns the code, with its kind if the code does not imply it: "lto_80", "gfx90a:xnack-
// bitcode".
func (i Image) String() string {
	if !i.Code().amd() {
		return i.Code().String()
	}
	return strings.TrimSpace(i.Code().String() + " " + i.Kind.String())
}

// String returns the kind's name in its vendor's documentation.
func (k Kind) String() string {
	return [...]string{"SASS", "PTX", "LTO-IR", "code object", "set", "bitcode", "SPIR-V"}[k]
}

// Spell formats images for messages: "sm_80, gfx90a bitcode".
func Spell(images []Image) string {
	var s []string
	for _, i := range images {
		s = append(s, i.String())
	}
	if s == nil {
		return "no device code"
	}
	return strings.Join(s, ", ")
}

// An AMD target ID is a processor and settings of its features: gfx90a:xnack-. A generic processor
// such as gfx11-generic covers several: its code runs on each of them, at most as fast as their
// own. amdgcnspirv is SPIR-V, which the runtime compiles for the processor that it finds.

// SPIRVTarget is the target ID of SPIR-V for AMD's processors.
const SPIRVTarget = "amdgcnspirv"

// generics returns the processors that a generic one covers, from the table "AMDGPU Generic
// Processors" of LLVM's documentation (llvm/docs/AMDGPUUsage.rst). LLVM occasionally adds
// processors to a generic one; code of an older LLVM does not run on those.
func generics(name string) []string {
	switch name {
	case "gfx9-generic":
		return []string{"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"}
	case "gfx9-4-generic":
		return []string{"gfx940", "gfx941", "gfx942", "gfx950"}
	case "gfx10-1-generic":
		return []string{"gfx1010", "gfx1011", "gfx1012", "gfx1013"}
	case "gfx10-3-generic":
		return []string{"gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"}
	case "gfx11-generic":
		return []string{"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"}
	case "gfx12-generic":
		return []string{"gfx1200", "gfx1201"}
	case "gfx12-5-generic":
		return []string{"gfx1250", "gfx1251"}
	}
	return nil
}

// Covers reports whether AMD code for the target ID have runs wherever code for want is requested.
// The processor is the same, or one that the generic processor of have covers, and each feature
// that have names is the same in want. A feature that have leaves open ("any") runs with either
// setting. One that want leaves open needs code that leaves it open, since the setting of the
// process is unknown before it runs. These are the rules of clang's isCompatibleTargetID and of its
// page on the offload bundler. Links follow them with clang 19, except for generic processors,
// whose bitcode links for nothing else. Links of clang 15 take code for exactly the target ID.
// SPIR-V runs everywhere.
func Covers(have, want Code) bool {
	switch {
	case !have.amd() || !want.amd():
		return false
	case have.Name == SPIRVTarget:
		return have.Kind != Bitcode || want.Name == SPIRVTarget
	case have.Name != want.Name && !slices.Contains(generics(have.Name), want.Name):
		return false
	}
	settings := want.features()
	return !slices.ContainsFunc(have.features(), func(f string) bool { return !slices.Contains(settings, f) })
}

// SameTarget reports whether two codes have the same target ID, whatever their kinds and the order
// of features in the IDs.
func SameTarget(a, b Code) bool {
	x, y := a.features(), b.features()
	slices.Sort(x)
	slices.Sort(y)
	return a.amd() && b.amd() && a.Name == b.Name && slices.Equal(x, y)
}

func (c Code) amd() bool { return c.Kind == GFX || c.Kind == Bitcode || c.Kind == SPIRV }

// features returns the settings in a target ID, in any order: "xnack-".
func (c Code) features() []string {
	return strings.FieldsFunc(c.Feature, func(r rune) bool { return r == ':' })
}
