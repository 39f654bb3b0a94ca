package host

import "strings"

// What a host compiler does besides compiling, by its options. The last of several options wins, as it does in gcc and clang.

// IntermediateCode gives the option of a host compiler that puts the compiler's own code into objects, in place of machine code or
// beside it; "" if there is none. A link takes that code and not the sections of the object, so device code cannot be put into it
// afterwards.
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
	if lto == "" {
		return bitcode
	}
	return lto
}

// NativeCPU reports an option that has a compiler make code for the processor of the machine that it runs on.
func NativeCPU(options []string) bool {
	for _, o := range options {
		if strings.Contains(o, "-march=native") || strings.Contains(o, "-mtune=native") || strings.Contains(o, "-mcpu=native") {
			return true
		}
	}
	return false
}
