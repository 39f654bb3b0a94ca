package clangcuda

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// LastOverride is the newest clang that was seen to take linked device code in place of that which its wrapper would link, and to name its
// architecture. That of 23 writes another name for AMD's.
const LastOverride = 22

// Link is a link of relocatable code by clang-linker-wrapper.
type Link struct {
	LTO         bool
	Opt         string         // "2"
	Images      []string       // linked device code, one file for each architecture; nil has the wrapper link it
	Codes       []gencode.Code // what the wrapper links for; unused with Images
	LinkerFlags []string       // for nvlink; unused with Images
}

// Link gives the argv that a link by the host's compiler has in place of that compiler's name. The wrapper of clang 19 to 22 looks for
// nvlink and fatbinary in PATH unless it is told of the toolkit.
func (k Driver) Link(l Link) []string {
	argv := []string{k.Path, "--cuda-path=" + k.CUDAPath, "-Wno-unused-command-line-argument", "--offload-link"}
	if l.Opt != "" {
		argv = append(argv, "-O"+l.Opt)
	}
	if l.LTO {
		argv = append(argv, ltoOption)
	}
	for _, c := range l.Codes { // from clang 21 on: of archives, too, it then takes all for these
		argv = append(argv, clang.OffloadArch+c.String())
	}
	for _, f := range l.LinkerFlags {
		if l.Images == nil {
			argv = append(argv, "-Xoffload-linker", f)
		}
	}
	argv = append(argv, "-Xlinker", "--cuda-path="+k.CUDAPath)
	for _, image := range l.Images {
		argv = append(argv, "-Xlinker", "--override-image=cuda="+image)
	}
	return argv
}

// NVLink gives the argv that links files for one architecture, as the wrapper has nvlink do it.
func NVLink(program string, code gencode.Code, flags, inputs []string, output string) []string {
	return slices.Concat([]string{program, "-arch", code.String()}, flags, []string{"-o", output}, inputs)
}
