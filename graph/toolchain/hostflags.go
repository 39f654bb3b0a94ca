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

// OfHost gives the options of nvcc that are for the host compiler: -Xcompiler hands on a list, whose commas "\," does not split.
func OfHost(nvcc []string) (options []string) {
	for i := 0; i < len(nvcc); i++ {
		name, list, joined := strings.Cut(nvcc[i], "=")
		if name != "-Xcompiler" && name != "--compiler-options" {
			continue
		}
		if !joined && i+1 < len(nvcc) {
			i++
			list = nvcc[i]
		}
		options = append(options, splitList(list)...)
	}
	return options
}

// splitList splits at commas without a backslash before them.
func splitList(list string) []string {
	words := []string{""}
	for i := 0; i < len(list); i++ {
		last := len(words) - 1
		switch {
		case list[i] == '\\' && i+1 < len(list) && list[i+1] == ',':
			words[last] += ","
			i++
		case list[i] == ',':
			words = append(words, "")
		default:
			words[last] += list[i : i+1]
		}
	}
	return words
}
