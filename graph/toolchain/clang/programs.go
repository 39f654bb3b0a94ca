package clang

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// Languages are those of sources with device code, as -x names them.
var Languages = []string{"hip", "cuda"}

// Runs reports whether clang does the work of an action, in whatever driver.
func Runs(a *graph.Action) bool {
	isClang := func(arg string) bool { return strings.Contains(path.Base(arg), "clang") }
	return slices.Contains(a.Tools, "hip") || slices.Contains(a.Tools, "clang") || slices.ContainsFunc(a.Argv, isClang)
}

// ProbesForOther reports whether clang probes a path to find the toolkit of a vendor, and a
// compiles nothing for that vendor's GPUs. clang looks for CUDA and for ROCm at each start.
func ProbesForOther(a *graph.Action, name string) bool {
	// a clang beside nvcc is the host compiler
	cuda, hip := slices.Contains(a.Tools, "clang"), slices.Contains(a.Tools, "hip")
	under := func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
	switch base := path.Base(name); {
	case strings.HasPrefix(name, "/usr/local/cuda"), under("/usr/lib/cuda"),
		base == "ptxas", base == "cuda.h", under("/usr/nvvm"):
		return !cuda
	case name == "/opt", strings.HasPrefix(name, "/opt/rocm"), base == ".hipVersion",
		strings.HasSuffix(name, "/share/hip/version"):
		return !hip
	}
	return false
}
