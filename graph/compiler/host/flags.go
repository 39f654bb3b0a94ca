package host

import (
	"cmp"
	"slices"
	"strings"
)

// What a host compiler does besides compiling, by its options. The last of several options wins, as
// it does in gcc and clang.

// IntermediateCode gives the option of a host compiler that puts the compiler's own code into
// objects, in place of machine code or beside it; "" if there is none. A link takes that code and
// not the sections of the object, so device code cannot be put into it afterwards.
func IntermediateCode(options []string) string {
	lto, bitcode := "", ""
	for _, o := range options {
		name, _, _ := strings.Cut(o, "=")
		switch name {
		case "-flto":
			lto = o
		case "-fno-lto":
			lto = ""
		case "-fembed-bitcode":
			bitcode = o
		}
	}
	return cmp.Or(lto, bitcode)
}

// NativeCPU reports an option that has a compiler make code for the processor of the machine that
// it runs on.
func NativeCPU(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		return strings.Contains(o, "-march=native") || strings.Contains(o, "-mtune=native") || strings.Contains(o, "-mcpu=native")
	})
}

// AsksForDebug reports an option of gcc, clang or nvcc whose debug information would name the
// folder of the build.
func AsksForDebug(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		return o == "-G" || strings.HasPrefix(o, "-g") && !strings.HasPrefix(o, "-gencode") ||
			strings.Contains(o, "lineinfo") || strings.Contains(o, "line-info") || strings.Contains(o, "debug")
	})
}

// AssemblerOptions returns the options that have an effect where assembler source is compiled, and
// may return others.
func AssemblerOptions(options []string) []string {
	return slices.DeleteFunc(slices.Clone(options), func(o string) bool {
		return strings.HasPrefix(o, "-f") || strings.HasPrefix(strings.TrimPrefix(o, "-"), "-coverage")
	})
}

// RecordsLines reports an option that puts positions of the source into an output, or may.
func RecordsLines(options []string) bool {
	return AsksForDebug(options) || slices.ContainsFunc(options, func(o string) bool {
		return slices.ContainsFunc(lineSigns, func(sign string) bool { return strings.HasPrefix(o, sign) })
	})
}

// lineSigns start options that put positions of the source into an output besides debug
// information: coverage and profiles, sanitizers, outputs that are text or bytecode, names that are
// made from that of the source, what is for the assembler, which may be debug information as well,
// and remarks of clang's optimiser.
var lineSigns = []string{"-fsanitize", "--coverage", "-fprofile", "-fauto-profile", "-fbranch-prob", "-ftest-coverage",
	"-finstrument", "-fplugin", "-flto", "-fverbose-asm", "-fcallgraph-info", "-fdump", "-save-temps", "-Wa,", "-Xassembler", "-funique-internal", "-fembed-bitcode",
	"-fthin", "-fcoverage", "-Rpass"}

// IsSpecs reports a file that tells gcc how to run what it runs.
func IsSpecs(option string) bool {
	return strings.HasPrefix(option, "-specs=") || strings.HasPrefix(option, "--specs=")
}
