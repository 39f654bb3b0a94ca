package vendors

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

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
