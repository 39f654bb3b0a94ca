package plan

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Facts holds everything that the planner knows about the host environment. actions/probe collects
// it before planning; tests write it by hand. The planner looks nothing up.
type Facts struct {
	CUDA       *Toolkit // nil if none was found or none is needed
	CUDAError  string   // why CUDA is nil: what was searched for, where, and what to do
	CUDAMisses Missed   // the attribute of the toolchain block that no toolkit satisfies
	HIP        *HIP     // nil if none was found or none is needed
	HIPError   string   // why HIP is nil

	// Folder with HIP's headers for NVIDIA's GPUs; "" if none was found or none is needed.
	HIPHeaders string
	CXX, CC    Tool // host compilers for C++ and C sources and for links
	AR         Tool
	HostLTO    HostLTO // what CXX needs to optimise across files

	// What NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS add to every nvcc command.
	NVCCFlags   []string
	LinkDepfile bool // the linker supports --dependency-file

	// The linker is GNU ld: with --verbose it prints which files it probed.
	LinkTrace bool
	NativeGPU []gencode.Code // SASS codes of the GPUs of this machine; nil if there are none

	// How compilers identify the processor of this machine; "" if no flag needs it.
	NativeCPU string
	Prebuilt  map[string]Library // by path as written in the manifest
	DryRuns   map[string]DryRun  // results of Plan.Questions, by Question.Key

	// By name of a -l library: the files that it may resolve to, outside of the toolkit.
	Libs   map[string][]string
	Behind map[string]Behind // by file of a prebuilt or a -l library

	// By name of a -l library: why it may resolve to another file, about which nothing is known.
	Unseen map[string]string

	// By name of a -l library, and by LibIn: its archive, "" if that holds no NVIDIA device code;
	// the contents are in Prebuilt.
	Static map[string]string
}

// LibIn returns the key in Facts.Static of the library that -lNAME finds in a folder of some
// target's lib_dirs.
func LibIn(dir, name string) string { return dir + "/lib" + name }

// static returns the archive with NVIDIA device code that -lNAME finds in a link which searches
// dirs first, or "".
func (f *Facts) static(name string, dirs []string) string {
	for _, d := range dirs {
		if file, ok := f.Static[LibIn(d, name)]; ok {
			return file
		}
	}
	return f.Static[name]
}

// AnyStatic reports whether some -l may find an archive with NVIDIA device code.
func (f *Facts) AnyStatic() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.Static)), func(file string) bool { return file != "" })
}

// AnyNeedsToolkit reports whether some shared library needs a library of the toolkit.
func (f *Facts) AnyNeedsToolkit() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.Behind)), func(b Behind) bool { return b.Toolkit })
}

// Behind describes the dependencies of a shared library that are outside of the system and the
// toolkit, and how a link finds them.
type Behind struct {
	Files []string

	// Folders of Files that no loader searches: those beside the library that needs them.
	Beside  []string
	Missing string // the name of a dependency that was not found, or ""
	Toolkit bool   // it needs a library of the toolkit and has no run path to it
	Unnamed bool   // it has no DT_SONAME: a link by its path would record that path
}

// DryRun is the output of `nvcc --dryrun`, `hipcc -###` or `clang -###`, or the reason why there is
// none.
type DryRun struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`

	Asked []string `json:"asked,omitempty"` // if the query names files: its arguments,

	// And digests of the contents of the files, by path.
	Files map[string]string `json:"files,omitempty"`

	// The evidence that the dry run was misparsed: the unsplit command succeeded.
	Misparsed string `json:"misparsed,omitempty"`
}

// Tool is a program with a fingerprint of its content.
type Tool struct {
	Path    string `json:"path"`             // absolute
	Version string `json:"version"`          // as it reports itself, "12.2.0"
	ID      string `json:"id"`               // hex digest over the content of everything it runs
	Family  string `json:"family,omitempty"` // of a host compiler: "gcc" or "clang"; "" for others

	// Of a host compiler: known to be the compiler itself, without option files of its own.
	Plain bool   `json:"plain,omitempty"`
	Error string `json:"error,omitempty"` // why Path is empty
}

// HostLTO holds what a host compiler needs besides itself to optimise across files.
type HostLTO struct {
	AR     Tool   // archiver of its objects; for gcc it is ar with Plugin
	Plugin string // gcc: liblto_plugin.so, which lets ar read its objects; "" for clang

	// clang: the ld.lld of its own LLVM if it would find another; "" if it finds that one.
	LD    string
	Error string // "" or why it cannot, and what to do
}

// Missed identifies a requirement of a toolchain block that nothing installed satisfies.
type Missed struct {
	Attribute string // "version"; "" if no attribute of the block is the cause
	Truth     string // "CUDA 11.8 is here, and not >= 12"; "" if nothing is installed
}

// Toolkit is an installed CUDA toolkit.
type Toolkit struct {
	NVCC  Tool // its ID covers everything that it runs
	Parts Tool // the toolkit alone: cicc, ptxas and the like run no host compiler

	// The host compiler of nvcc (-ccbin), g++-11 for CUDA 11.8 of Debian 12.
	HostCXX Tool
	Version string // "11.8"
	Build   string // "11.8.89"
	Root    string // folder that holds bin/, nvvm/ ...

	// Folders of libcudart_static.a and libcudadevrt.a, for the host link; in order.
	LibDirs []string

	// Include folders of the toolkit in which a host compiler finds cuda_runtime.h; may be empty.
	Includes []string

	// SASS codes that nvcc supports, including sm_90a and sm_100f; in ascending order.
	Archs []gencode.Code

	// "" or why `nvlink -dlto` fails as nvcc runs it, with the fix; kbuild needs that command only
	// if LibNVVM is "".
	LTOFault string

	// How an LTO link gets the floating-point options of its code: "" from the code, or FloatsTold,
	// FloatsLost, FloatsUntried.
	LTOFloats string

	// By file, of nvcc.Libraries: why a link would not find the toolkit's own, with the fix.
	LibFaults map[string]string

	// "" or why the toolchain block's host compiler does not work with this toolkit.
	HostFault string
	Mixed     string            // "" or which parts differ in version from nvcc, with the fix
	Programs  map[string]string // the toolkit's own programs by name: "cicc", "ptxas"

	// C text that fatbinary writes for a placeholder image, by "rdc" and "whole"; host code is
	// compiled with it before there is device code.
	FatbinC map[string]string
	LibNVVM string // libnvvm.so if nvlink does not find it (LTOFault); else ""

	// The folder of LibDirs that nvcc does not pass, because it passes one that does not exist;
	// else "".
	LibDir string

	// LD_LIBRARY_PATH for nvcc, if its programs would otherwise load libraries from their working
	// directory; else "".
	LibPath string

	// -l name of the shared runtime if there is no libcudart.so: ":libcudart.so.13"; else "".
	CUDART string

	// Compiles in place of nvcc; nil if nvcc does. Archs then holds the codes that both support.
	Clang *ClangCUDA

	// Versions of the code that it generates, by kind: its linker rejects newer code.
	Makes map[gencode.Kind]gencode.Version
}

// Values of Toolkit.LTOFloats for a toolkit whose nvlink -dlto ignores the options that the code
// was compiled with.
const (
	FloatsTold = "told" // it uses defaults unless -Xnvvm sets the options
	FloatsLost = "lost" // it always uses defaults
)

// FloatsUntried is the value of Toolkit.LTOFloats if the trial failed.
const FloatsUntried = "untried"

// ClangCUDA is a clang that compiles CUDA with a toolkit.
type ClangCUDA struct {
	Driver   Tool     // clang++; its ID covers everything that it runs
	CUDAPath string   // the toolkit's folder
	Libs     []string // all device libraries of the toolkit
}

// HIP is an installed HIP compiler.
type HIP struct {
	Driver Tool // hipcc or a clang; its ID covers everything that it runs

	// The clang++ that it runs: compiles host sources of HIP targets, and links.
	Clang      Tool
	Major      int      // version of clang, 15
	Archs      []string // processors that clang supports, "gfx90a"; nil if unknown
	Env        []string // NAME=VALUE of the variables that it reads, sorted
	Includes   []string // include folders of hip/hip_runtime.h for a host compiler
	DeviceLibs []string // all device libraries of its default folder
	Looked     []string // folders that it searches for device libraries by default

	// Of its LLVM, for the new offload driver: "packager", "llvm-offload-wrapper"; only those that
	// exist.
	Programs map[string]string

	// Whether compiles, and links, use clang's new offload driver by default.
	CompilesNew, LinksNew bool

	// "" or why clang accepts none of the device libraries that it finds; with the fix.
	LibsFault string

	// "" or why no flags make device code compile: clang and the device libraries do not match;
	// with the fix.
	CompileFault string

	// "" or why no device code can be linked: clang and lld do not match; with the fix.
	LinkFault string
}

// isHipcc reports whether the driver is hipcc, not a clang that was named in its place.
func (k *HIP) isHipcc() bool { return strings.HasPrefix(path.Base(k.Driver.Path), "hipcc") }

// Library describes the content of a prebuilt archive or shared file.
type Library struct {
	Error   string   // why it could not be read, or ""
	Form    string   // the kind of file: "archive", "object", "fatbin", "LTO-IR", ...
	Members []Member // archive members with device code, in order; a shared file has one
}

// Member is an object of a library that holds relocatable or linked device code.
type Member struct {
	Name string // "legacy.o"

	// Has __nv_relfatbin, AMD bitcode or .llvm.offloading: takes part in a device link.
	Relocatable bool

	// Has .llvm.offloading: takes part only in links of clang's new offload driver.
	NewDriver bool
	Images    []gencode.Image

	// Symbols by which its host code refers to linked HIP code: "__hip_fatbin_7fc235930abc2441".
	Fatbins []string

	// Cicc options of each kind of its LTO-IR: "-ftz=0 -prec_div=1 ..."; "" if not recorded.
	Options []string

	// Of the tools that generated its images, by kind; only known ones.
	Versions map[gencode.Kind]gencode.Version
}

// NVLinkReads reports whether m holds relocatable device code that nvlink reads. Other tools link
// AMD code.
func (m Member) NVLinkReads() bool {
	return m.Relocatable && !m.NewDriver && !holds(m, gencode.Bitcode)
}

func holds(m Member, k gencode.Kind) bool {
	return slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return i.Kind == k })
}
