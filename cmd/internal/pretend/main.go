// Command pretend is a CUDA toolchain for tests: nvcc 11.8 with its programs, gcc, g++ and ar. The
// name that it is called by selects the program. The programs take options, read and write files,
// warn and fail like the real ones. Where kbuild parses outputs, they have the real format: objects
// are ELF files with fatbins. They contain no machine code. Instead they contain everything that
// real code depends on: the preprocessed text, the options that affect the output, the
// architecture, and the tool's version. An input that kbuild missed therefore changes the bytes.
//
// A line with __global__ or __device__ is a device function. All other lines are host code. A word
// in a line triggers a warning in one pass:
//
//	#warning      the preprocessor, in every pass that reads the line
//	never_used    cicc, on a device line
//	never_called  cudafe++, on a host line
//	spills        ptxas, on a device line
//	unsigned_less the host compiler, on a host line, if -Wall is given
//
// A device line with the word ptxas_rejects fails in ptxas.
//
// The command avoids standard packages that start slowly, such as regexp. A test runs tens of
// thousands of these processes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// version is the version of the tools: the suffix of the program's name, as in g++-2. A program
// with another version also has other content.
var version = func() string {
	exe, _ := os.Executable()
	_, v, _ := strings.Cut(filepath.Base(exe), "-")
	return v
}()

func main() {
	debug.SetGCPercent(-1)
	args := os.Args[1:]
	run := map[string]func([]string) error{"nvcc": nvcc, "cicc": cicc, "ptxas": ptxas, "cudafe++": cudafe, "fatbinary": fatbinary,
		"nvlink": nvlink, "g++": gcc, "gcc": gcc, "ar": ar}[filepath.Base(os.Args[0])]
	if run == nil {
		fail(fmt.Errorf("pretend: no tool is called %s", os.Args[0]))
	}
	if err := run(args); err != nil {
		fail(err)
	}
}

func fail(err error) {
	if err.Error() != "" {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

func warn(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// after returns the value of an option that is written as two words, and advances i.
func after(args []string, i *int) string {
	if *i+1 < len(args) {
		*i++
		return args[*i]
	}
	return ""
}

// expanded replaces response files by the arguments in them.
func expanded(args []string) (out []string, err error) {
	for _, a := range args {
		file, ok := strings.CutPrefix(a, "@")
		if !ok {
			file, ok = strings.CutPrefix(a, "--options-file=")
		}
		if !ok {
			out = append(out, a)
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		more, err := expanded(strings.Fields(strings.ReplaceAll(string(text), "\\", "")))
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}
