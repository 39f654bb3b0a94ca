// Command pretend is a CUDA toolchain for tests: nvcc 11.8 with the programs behind it, gcc, g++
// and ar, each by the name that the program is called by. They take options, read and write files,
// warn and fail as measured of the real ones, and what they make is of the real form where kbuild
// reads it: objects are ELF, with fatbins in them. There is no machine code in it. In its place
// stands all that the real code depends on: the preprocessed text, the options that reach the
// output, the architecture, and the version of the tool. So an input that kbuild has missed shows
// as other bytes.
//
// A device function is a line of the text that says __global__ or __device__; all other lines are
// host code. A line warns in the pass whose word it holds:
//
//	#warning      the preprocessor, in every pass that reads the line
//	never_used    cicc, on a device line
//	never_called  cudafe++, on a host line
//	spills        ptxas, on a device line
//	unsigned_less the host compiler, on a host line, if -Wall is given
//
// A device line that says ptxas_rejects fails there.
//
// Standard packages that take long to start, regexp among them, are not used: a test runs tens of
// thousands of these processes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// version is that of the tools: the end of the name of the program, g++-2. Its content is another
// one too.
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

// after gives the value of an option that is written as two words, and what is left.
func after(args []string, i *int) string {
	if *i+1 < len(args) {
		*i++
		return args[*i]
	}
	return ""
}

// expanded puts the arguments of response files in their place.
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
