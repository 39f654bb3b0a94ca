package clangcuda

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// LastMajor is the newest clang that was seen to take linked device code in place of that which its
// wrapper would link.
const LastMajor = 23

// firstInner is the first clang whose wrapper hands bitcode to a clang of each architecture; those
// before optimise in its own process.
const firstInner = 20

// LinksApart reports a clang whose links with LTO can be taken apart by architecture.
func LinksApart(major int) bool { return major > firstInner } // 20 was not tried

// MisreadsImages reports a toolkit of whose linked code clang 22 and 23 read the architecture
// wrongly: sm_90 as sm_90a, since the machine code of CUDA 13 has its flags in other places. The
// wrapper would label it so, and a program would hold none for its GPU.
func MisreadsImages(toolkit string) bool {
	major, _, _ := strings.Cut(toolkit, ".")
	n, err := strconv.Atoi(major)
	return err != nil || n >= 13
}

// Link is a link of relocatable code by clang-linker-wrapper.
type Link struct {
	Major       int // of clang
	LTO         bool
	Opt         string         // "2"
	Images      []string       // linked device code, one file for each architecture; nil has the wrapper link it
	Codes       []gencode.Code // what the wrapper links for; unused with Images
	LinkerFlags []string       // for nvlink; unused with Images
}

// Link gives the argv that a link by the host's compiler has in place of that compiler's name. Up
// to clang 22 the wrapper, and the clang that it runs, look for ptxas, nvlink and fatbinary in PATH
// unless they are told of the toolkit.
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
	if l.Major >= firstInner && l.Images == nil {
		argv = append(argv, "-Xlinker", "--device-compiler="+triple+"=--cuda-path="+k.CUDAPath)
	}
	for _, image := range l.Images {
		argv = append(argv, "-Xlinker", "--override-image=cuda="+image)
	}
	return argv
}

const triple = "nvptx64-nvidia-cuda"

// DeviceLTO gives the argv that links bitcode for one architecture, as the wrapper has clang do it.
// The inputs end in .o: others would be compiled first.
func (k Driver) DeviceLTO(code gencode.Code, inputs []string, output string) []string {
	argv := []string{k.Path, "--no-default-config", "--target=" + triple, "-march=" + code.String(), "--cuda-path=" + k.CUDAPath, "-Wno-unknown-cuda-version"}
	return slices.Concat(argv, []string{"-o", output}, inputs)
}

// NVLink gives the argv that links files for one architecture, as the wrapper has nvlink do it.
func NVLink(program string, code gencode.Code, flags, inputs []string, output string) []string {
	return slices.Concat([]string{program, "-arch", code.String()}, flags, []string{"-o", output}, inputs)
}
