package vendors

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Needs lists what to find for the targets of a project, or for one command.
type Needs struct {
	CUDA           find.Wanted // its HostCompiler is also that of plain sources
	NeedCUDA       bool
	HIP            find.Wanted
	NeedAMD        bool
	NeedHIPHeaders bool // some target is HIP for NVIDIA's GPUs
	NeedNative     bool // look for GPUs
	NativeCPU      bool // something is compiled for the processor of this machine
	Prebuilt       []string
}

// Add adds what the targets of a project need: the compilers of its device code, the processor of
// this machine, and the files of prebuilt libraries.
func (n *Needs) Add(p *manifest.Project) {
	if tc, ok := p.Toolchains["hip"]; ok {
		n.HIP = find.Wanted{Compiler: tc.Compiler, Version: tc.Version}
		n.HIP.Accepts, _ = manifest.ParseConstraint(tc.Version) // nil if there is none
	}
	for _, t := range p.Targets {
		n.NativeCPU = n.NativeCPU || host.NativeCPU(t.Flags.Link)
		n.NeedHIPHeaders = n.NeedHIPHeaders || t.HIPForNVIDIA()
		for _, s := range t.Sources {
			flags := slices.Concat(s.Flags.Host, s.Flags.NVCC, s.Flags.Clang, s.Flags.HIP)
			n.NativeCPU = n.NativeCPU || host.NativeCPU(flags)
			n.NeedCUDA = n.NeedCUDA || s.Language == "cuda"
			n.NeedAMD = n.NeedAMD || s.Language == "hip" && !t.HIPForNVIDIA()
		}
		for _, code := range t.Gencode.Code {
			n.NeedAMD = n.NeedAMD || code.Kind == gencode.GFX
			// for the libraries that a program of host sources links
			n.NeedCUDA = n.NeedCUDA || code.Kind != gencode.GFX
			n.NeedNative = n.NeedNative || code.Kind == gencode.Set && code.Name == "native"
		}
		if f := t.Archive + t.SharedFile; t.Kind == manifest.Prebuilt && f != "" {
			n.Prebuilt = append(n.Prebuilt, f)
		}
	}
	n.NeedCUDA = n.NeedCUDA || len(n.Prebuilt) > 0 && !n.NeedAMD
}

// Key returns what the installed toolchains depend on besides the host environment.
func (n *Needs) Key() []any {
	return []any{n.CUDA.Compiler, n.CUDA.HostCompiler, n.CUDA.Version, n.NeedCUDA,
		n.HIP.Compiler, n.HIP.Version, n.NeedAMD, n.NeedHIPHeaders}
}

// Find finds the toolchains. names lists the variables that HIP's compilers read. made is the code
// that the CUDA toolkit generates for an empty source, by kind.
func (n *Needs) Find(f *find.Finder, names []string) (in Installed, made map[gencode.Kind]string) {
	if n.NeedCUDA {
		found := nvcc.Find(f, n.CUDA)
		in.CUDA, in.CUDAError, in.CUDAMisses, made = found.Toolkit, found.Error, found.Misses, found.Code
	}
	if k := in.CUDA; k != nil && find.IsClang(n.CUDA.Compiler) {
		if k.Clang, in.CUDAError = clangcuda.Find(f, n.CUDA, k); k.Clang == nil {
			in.CUDA = nil
		}
	}
	if n.NeedAMD {
		in.HIP, in.HIPError = hip.Find(f, n.HIP, names)
	}
	if n.NeedHIPHeaders {
		in.HIPHeaders = hip.FindHeaders(f)
	}
	return in, made
}

// Launched makes n what a launched command of a compiler that is neither nvcc nor the host's needs.
func (n *Needs) Launched(f *find.Finder, compiler, dir string) ([]string, bool, error) {
	n.HIP.Compiler, n.NeedAMD = compiler, true
	return hip.Launched(f, compiler, dir)
}

// Met reports whether each toolchain that n needs was found.
func (n *Needs) Met(in *Installed) bool {
	return (!n.NeedCUDA || in.CUDA != nil) && (!n.NeedAMD || in.HIP != nil) &&
		(!n.NeedHIPHeaders || in.HIPHeaders != "")
}

// Doctor reports the toolchains that a build would use, with a fix for each fault.
func (n *Needs) Doctor(f *find.Finder, in *Installed) (list []find.Finding) {
	if in.CUDA != nil {
		list = nvcc.Doctor(f, n.CUDA, in.CUDA)
	} else if n.NeedCUDA {
		list = append(list, find.Finding{Status: find.Fails, What: "CUDA toolkit", Text: in.CUDAError})
	}
	if in.HIP != nil {
		list = append(list, in.HIP.Doctor()...)
	} else if n.NeedAMD {
		list = append(list, find.Finding{Status: find.Fails, What: "HIP compiler", Text: in.HIPError})
	}
	return list
}

// QueryEnv returns the complete environment of a tool that answers queries. env is that of commands.
func (in *Installed) QueryEnv(tool string, env []string) []string {
	if tool == hip.Tool {
		return slices.Concat(env, in.HIP.Env, []string{hip.QueryEnv})
	}
	return env
}

// Fingerprint returns a fingerprint of all that the answer of a driver depends on besides the
// query. It covers the tools by content, and the environment variables that can change an answer.
func (in *Installed) Fingerprint(keyEnv []string) string {
	var about []string
	if k := in.CUDA; k != nil {
		about = append(about, k.NVCC.Path, k.NVCC.ID)
		if k.Clang != nil {
			about = append(about, "clang", k.Clang.Driver.Path, k.Clang.Driver.ID, k.Clang.CUDAPath)
		}
	}
	if k := in.HIP; k != nil {
		about = append(about, hip.Tool, k.Driver.Path, k.Driver.ID)
		keyEnv = slices.Concat(keyEnv, k.Env)
	}
	sum := sha256.Sum256([]byte(strings.Join(append(about, keyEnv...), "\x00")))
	return fmt.Sprintf("%x", sum[:12])
}
