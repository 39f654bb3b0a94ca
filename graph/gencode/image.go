package gencode

import (
	"fmt"
	"slices"
	"strings"
)

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
