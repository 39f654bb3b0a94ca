package hip

import (
	"path"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Compiler is an installed HIP compiler: hipcc, or the clang that it runs. Both accept the same
// options. hipcc adds options of its own, which its dry run shows (LearnCompile).
type Compiler struct {
	Driver toolchain.Tool // hipcc or a clang; its ID covers everything that it runs

	// The clang++ that it runs: compiles host sources of HIP targets, and links.
	Clang      toolchain.Tool
	Major      int      // version of clang, 15
	Archs      []string // processors that clang supports, "gfx90a"; nil if unknown
	Env        []string // NAME=VALUE of the variables that it reads, sorted
	Includes   []string // include folders of hip/hip_runtime.h for a host compiler
	DeviceLibs []string // all device libraries of its default folder
	Looked     []string // folders that it searches for device libraries by default

	// Of its LLVM, for the new offload driver: "packager", "llvm-offload-wrapper"; only those that
	// exist.
	Programs map[string]string

	// Whether compiles, and links, use clang's new offload driver by default.
	CompilesNew, LinksNew bool

	// "" or why clang accepts none of the device libraries that it finds; with the fix.
	LibsFault string

	// "" or why no flags make device code compile: clang and the device libraries do not match;
	// with the fix.
	CompileFault string

	// "" or why no device code can be linked: clang and lld do not match; with the fix.
	LinkFault string
}

// isHipcc reports whether the driver is hipcc, not a clang that was named in its place.
func (k *Compiler) isHipcc() bool { return strings.HasPrefix(path.Base(k.Driver.Path), "hipcc") }

// Messages are those of lld in a compile of final code.
var Messages = []toolchain.Message{
	{Pattern: `lld: error: undefined (?:\w+ )?symbol: (.+)`, Advice: toolchain.OtherFile},
}
