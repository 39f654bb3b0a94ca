package toolchain

import (
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
)

// TimeTrace is the option that makes clang write a file of timings for each pass.
const TimeTrace = "-ftime-trace"

// IsTimeTrace reports whether an output of a holds timings, which differ from run to run.
func IsTimeTrace(a *graph.Action, output string) bool {
	return path.Ext(output) == ".json" && slices.Contains(a.Argv, TimeTrace)
}
