// Package compdb builds a compilation database for editors. It knows what clangd understands, and
// not how kbuild runs compilers.
package compdb

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// Command is one element of compile_commands.json, as clang documents it.
type Command struct {
	Directory string   `json:"directory"`
	File      string   `json:"file"`
	Arguments []string `json:"arguments"`
	Output    string   `json:"output"`
}

// Commands returns the compiles that want needs, for a project in root and an optional CUDA
// toolkit. The plan must not split nvcc, because an editor expects one command per source.
func Commands(g *graph.Graph, want []graph.ActionID, root, toolkit string) []Command {
	commands := []Command{}
	for _, id := range g.Closure(want) {
		a := g.Actions[id]
		c := Command{Directory: root, Output: a.Outputs[0]}
		switch {
		case !a.Kind.Info().CompilesSource():
			continue
		case slices.Index(a.Tools, "nvcc") == 0:
			c.Arguments = clangArgs(a.Argv, clangToolkit(toolkit))
		default:
			c.Arguments = withoutDepfile(a.Argv)
		}
		c.File = a.Inputs[0]
		commands = append(commands, c)
	}
	return commands
}

// clangArgs translates an nvcc command line for clangd, which supports CUDA but not nvcc's options.
func clangArgs(argv []string, toolkit string) []string {
	out := []string{"clang++", "-x", "cuda", "--cuda-path=" + toolkit, "-nocudalib", "-Wno-unknown-cuda-version", "-D__CUDACC_RDC__"}
	arch := ""
	for i := 1; i < len(argv); i++ {
		a := argv[i]
		switch {
		case a == "-gencode":
			i++
			if arch == "" {
				arch = strings.TrimPrefix(strings.SplitN(argv[i], ",", 2)[0], "arch=compute_")
			}
		case a == "-Xcompiler":
			i++
			out = append(out, nvcc.ReadList(argv[i], false)...)
		case a == "-ccbin" || a == "-Xptxas" || a == "-Xcicc" || a == "-Xnvlink" || a == "-x" || a == "-MF":
			i++
		case strings.HasPrefix(a, "-I"), strings.HasPrefix(a, "-D"):
			for _, value := range nvcc.ReadList(a[2:], a[1] == 'I') {
				out = append(out, a[:2]+value)
			}
		case strings.HasPrefix(a, "-std="), strings.HasPrefix(a, "-O"), a == "-g":
			out = append(out, a)
		}
	}
	if arch != "" {
		out = append(out, "--cuda-gpu-arch=sm_"+arch)
	}
	return append(out, "-c", argv[len(argv)-1])
}

// clangToolkit returns the folder that clang accepts as a CUDA installation. Debian spreads the
// toolkit over /usr, and provides such a folder for clang.
func clangToolkit(root string) string {
	const debian = "/usr/lib/cuda"
	if _, err := os.Stat(filepath.Join(root, "include", "cuda.h")); err != nil {
		if _, err := os.Stat(debian); err == nil {
			return debian
		}
	}
	return root
}

// withoutDepfile removes the options that write a dependency file.
func withoutDepfile(argv []string) []string {
	argv = slices.DeleteFunc(slices.Clone(argv), func(arg string) bool { return arg == "-MD" })
	if i := slices.Index(argv, "-MF"); i >= 0 {
		argv = slices.Delete(argv, i, i+2)
	}
	argv[0] = filepath.ToSlash(argv[0])
	return argv
}
