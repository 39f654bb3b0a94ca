package toolchain

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

