package nvcc

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// What nvcc passes to the host compiler, and how its host code is compiled and linked.

// HostOptions returns the options that nvcc passes to the host compiler. -Xcompiler takes a list,
// in which "\," is a comma that does not split.
func HostOptions(nvcc []string) (options []string) {
	for i := 0; i < len(nvcc); i++ {
		name, list, joined := strings.Cut(nvcc[i], "=")
		if name != "-Xcompiler" && name != "--compiler-options" {
			continue
		}
		if !joined && i+1 < len(nvcc) {
			i++
			list = nvcc[i]
		}
		options = append(options, optfile.SplitCommas(list)...)
	}
	return options
}

// HostHeaders lists the toolkit headers that cudafe++'s output includes, besides those that all
// sources include.
var HostHeaders = []string{"crt/host_runtime.h", "crt/host_defines.h", "crt/func_macro.h", "crt/storage_class.h", "math_constants.h", "fatbinary_section.h"}

// Preprocesses returns the preprocessor commands in nvcc's dry run of a compile.
func Preprocesses(text string) (argvs [][]string, err error) {
	d, err := ParseDryRun(text)
	if err != nil {
		return nil, err
	}
	for _, s := range d.Steps {
		if s.Tool == "gcc" && slices.Contains(s.Argv, "-E") {
			argvs = append(argvs, s.Argv)
		}
	}
	return argvs, nil
}

// Toolkit is the tool, in keys, of passes that run no host compiler. Another host compiler can
// affect them only through the texts that they read.
const Toolkit = "toolkit"

// Programs lists the programs of a toolkit that nvcc runs.
var Programs = []string{"cicc", "cudafe++", "ptxas", "fatbinary", "nvlink"}

// TileIRAS is the program that compiles tile code. A toolkit may lack it (13.1 and newer).
const TileIRAS = "tileiras"

// Missing returns which of Programs a toolkit lacks, "" if none. programs maps names to paths.
func Missing(programs map[string]string) string {
	for _, name := range Programs {
		if programs[name] == "" {
			return "the toolkit's " + name + " was not found"
		}
	}
	return ""
}

// Libraries lists the toolkit libraries that links use; the last one only if cudart = "shared".
var Libraries = []string{"libcudadevrt.a", "libcudart_static.a", "libcudart.so"}
