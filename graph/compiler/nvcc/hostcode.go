package nvcc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/optfile"
)

// What nvcc hands on to the host compiler, and what its host code is compiled and linked with.

// HostOptions gives the options of nvcc that are for the host compiler: -Xcompiler hands on a list,
// whose commas "\," does not split.
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

// HostHeaders are what the host code that cudafe++ makes includes of the toolkit, besides what all
// sources include.
var HostHeaders = []string{"crt/host_runtime.h", "crt/host_defines.h", "crt/func_macro.h", "crt/storage_class.h", "math_constants.h", "fatbinary_section.h"}

// Preprocesses are the commands by which nvcc preprocesses, by what its dry run says of a compile.
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

// RuntimeLibs are the toolkit's libraries that a program with device code links. cudart is
// "static", "shared" or "none", and shared what -l names the shared one by, "" for cudart.
func RuntimeLibs(cudart, shared string, deviceLink bool) []string {
	var libs []string
	if deviceLink {
		libs = append(libs, "cudadevrt")
	}
	switch cudart {
	case "none":
		return libs
	case "shared":
		libs = append(libs, cmp.Or(shared, "cudart"))
	default:
		libs = append(libs, "cudart_static")
	}
	return append(libs, "rt", "pthread", "dl")
}

// Toolkit is the tool of passes that run no host compiler, in keys: another host compiler changes
// the texts that they read or nothing.
const Toolkit = "toolkit"

// Programs are the programs of a toolkit that nvcc runs.
var Programs = []string{"cicc", "cudafe++", "ptxas", "fatbinary", "nvlink"}

// TileIRAS is the program that compiles tile code. A toolkit may lack it (13.1 and newer).
const TileIRAS = "tileiras"

// Missing says which of Programs a toolkit lacks, "" if none. programs are paths by name.
func Missing(programs map[string]string) string {
	for _, name := range Programs {
		if programs[name] == "" {
			return "the toolkit's " + name + " was not found"
		}
	}
	return ""
}

// Libraries are what links take of a toolkit; the last one only where cudart = "shared".
var Libraries = []string{"libcudadevrt.a", "libcudart_static.a", "libcudart.so"}
