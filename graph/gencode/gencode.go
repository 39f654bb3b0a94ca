// Package gencode knows the names of GPU codes: what they mean, how they are written, and what can
// link or run on what. It does not know which codes a toolkit supports: that is a fact that callers
// supply.
package gencode

import (
	"cmp"
	"fmt"
	"regexp"
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
