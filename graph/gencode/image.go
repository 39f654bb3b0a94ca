package gencode

import (
	"fmt"
	"slices"
	"strings"
)

// Image is device code found in a file: a kind for an architecture.
type Image struct {
	Kind    Kind
	Num     int
	Suffix  string
	Name    string // GFX, Bitcode, SPIRV: "gfx90a", as in Code; "" for bitcode that does not say it
	Feature string // GFX, Bitcode: ":xnack-", as in Code
}

// Version is of what made an image, from the left as far as it is known: for machine code the
// release of the toolkit (13, 5), for PTX that of the language (9, 5), for LTO-IR those of its
// container and of NVVM IR (1, 67, 2, 131). A linker takes none that is newer than its own.
type Version [4]int

// Newer reports that v is of a newer tool than w. What is not known of v is no newer.
func (v Version) Newer(w Version) bool { return slices.Compare(v[:], w[:]) > 0 }

// String is "13.5", or "1.67 with NVVM IR 2.131".
func (v Version) String() string {
	s := fmt.Sprintf("%d.%d", v[0], v[1])
	if v[2] > 0 {
		s += fmt.Sprintf(" with NVVM IR %d.%d", v[2], v[3])
	}
	return s
}

// Code is the image's architecture as it is written in a manifest: lto_80, gfx90a:xnack-.
func (i Image) Code() Code { return Code(i) }

// String is the code, with a word on its kind where the code does not tell it: "lto_80",
// "gfx90a:xnack- bitcode".
func (i Image) String() string {
	if !i.Code().amd() {
		return i.Code().String()
	}
	return strings.TrimSpace(i.Code().String() + " " + i.Kind.String())
}

// String names the kind in the words of its vendor's documentation.
func (k Kind) String() string {
	return [...]string{"SASS", "PTX", "LTO-IR", "code object", "set", "bitcode", "SPIR-V"}[k]
}

// Spell lists images as a message does: "sm_80, gfx90a bitcode".
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
