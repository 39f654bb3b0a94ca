// Package vendors is the one place that knows which toolchains there are: a project's compilers,
// and what the planner and the engine ask about all of them.
package vendors

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Installed holds the toolchains as found on this machine, as part of the planner's facts.
type Installed struct {
	CUDA nvcc.Toolchain
	HIP  hip.Toolchain
}

// vendors returns the toolchains: a new one needs a field above, and a line here.
func (in *Installed) vendors() []vendor {
	return []vendor{
		&in.CUDA,
		&in.HIP,
	}
}

// vendor is a toolchain that finds itself. It is empty until Find.
type vendor interface {
	toolchain.Toolchain

	// Find sets what of the toolchain is installed, or why it is not.
	Find(*find.Finder, find.Wanted)

	// Doctor reports what a build would use, with a fix for each fault.
	Doctor(*find.Finder, find.Wanted) []find.Finding

	// Launched returns paths that must stay absent for a launched command of compiler, which runs
	// in dir. known reports that compiler, a script, reads only variables that are in keys. The
	// error is the reason why the command passes through.
	Launched(f *find.Finder, compiler, dir string) (absent []string, known bool, err error)
}

// toolchains returns the toolchains that compile. For CUDA that may be a clang.
func (in *Installed) toolchains() (list []toolchain.Toolchain) {
	for _, v := range in.vendors() {
		list = append(list, v)
	}
	if in.CUDA.Toolkit != nil && in.CUDA.Clang != nil {
		list[0] = &clangcuda.Toolchain{Host: in.CUDA.Host, NVCC: &in.CUDA}
	}
	return list
}

// Toolchains returns the toolchains, by the language of the sources that they compile.
func (in *Installed) Toolchains() map[string]toolchain.Toolchain {
	toolchains := map[string]toolchain.Toolchain{}
	for _, tc := range in.toolchains() {
		toolchains[tc.Info().Language] = tc
	}
	return toolchains
}

// Drivers returns the programs of the toolchains.
func (in *Installed) Drivers() (list []toolchain.Driver) {
	for _, tc := range in.toolchains() {
		list = append(list, tc.Info().Drivers...)
	}
	return list
}

// Driver returns the compiler driver among some tools of an action.
func (in *Installed) Driver(tools ...string) (d toolchain.Driver) {
	for _, d := range in.Drivers() {
		if d.Program != "" && slices.Contains(tools, d.Name) {
			return d
		}
	}
	return d
}

// Tools returns the tools of the toolchains, by the names that actions use for them.
func (in *Installed) Tools() map[string]toolchain.Tool {
	tools := map[string]toolchain.Tool{}
	for _, d := range in.Drivers() {
		if d.Tool != (toolchain.Tool{}) {
			tools[d.Name] = d.Tool
		}
	}
	return tools
}

// LibDirs returns the folders of the runtimes' libraries.
func (in *Installed) LibDirs() (dirs []string) {
	for _, tc := range in.toolchains() {
		dirs = append(dirs, tc.Info().LibDirs...)
	}
	return dirs
}

// QueryEnv returns the complete environment of a tool that answers queries. env is that of commands.
func (in *Installed) QueryEnv(tool string, env []string) []string {
	return append(nvcc.QueryEnviron(env), in.Driver(tool).Env...)
}

// QuerySource is the source in questions; it must exist.
const QuerySource = clang.QuerySource

// Fingerprint returns a fingerprint of all that the answer of a driver depends on besides the
// query. It covers the tools by content, and the environment variables that can change an answer.
func (in *Installed) Fingerprint(keyEnv []string) string {
	var about []string
	for _, d := range in.Drivers() {
		if d.Program != "" && d.Path != "" {
			about = append(append(about, d.Name, d.Path, d.ID), d.Env...)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(about, keyEnv), "\x00")))
	return fmt.Sprintf("%x", sum[:12])
}

// Flags returns the extra options of a target or a source as the manifest of a module has them.
func Flags(b *toolchain.Build, f *manifest.Flags) modinfo.Flags {
	return modinfo.Flags{NVCC: b.Local(f.NVCC), CICC: b.Local(f.CICC), PTXAS: b.Local(f.PTXAS), NVLink: b.Local(f.NVLink),
		HIP: b.Local(f.HIP), LLD: b.Local(f.LLD), Host: b.Local(f.Host)}
}

// Explain returns the faults that the output of an action reports, the most useful first.
func Explain(a *graph.Action, output string) []toolchain.Fault {
	return slices.Concat(nvcc.Explain(a, output), toolchain.Explain(hip.Messages, a, output), toolchain.ExplainHost(a, output))
}

// ReadOutput parses the output of an action's command, which ended with failed. text is what the user
// sees. err is failed with what the tool does not print, or an error that the exit status hides.
func ReadOutput(
	a *graph.Action, output string, failed error,
) (text string, functions []cache.Function, err error) {
	text, functions = nvcc.ReadPTXAS(output)
	if !a.Pass().ResourceUsage { // the user asked for it
		text = output
	}
	if a.Work.Link != nil {
		text, failed = nvcc.ReadLink(a, text, failed)
	}
	return text, functions, failed
}

// KeepAll returns the command of a device link with the option to keep code that nothing refers to.
func KeepAll(argv []string) []string { return nvcc.KeepAll(argv) }

// HasTimes reports whether an output of a holds the times of a run, which differ from run to run.
func HasTimes(a *graph.Action, output string) bool {
	return toolchain.IsTimeTrace(a, output) || nvcc.IsTimeFile(a, output)
}

// forNVIDIA reports whether a target has HIP sources and ships NVIDIA code.
func forNVIDIA(t *manifest.Target) bool {
	isHIP := func(s manifest.Source) bool { return s.Language == hip.Tool }
	return t.Gencode.Language() == "cuda" && slices.ContainsFunc(t.Sources, isHIP)
}

// HIP for NVIDIA's GPUs is CUDA: HIP's headers (hip/nvidia_detail) rename CUDA's functions, and
// hipcc with HIP_PLATFORM=nvidia runs nvcc. So kbuild compiles the HIP sources of a target with
// NVIDIA codes as CUDA, with those headers.

// Translate returns t with the sources that a toolchain compiles as another language, or t itself.
func (in *Installed) Translate(t *manifest.Target) *manifest.Target {
	if !forNVIDIA(t) {
		return t
	}
	cuda, one := *t, "1"
	platform := []manifest.Define{{Name: "__HIP_PLATFORM_NVIDIA__", Value: &one}}
	cuda.Sources = slices.Clone(t.Sources)
	for i := range cuda.Sources {
		s := &cuda.Sources[i]
		s.Defines = slices.Concat(platform, s.Defines)
		if s.Language == hip.Tool {
			s.Language = "cuda"
		}
	}
	if in.HIP.NVIDIAHeaders != "" && in.HIP.NVIDIAHeaders != systemHeaders {
		cuda.PrivateIncludes = append(slices.Clone(t.PrivateIncludes), in.HIP.NVIDIAHeaders)
	}
	return &cuda
}

// systemHeaders is the folder that every compiler searches.
const systemHeaders = "/usr/include"

// CheckHeaders reports missing headers of translated sources once, unless the manifest names
// folders that may have them. t is the target as written.
func (in *Installed) CheckHeaders(b *toolchain.Build, d *toolchain.Diagnostics, t *manifest.Target) {
	if in.HIP.NVIDIAHeaders != "" || !forNVIDIA(t) || len(t.Includes)+len(t.PrivateIncludes) > 0 || !b.Once(toolchain.NoCompiler) {
		return
	}
	d.Errorf(t.Sources[0].Pos, `Looked for hip/nvidia_detail in the include folders of ROCM_PATH, HIP_PATH, /opt/rocm and /usr. Install them (Debian and Ubuntu: apt install libamdhip64-dev; `+
		`ROCm: hip-runtime-nvidia-dev), or name their folder in includes.`, "%s has HIP sources and code for NVIDIA's GPUs, and HIP's headers for those were not found", t.Label())
}

// Needs lists what to find for the targets of a project, or for one command.
type Needs struct {
	Wanted       map[string]find.Wanted // of the toolchains, by language
	HostCompiler string                 // of CUDA, and of plain sources
	NeedNative   bool                   // look for GPUs
	NativeCPU    bool                   // something is compiled for the processor of this machine
	Prebuilt     []string
}

// Need adds the toolchain for a language.
func (n *Needs) Need(language string) {
	if w := n.Wanted[language]; !w.Needed {
		w.Needed = true
		n.Want(language, w)
	}
}

// Any reports whether some toolchain is needed.
func (n *Needs) Any() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(n.Wanted)), func(w find.Wanted) bool { return w.Needed })
}

// Want sets what is wanted of a toolchain. Copies of n stay as they are.
func (n *Needs) Want(language string, w find.Wanted) {
	if n.Wanted = maps.Clone(n.Wanted); n.Wanted == nil {
		n.Wanted = map[string]find.Wanted{}
	}
	n.Wanted[language] = w
}

// Add adds what the targets of a project need: the compilers of its device code, the processor of
// this machine, and the files of prebuilt libraries.
func (n *Needs) Add(p *manifest.Project) {
	n.HostCompiler = p.Toolchains["cuda"].HostCompiler
	for language, tc := range p.Toolchains {
		w := find.Wanted{Compiler: tc.Compiler, Folder: tc.Path, Version: tc.Version}
		w.Accepts, _ = manifest.ParseConstraint(tc.Version) // nil: any version
		n.Want(language, w)
	}
	for _, t := range p.Targets {
		n.NativeCPU = n.NativeCPU || host.NativeCPU(t.Flags.Link)
		translated := forNVIDIA(t)
		if translated {
			w := n.Wanted[hip.Tool]
			w.Headers = true
			n.Want(hip.Tool, w)
		}
		for _, s := range t.Sources {
			flags := slices.Concat(s.Flags.Host, s.Flags.NVCC, s.Flags.Clang, s.Flags.HIP)
			n.NativeCPU = n.NativeCPU || host.NativeCPU(flags)
			if s.IsDevice() && !(translated && s.Language == hip.Tool) {
				n.Need(s.Language)
			}
		}
		for _, code := range t.Gencode.Code {
			n.Need(code.Language()) // for the libraries that a program of host sources links
			n.NeedNative = n.NeedNative || code.Kind == gencode.Set && code.Name == "native"
		}
		if f := t.Archive + t.SharedFile; t.Kind == manifest.Prebuilt && f != "" {
			n.Prebuilt = append(n.Prebuilt, f)
		}
	}
	if len(n.Prebuilt) > 0 && !n.Wanted[hip.Tool].Needed {
		n.Need("cuda")
	}
}

// Find finds the toolchains, and the compilers of plain sources, which are those of CUDA.
func (n *Needs) Find(f *find.Finder) (in Installed, cxx, c toolchain.Tool) {
	f.HostCompiler = n.HostCompiler
	for _, v := range in.vendors() {
		if w := n.Wanted[v.Info().Language]; w.Needed || w.Headers {
			v.Find(f, w)
		}
	}
	switch k := in.CUDA.Toolkit; {
	case k != nil && find.IsClang(n.Wanted["cuda"].Compiler):
		if k.Clang, in.CUDA.Missing = clangcuda.Find(f, n.Wanted["cuda"], k); k.Clang == nil {
			in.CUDA.Toolkit = nil
			break
		}
		cxx = f.FindCompiler(cmp.Or(n.HostCompiler, k.Clang.Driver.Path)) // clang compiles its host code as well
		return in, cxx, f.FindCompiler(find.CFor(cxx.Path), "clang", "gcc", "cc")
	case k != nil:
		return in, k.HostCXX, f.FindCompiler(find.CFor(k.HostCXX.Path), "gcc", "clang", "cc")
	}
	return in, f.FindCompiler(n.HostCompiler, "g++", "clang++", "c++"), f.FindCompiler(find.CFor(n.HostCompiler), "gcc", "clang", "cc")
}

// Launched makes n what a launched command needs: see vendor.Launched.
func (n *Needs) Launched(f *find.Finder, c *host.Command, dir string) (absent []string, known bool, err error) {
	compiler, in := c.Argv[0], Installed{}
	for _, v := range in.vendors() {
		if i := v.Info(); i.Drivers[0].Name == c.Tool {
			n.Want(i.Language, find.Wanted{Needed: true, Compiler: compiler})
			return v.Launched(f, compiler, dir)
		}
	}
	n.HostCompiler = compiler
	return nil, false, nil
}

// Met reports whether all that n needs was found.
func (n *Needs) Met(in *Installed) bool {
	return (!n.Wanted[hip.Tool].Headers || in.HIP.NVIDIAHeaders != "") && !slices.ContainsFunc(in.toolchains(), func(tc toolchain.Toolchain) bool {
		i := tc.Info()
		return n.Wanted[i.Language].Needed && i.Missing != ""
	})
}

// Doctor reports the toolchains that a build would use, with a fix for each fault.
func (n *Needs) Doctor(f *find.Finder, in *Installed) (list []find.Finding) {
	for _, v := range in.vendors() {
		i := v.Info()
		if w := n.Wanted[i.Language]; w.Needed {
			list = append(list, v.Doctor(f, w)...)
		}
	}
	return list
}

// IsLibrary reports whether -lNAME is a library of a toolkit. Some toolkits share their folder with
// the system: Debian's is in /usr/lib/x86_64-linux-gnu.
func IsLibrary(name string) bool { return libraryRE().MatchString(name) }

var libraryRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(cuda|cudart|cudadevrt|cublas|cublasLt|cufft|cufftw|cufile|cufile_rdma|cuinj64|accinj64|culibos|cupti|curand|cusolver|cusolver_lapack|cusolverMg|cusparse|lapack|metis|npp[a-z]+|nvblas|nvjpeg|nvrtc|nvrtc-builtins|nvToolsExt|nvvm|nvptxcompiler|nvperf_host|nvperf_target|nvJitLink|nvfatbin|nvidia-ml|cudnn[a-z_]*|OpenCL)(_static)?$`)
})
