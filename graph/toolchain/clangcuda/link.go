package clangcuda

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// LastMajor is the newest clang that was tested to accept linked device code in place of what its
// wrapper would link.
const LastMajor = 23

// firstInner is the first clang whose wrapper passes bitcode to a clang of each architecture.
// Earlier wrappers optimise in their own process.
const firstInner = 20

// LinksApart reports whether clang's links with LTO can be split by architecture.
func LinksApart(major int) bool { return major > firstInner } // 20 was not tested

// MisreadsImages reports whether clang 22 and 23 misread the architecture in the toolkit's linked
// code: sm_90 as sm_90a, since CUDA 13 stores the flags of machine code elsewhere. The wrapper
// would mislabel the code, and a program would have none for its GPU.
func MisreadsImages(toolkit string) bool {
	major, _, _ := strings.Cut(toolkit, ".")
	n, err := strconv.Atoi(major)
	return err != nil || n >= 13
}

// Link describes a link of relocatable code by clang-linker-wrapper.
type Link struct {
	Major int // of clang
	LTO   bool
	Opt   string // "2"

	// Linked device code, one file for each architecture; if nil, the wrapper links it.
	Images      []string
	Codes       []gencode.Code // architectures of the wrapper's links; unused with Images
	LinkerFlags []string       // for nvlink; unused with Images
}

// Link returns the argv that replaces the compiler's name in a host link. Up to clang 22 the
// wrapper, and the clang that it runs, search PATH for ptxas, nvlink and fatbinary unless options
// name the toolkit.
func (k Driver) Link(l Link) []string {
	argv := []string{k.Path, "--cuda-path=" + k.CUDAPath, "-Wno-unused-command-line-argument", "--offload-link"}
	if l.Opt != "" {
		argv = append(argv, "-O"+l.Opt)
	}
	if l.LTO {
		argv = append(argv, ltoOption)
	}
	// From clang 21 on the wrapper then loads all code for these from archives, too.
	for _, c := range l.Codes {
		argv = append(argv, clang.OffloadArch+c.String())
	}
	for _, f := range l.LinkerFlags {
		if l.Images == nil {
			argv = append(argv, "-Xoffload-linker", f)
		}
	}
	argv = append(argv, "-Xlinker", "--cuda-path="+k.CUDAPath)
	if l.Major >= firstInner && l.Images == nil {
		argv = append(argv, "-Xlinker", "--device-compiler="+triple+"=--cuda-path="+k.CUDAPath)
	}
	for _, image := range l.Images {
		argv = append(argv, "-Xlinker", "--override-image=cuda="+image)
	}
	return argv
}

const triple = "nvptx64-nvidia-cuda"

// DeviceLTO returns the argv that links bitcode for one architecture, as the wrapper's own clang
// command does. The inputs must end in .o: clang would compile others first.
func (k Driver) DeviceLTO(code gencode.Code, inputs []string, output string) []string {
	argv := []string{k.Path, "--no-default-config", "--target=" + triple, "-march=" + code.String(), "--cuda-path=" + k.CUDAPath, "-Wno-unknown-cuda-version"}
	return slices.Concat(argv, []string{"-o", output}, inputs)
}

// NVLink returns the argv that links files for one architecture, as the wrapper's own nvlink
// command does.
func NVLink(program string, code gencode.Code, flags, inputs []string, output string) []string {
	return slices.Concat([]string{program, "-arch", code.String()}, flags, []string{"-o", output}, inputs)
}
