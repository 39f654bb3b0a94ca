package execute

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/graph"
)

// leftOut lists the uses of paths that no record needs, each class with its reason. A class hides
// every fault in it, so each names as little as possible. docs/cache.md summarises them.
var leftOut = []struct {
	reason string
	is     func(a *graph.Action, root string, u use) bool
}{
	{"what a generate block takes of the system: the block declares its inputs, and its program is in the key", func(a *graph.Action, root string, u use) bool {
		return a.Kind == graph.Generate && !within(u.place.real, root)
	}},
	{"what the kernel tells a process of itself, and how it gives memory: no file of anybody's", func(_ *graph.Action, _ string, u use) bool {
		return within(u.Path, "/proc/self") || within(u.Path, "/sys/kernel/mm/transparent_hugepage") || u.Path == "/proc/sys/vm/overcommit_memory"
	}},
	{"settings of jemalloc, which cicc 12 is linked with: how it gives memory", func(_ *graph.Action, _ string, u use) bool {
		return u.Path == "/etc/malloc.conf"
	}},
	{"devices that hold nothing: one gives no byte, the other a name for a temporary file", func(_ *graph.Action, _ string, u use) bool {
		return u.Path == "/dev/null" || u.Path == "/dev/urandom"
	}},
	{"the index of ldconfig: what it leads to is in the identities of tools, and when it changes they are identified again", func(_ *graph.Action, _ string, u use) bool {
		return u.Path == "/etc/ld.so.cache"
	}},
	{"the zone of TZ=UTC, which every command has: what tells the time is not shared, and UTC is what the name says", func(_ *graph.Action, _ string, u use) bool {
		return u.Path == "/usr/share/zoneinfo/UTC"
	}},
	{"collect2 looks for nm and strip at each start, and needs them for no ELF file: if it ran one, that would be read", func(_ *graph.Action, _ string, u use) bool {
		return u.Program == "collect2" && u.Use == strace.Looked && slices.Contains(unusedByCollect2, path.Base(u.Path))
	}},
	{"gcc compares the name of its output with each argument, -lm too, and refuses an equal one", func(_ *graph.Action, root string, u use) bool {
		return u.Use == strace.Looked && path.Dir(u.place.real) == root && strings.HasPrefix(path.Base(u.place.real), "-l")
	}},
	{"lto-wrapper opens each of its arguments to see whether it is an object, the options that the linker's plugin gives it, too", func(_ *graph.Action, root string, u use) bool {
		return u.Program == "lto-wrapper" && u.Use == strace.Looked && strings.HasPrefix(strings.TrimPrefix(u.place.real, root+"/"), "-f")
	}},
	{"clang looks for a CUDA toolkit and for ROCm at each start, whatever it compiles", func(a *graph.Action, _ string, u use) bool {
		return strings.HasPrefix(u.Program, "clang") && otherVendor(a, u.place.real)
	}},
}

var unusedByCollect2 = []string{"nm", "gnm", "strip", "gstrip"}

// otherVendor reports whether clang probes name to find the toolkit of a vendor, and a compiles
// nothing for that vendor's GPUs.
func otherVendor(a *graph.Action, name string) bool {
	// a clang beside nvcc is the host compiler
	cuda, hip := slices.Contains(a.Tools, "clang"), slices.Contains(a.Tools, "hip")
	switch base := path.Base(name); {
	case strings.HasPrefix(name, "/usr/local/cuda") || within(name, "/usr/lib/cuda") || base == "ptxas" || base == "cuda.h" || within(name, "/usr/nvvm"):
		return !cuda
	case name == "/opt" || strings.HasPrefix(name, "/opt/rocm") || base == ".hipVersion" || strings.HasSuffix(name, "/share/hip/version"):
		return !hip
	}
	return false
}

// reasonFor returns why a use is left out, or "".
func reasonFor(a *graph.Action, root string, u use) string {
	for _, c := range leftOut {
		if c.is(a, root, u) {
			return c.reason
		}
	}
	return ""
}
