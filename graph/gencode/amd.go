package gencode

import (
	"slices"
	"strings"
)

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
