package compiler

import (
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
)

// TimeTrace is the option of clang that has it write what took how long, a file for each pass.
const TimeTrace = "-ftime-trace"

// IsTimeTrace reports an output of a that holds times, which differ from run to run.
func IsTimeTrace(a *graph.Action, output string) bool {
	return path.Ext(output) == ".json" && slices.Contains(a.Argv, TimeTrace)
}
