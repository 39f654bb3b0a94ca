package verify

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// ignored reports whether no record needs a use of a path. A class of uses hides every fault in it,
// so each names as little as possible, and has its reason. docs/cache.md summarises them.
func ignored(a *graph.Action, root string, u use) bool {
	base, probed := path.Base(u.Path), u.Use == strace.Looked
	switch {
	case a.Kind.Info().Generates && !within(u.place.real, root):
		// a generate block declares its inputs, and its program is in the key
	case within(u.Path, "/proc/self"), within(u.Path, "/sys/kernel/mm/transparent_hugepage"),
		u.Path == "/proc/sys/vm/overcommit_memory":
		// what the kernel reports to a process about itself, and how it grants memory
	case u.Path == "/etc/malloc.conf":
		// settings of jemalloc, which cicc 12 is linked with: how it grants memory
	case u.Path == "/dev/null", u.Path == "/dev/urandom":
		// one has no content, the other gives a name for a temporary file
	case u.Path == "/etc/ld.so.cache":
		// the index of ldconfig: the libraries in it are in the fingerprints of tools, which are
		// computed again when it changes
	case u.Path == "/usr/share/zoneinfo/UTC":
		// the zone of TZ=UTC, which every command has: outputs with the time are not shared, and
		// UTC does not change
	case u.Program == "collect2" && probed && slices.Contains(unusedByCollect2, base):
		// collect2 looks for nm and strip at each start, and needs them for no ELF file: if it ran
		// one, that would be read
	case probed && path.Dir(u.place.real) == root &&
		strings.HasPrefix(path.Base(u.place.real), "-l"):
		// gcc compares the name of its output with each argument, -lm too, and refuses an equal one
	case u.Program == "lto-wrapper" && probed &&
		strings.HasPrefix(strings.TrimPrefix(u.place.real, root+"/"), "-f"):
		// lto-wrapper opens each argument to see whether it is an object, even the options that the
		// linker's plugin passes
	case strings.HasPrefix(u.Program, "clang") && clang.ProbesForOther(a, u.place.real):
		// clang looks for a CUDA toolkit and for ROCm at each start, whatever it compiles
	default:
		return false
	}
	return true
}

var unusedByCollect2 = []string{"nm", "gnm", "strip", "gstrip"}
