package nvcc

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// A device link is split by architecture:
//
//	a.cu.o -> slice [80] -> nvlink [80] --\
//	a.cu.o -> slice [90] -> nvlink [90] ---> fatbinary -> host-part -> dlink.o
//
// A slice holds what nvlink for one architecture reads of an object. A change of host code, or of
// another architecture, does not change it, and the link does not run. The action host-refs lists
// what plain host code refers to.

// File is an input of a device link. Slice names its slices in the folder of an architecture; it is
// "" for a file that nvlink reads as it is.
type File struct{ Path, Slice string }

// Link plans a device link of files.
func (s *Split) Link(c *LinkPasses, files []File) error {
	for _, pass := range c.NVLink {
		if _, err := gencode.Parse(pass.Arch); err != nil {
			return fmt.Errorf("nvlink for %s: %w", pass.Arch, err)
		}
	}
	part := s.Shared != nil && path.Ext(s.Out) == ".cubin"
	if part {
		s.Out = s.Dir + "/" + c.NVLink[0].Arch + ".cubin"
	}
	for _, pass := range c.NVLink {
		var inputs []string
		for _, f := range files {
			inputs = append(inputs, s.slice(f, pass.Arch))
		}
		s.nvlink(pass, inputs)
	}
	if part {
		s.Copy(s.file(RoleOutput), s.Whole.Outputs[0])
	}
	s.fatbinary(c.Fatbinary)
	if c.Host != nil {
		s.linkStub(c.Host)
	}
	return nil
}

// slice returns the file that the link for an architecture reads in place of f, and plans it.
// Several links share a slice.
func (s *Split) slice(f File, arch string) string {
	if f.Slice == "" {
		return f.Path
	}
	out := s.Layout.Out(graph.SlicesDir, arch, f.Slice)
	s.Emit(&graph.Action{Kind: graph.Slice, Name: strings.TrimPrefix(f.Path, s.BuildDir+"/"), Archs: []string{arch},
		Mode: s.Whole.Mode, Inputs: []string{f.Path}, Outputs: []string{out}, Intermediate: true, Transient: true})
	return out
}

// nvlink plans the link of one architecture.
func (s *Split) nvlink(pass *Pass, inputs []string) {
	a := s.action(graph.NVLink, pass, s.Programs["nvlink"])
	a.Inputs = append(a.Inputs, inputs...)
	at := slices.Index(a.Argv, Inputs)
	a.Argv = slices.Replace(a.Argv, at, at+1, a.Inputs...)
	if !s.Plain { // nvcc makes messages name the architecture if it links several
		a.Argv = slices.DeleteFunc(a.Argv, func(arg string) bool { return arg == "-report-arch" })
	}
	a.Archs, a.Work.Pass.EmptyCwd = []string{pass.Arch}, true
	a.Work.Link, a.Work.Response = s.Whole.Work.Link, cuda.OptionsFile
	if refs := a.Link().HostRefs; refs != "" {
		a.Inputs = append(a.Inputs, refs)
	}
	askResourceUsage(a)
	// Packages install libnvvm where nvlink does not search: pip's in lib, as libnvvm.so.4, and
	// Debian's in the system's folder.
	const option = "-nvvmpath="
	for i, arg := range a.Argv {
		if strings.HasPrefix(arg, option) && s.LibNVVM != "" {
			a.Argv[i] = option + graph.StageDir + "/nvvm"
			a.Work.Pass.Staged = []graph.StagedFile{{Name: "nvvm/lib64/libnvvm.so", Link: s.LibNVVM}}
		}
	}
	s.once(a)
}

// askResourceUsage makes the ptxas in nvlink print the resource usage of each function. Of several
// -Xptxas nvlink obeys the last, with a warning.
func askResourceUsage(a *graph.Action) {
	if !slices.Contains(a.Argv, "-dlto") {
		return
	}
	at := -1
	for i, arg := range a.Argv {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "Xptxas") {
			at = i
		}
	}
	switch {
	case at < 0:
		a.Argv, a.Work.Pass.ResourceUsage = slices.Insert(a.Argv, 1, "-Xptxas", "-v"), true
	case a.Argv[at] == "-Xptxas" && at+1 < len(a.Argv) && !slices.ContainsFunc(strings.Fields(a.Argv[at+1]), toolchain.IsVerbose):
		a.Argv[at+1] = strings.TrimSpace(a.Argv[at+1]) + " -v"
		a.Work.Pass.ResourceUsage = true
	}
}

// linkStub plans the compile of the toolkit's link.stub, which registers all linked modules.
func (s *Split) linkStub(pass *Pass) {
	a := s.action(graph.HostPart, pass, s.HostCXX.Path)
	a.Name, a.Archs = s.Whole.Name, s.Whole.Archs
	depends(a)
	a.Work.Pass.Macros = []string{ListMacro}
	s.Emit(a)
}

// What nvcc passes to the host compiler, and how its host code is compiled and linked.

// HostOptions returns the options that nvcc passes to the host compiler. -Xcompiler takes a list,
// in which "\," is a comma that does not split.
func HostOptions(nvcc []string) (options []string) {
	for i := 0; i < len(nvcc); i++ {
		name, list, joined := strings.Cut(nvcc[i], "=")
		if name != "-Xcompiler" && name != "--compiler-options" {
			continue
		}
		if !joined && i+1 < len(nvcc) {
			i++
			list = nvcc[i]
		}
		options = append(options, optfile.SplitCommas(list)...)
	}
	return options
}

// HostHeaders lists the toolkit headers that cudafe++'s output includes, besides those that all
// sources include.
var HostHeaders = []string{"crt/host_runtime.h", "crt/host_defines.h", "crt/func_macro.h", "crt/storage_class.h", "math_constants.h", "fatbinary_section.h"}

// Preprocesses returns the preprocessor commands in nvcc's dry run of a compile.
func Preprocesses(text string) (argvs [][]string, err error) {
	d, err := ParseDryRun(text)
	if err != nil {
		return nil, err
	}
	for _, s := range d.Steps {
		if s.Tool == "gcc" && slices.Contains(s.Argv, "-E") {
			argvs = append(argvs, s.Argv)
		}
	}
	return argvs, nil
}

// Programs lists the programs of a toolkit that nvcc runs.
var Programs = []string{"cicc", "cudafe++", "ptxas", "fatbinary", "nvlink"}

// TileIRAS is the program that compiles tile code. A toolkit may lack it (13.1 and newer).
const TileIRAS = "tileiras"

// Missing returns which of Programs a toolkit lacks, "" if none. programs maps names to paths.
func Missing(programs map[string]string) string {
	for _, name := range Programs {
		if programs[name] == "" {
			return "the toolkit's " + name + " was not found"
		}
	}
	return ""
}

// Libraries lists the toolkit libraries that links use; the last one only if cudart = "shared".
var Libraries = []string{"libcudadevrt.a", "libcudart_static.a", "libcudart.so"}
