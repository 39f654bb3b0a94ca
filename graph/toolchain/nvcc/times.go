package nvcc

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// nvcc measures the programs that it runs: `-time FILE` appends a table to a file, and since 13.0
// `-fdevice-time-trace FILE` writes a trace. So a compile with such an option stays one nvcc
// command, and the files are outputs of it.

const timeTable, timeTrace = "-time", "-fdevice-time-trace"

// IsTime reports whether option makes nvcc write times, with or without a value.
func IsTime(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	return slices.Contains([]string{timeTable, "-" + timeTable, timeTrace, "-" + timeTrace}, name)
}

// SplitTimes separates the options that make nvcc write times from the others, and returns the
// files that nvcc writes in a compile of object. A trace named "-" is written beside the object,
// and a table named "-" is printed. If several compiles have the options, each writes its files
// beside its object. nvcc 13.0 adds ".json" to the name of each trace, and newer ones only where it
// is missing.
func SplitTimes(options []string, object string, several bool) (others, times, files []string) {
	for i := 0; i < len(options); i++ {
		name, file, joined := strings.Cut(options[i], "=")
		if IsTime(name) && !joined && i+1 < len(options) {
			i++
			file = options[i]
		}
		if several && file != "" && file != "-" {
			file = object + "." + path.Base(file)
		}
		switch trace := strings.HasSuffix(name, timeTrace); {
		case !IsTime(name) || file == "":
			others = append(others, options[i])
		case file == "-" && !trace:
			times = append(times, timeTable+"=-")
		case !trace:
			file = path.Clean(file)
			times, files = append(times, timeTable+"="+file), append(files, file)
		default:
			if file == "-" {
				file = object
			}
			file = strings.TrimSuffix(path.Clean(file), ".json")
			times, files = append(times, timeTrace+"="+file), append(files, file+".json")
		}
	}
	return others, times, files
}

// IsTimeFile reports whether an output of a holds the times of a run of nvcc.
func IsTimeFile(a *graph.Action, output string) bool {
	return slices.Contains(a.Argv, timeTable+"="+output) ||
		slices.Contains(a.Argv, timeTrace+"="+strings.TrimSuffix(output, ".json"))
}
