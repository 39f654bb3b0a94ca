package plan

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Facts is what the planner may know about the world. actions/probe collects it before planning;
// tests write it by hand. Nothing in here is looked up again during planning.
type Facts struct {
	CUDA        *Toolkit // nil when none was found or none is needed
	CUDAError   string   // why CUDA is nil: what was looked for, where, and what to do
	CUDAMisses  Missed   // what of the toolchain block it is that is not here
	HIP         *HIP     // nil when none was found or none is needed
	HIPError    string   // why HIP is nil
	HIPHeaders  string   // folder with HIP's headers for NVIDIA's GPUs; "" if none was found or none is needed
	CXX, CC     Tool     // host compilers for C++ and C sources and for links
	AR          Tool
	HostLTO     HostLTO             // what CXX optimises across files with
	NVCCFlags   []string            // what NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS add to every command of nvcc
	LinkDepfile bool                // the linker knows --dependency-file
	LinkTrace   bool                // the linker is GNU ld: with --verbose it tells which files it looked for
	NativeGPU   []gencode.Code      // SASS codes of the GPUs of this machine; nil if there are none
	NativeCPU   string              // what compilers take the processor of this machine for; "" if no flag asks
	Prebuilt    map[string]Library  // by path as written in the manifest
	DryRuns     map[string]DryRun   // answers to Plan.Questions, by Question.Key
	Libs        map[string][]string // by name of a -l library: the files that it may be, outside of the toolkit
	Behind      map[string]Behind   // by file of a prebuilt or a -l library
	Unseen      map[string]string   // by name of a -l library: why it may be another file, of which nothing is known
	Static      map[string]string   // by name of a -l library, and by LibIn: its archive, "" if that holds no device code of NVIDIA; what it holds is in Prebuilt
}

// LibIn is what Facts.Static has the library under that -lNAME means in a folder of some target's
// lib_dirs.
func LibIn(dir, name string) string { return dir + "/lib" + name }

// static is the archive with device code of NVIDIA that -lNAME means in a link which searches dirs
// first, "" if it means none.
func (f *Facts) static(name string, dirs []string) string {
	for _, d := range dirs {
		if file, ok := f.Static[LibIn(d, name)]; ok {
			return file
		}
	}
	return f.Static[name]
}

// AnyStatic reports that some -l may mean an archive with device code of NVIDIA.
func (f *Facts) AnyStatic() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.Static)), func(file string) bool { return file != "" })
}

// AnyNeedsToolkit reports a shared library that needs one of the toolkit.
func (f *Facts) AnyNeedsToolkit() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.Behind)), func(b Behind) bool { return b.Toolkit })
}

// Behind is what links have to know of a shared library: what it needs in turn, outside of the
// system and the toolkit, and how it is found.
type Behind struct {
	Files   []string
	Beside  []string // folders of Files that no loader searches: they lie beside the library that needs them
	Missing string   // the name of one that was not found, ""
	Toolkit bool     // it needs a library of the toolkit, and does not lead to it
	Unnamed bool     // it has no DT_SONAME: a link by its path would record that path
}

// DryRun is what `nvcc --dryrun`, `hipcc -###` or `clang -###` printed, or why it could not be
// asked.
type DryRun struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`

	Asked []string          `json:"asked,omitempty"` // where the question names files: its arguments,
	Files map[string]string `json:"files,omitempty"` // and the content of the files, as a digest, by path

	Misparsed string `json:"misparsed,omitempty"` // how it came out that a pass was learned wrongly from it: the tool as one command did not fail
}

// Tool is a program with its identity by content.
type Tool struct {
	Path    string `json:"path"`             // absolute
	Version string `json:"version"`          // as it says itself, "12.2.0"
	ID      string `json:"id"`               // hex digest over the content of everything it runs
	Family  string `json:"family,omitempty"` // of a host compiler: "gcc" or "clang"; "" for others
	Plain   bool   `json:"plain,omitempty"`  // a host compiler that is known to be one itself, and takes no options from files of its own
	Error   string `json:"error,omitempty"`  // why Path is empty
}

// HostLTO is what a host compiler needs besides itself to optimise across files.
type HostLTO struct {
	AR     Tool   // makes archives of its objects; of gcc it is ar with Plugin
	Plugin string // gcc: liblto_plugin.so, which lets ar read its objects; "" for clang
	LD     string // clang: the ld.lld of its own LLVM, where it would find another; "" if it finds that one
	Error  string // "" or why it cannot, with what to do
}

// Missed is what a toolchain block asks for, and what there is.
type Missed struct {
	Attribute string // "version"; "" if it is none that the block has
	Truth     string // "CUDA 11.8 is here, and not >= 12"; "" if there is no more to say than that nothing is here
}

// Toolkit is an installed CUDA toolkit.
type Toolkit struct {
	NVCC      Tool              // its identity is that of all that it runs
	Parts     Tool              // that of the toolkit alone: cicc, ptxas and their like run no host compiler
	HostCXX   Tool              // what nvcc is told to use (-ccbin), g++-11 for CUDA 11.8 of Debian 12
	Version   string            // "11.8"
	Build     string            // "11.8.89"
	Root      string            // folder that holds bin/, nvvm/ ...
	LibDirs   []string          // where libcudart_static.a and libcudadevrt.a are, for the host link; in order
	Includes  []string          // toolkit include folders that a host compiler needs to find cuda_runtime.h; may be empty
	Archs     []gencode.Code    // SASS codes that nvcc knows, sm_90a and sm_100f too; in ascending order
	LTOFault  string            // "" or why `nvlink -dlto` does not work as nvcc runs it, with the fix; kbuild needs it only where LibNVVM is ""
	LTOFloats string            // how an LTO link comes to the floating-point options of its code: "" by itself, FloatsTold, FloatsLost, FloatsUntried
	LibFaults map[string]string // by file, of nvcc.Libraries: why a link would not take that of the toolkit, with the fix
	HostFault string            // "" or why the host compiler that the toolchain block names is none for this toolkit
	Mixed     string            // "" or which parts are of another version than nvcc, with the fix
	Programs  map[string]string // the toolkit's own programs by name: "cicc", "ptxas"
	FatbinC   map[string]string // C text that fatbinary makes of some image, by "rdc" and "whole": what host code is compiled with before there is device code
	LibNVVM   string            // libnvvm.so where LTOFault is that nvlink looks for it in vain; else ""
	LibDir    string            // that of LibDirs which nvcc does not name, for it names one that is not there; else ""
	LibPath   string            // the LD_LIBRARY_PATH to start nvcc with where its programs would else load libraries from the folder that they run in; else ""
	CUDART    string            // what -l names the shared runtime by where there is no libcudart.so: ":libcudart.so.13"; else ""
	Clang     *ClangCUDA        // compiles in place of nvcc; nil if nvcc does. Archs are then those that both know

	Makes map[gencode.Kind]gencode.Version // versions of the code that it makes, by kind: its linker takes none that is newer
}

// Toolkit.LTOFloats of a toolkit whose nvlink -dlto computes with the defaults whatever the code
// was compiled with.
const (
	FloatsTold = "told" // unless it is told with -Xnvvm
	FloatsLost = "lost" // and cannot be told
)

// FloatsUntried is Toolkit.LTOFloats where the trial of it failed.
const FloatsUntried = "untried"

// ClangCUDA is a clang that compiles CUDA with a toolkit.
type ClangCUDA struct {
	Driver   Tool     // clang++; its identity is that of all that it runs
	CUDAPath string   // where it finds the toolkit
	Libs     []string // all device libraries of the toolkit
}

// HIP is an installed HIP compiler.
type HIP struct {
	Driver     Tool              // hipcc or a clang; its identity is that of all that it runs
	Clang      Tool              // the clang++ that it runs: compiles host sources of HIP targets, and links
	Major      int               // version of clang, 15
	Archs      []string          // processors that clang knows, "gfx90a"; nil if it does not say
	Env        []string          // NAME=VALUE of the variables that it reads, sorted
	Includes   []string          // folders where a host compiler finds hip/hip_runtime.h
	DeviceLibs []string          // all device libraries of the folder that it takes by default
	Looked     []string          // where device libraries are looked for by default
	Programs   map[string]string // of its LLVM, for the new offload driver: "packager", "llvm-offload-wrapper"; none that is not there

	CompilesNew, LinksNew bool // by default a compile, or a link, is one of clang's new offload driver

	LibsFault    string // "" or why clang takes none of the device libraries that it finds; with the fix
	CompileFault string // "" or why device code cannot be compiled by any flags: clang and the device libraries do not fit together; with the fix
	LinkFault    string // "" or why no device code can be linked: clang and lld do not fit together; with the fix
}

// isHipcc tells hipcc from a clang that was named in its place.
func (k *HIP) isHipcc() bool { return strings.HasPrefix(path.Base(k.Driver.Path), "hipcc") }

// Library is what a prebuilt archive or shared file holds.
type Library struct {
	Error   string   // why it could not be read; "" if it was
	Form    string   // what kind of file it is: "archive", "object", "fatbin", "LTO-IR", ...
	Members []Member // archive members with device code, in order; a shared file has one
}

// Member is an object of a library that holds relocatable or linked device code.
type Member struct {
	Name        string // "legacy.o"
	Relocatable bool   // has __nv_relfatbin, AMD bitcode or .llvm.offloading: takes part in a device link
	NewDriver   bool   // has .llvm.offloading: takes part in those of clang's new offload driver alone
	Images      []gencode.Image
	Fatbins     []string // what its host code calls linked HIP code: "__hip_fatbin_7fc235930abc2441"
	Options     []string // what cicc was told, of each kind of its LTO-IR: "-ftz=0 -prec_div=1 ..."; "" where it is not recorded

	Versions map[gencode.Kind]gencode.Version // of what made its images, by kind; none that is not known
}

// NVLinkReads reports relocatable device code of NVIDIA. AMD's is linked by other tools.
func (m Member) NVLinkReads() bool {
	return m.Relocatable && !m.NewDriver && !holds(m, gencode.Bitcode)
}

func holds(m Member, k gencode.Kind) bool {
	return slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return i.Kind == k })
}
