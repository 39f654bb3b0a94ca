// Package vendors is the one place that knows which toolchains there are: a project's compilers,
// and what the planner and the engine ask about all of them.
package vendors

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Installed holds the compilers of device code that were found, as part of the planner's facts.
type Installed struct {
	CUDA       *cuda.Toolkit    // nil if none was found or none is needed
	CUDAError  string           // why CUDA is nil: what was searched for, where, and what to do
	CUDAMisses toolchain.Missed // the attribute of the toolchain block that no toolkit satisfies
	HIP        *hip.Compiler    // nil if none was found or none is needed
	HIPError   string           // why HIP is nil

	// Folder with HIP's headers for NVIDIA's GPUs; "" if none was found or none is needed.
	HIPHeaders string

	// What NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS add to every nvcc command.
	NVCCFlags []string
}

// Toolchains returns the toolchains, by the language of the sources that they compile.
func (in *Installed) Toolchains(p *manifest.Project) map[string]toolchain.Toolchain {
	k := cuda.Host{Toolkit: in.CUDA, Missing: in.CUDAError, Misses: in.CUDAMisses, Flags: in.NVCCFlags, Project: p}
	toolchains := map[string]toolchain.Toolchain{
		"cuda":   &nvcc.Toolchain{Host: k},
		hip.Tool: &hip.Toolchain{Compiler: in.HIP, Missing: in.HIPError},
	}
	if in.CUDA != nil && in.CUDA.Clang != nil {
		toolchains["cuda"] = &clangcuda.Toolchain{Host: k, NVCC: toolchains["cuda"]}
	}
	return toolchains
}

// Tools returns the tools of the toolchains, by the names that actions use for them.
func (in *Installed) Tools() map[string]toolchain.Tool {
	tools := map[string]toolchain.Tool{}
	if in.CUDA != nil {
		tools["nvcc"], tools[nvcc.Toolkit] = in.CUDA.NVCC, in.CUDA.Parts
		if in.CUDA.Clang != nil {
			tools["clang"] = in.CUDA.Clang.Driver
		}
	}
	if in.HIP != nil {
		tools[hip.Tool] = in.HIP.Driver
	}
	return tools
}

// Driver returns the name and the version of an action's compiler, for messages.
func (in *Installed) Driver(a *graph.Action) string {
	if slices.Contains(a.Tools, hip.Tool) {
		return "HIP, clang " + in.HIP.Clang.Version + ": hipcc"
	}
	if clang := in.CUDA.Clang; clang != nil && slices.Contains(a.Tools, "clang") {
		return "CUDA " + in.CUDA.Version + ", clang " + clang.Driver.Version + ": clang"
	}
	return "CUDA " + in.CUDA.Version + ": nvcc"
}

// Program returns the program of a tool, for messages.
func Program(tool string) string {
	return map[string]string{"nvcc": "nvcc", hip.Tool: "hipcc", "clang": "clang"}[tool]
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

// HIP for NVIDIA's GPUs is CUDA: HIP's headers (hip/nvidia_detail) rename CUDA's functions, and
// hipcc with HIP_PLATFORM=nvidia runs nvcc. So kbuild compiles the HIP sources of a target with
// NVIDIA codes as CUDA, with those headers.

// Translate returns t with the sources that a toolchain compiles as another language, or t itself.
func (in *Installed) Translate(t *manifest.Target) *manifest.Target {
	if !t.HIPForNVIDIA() {
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
	if in.HIPHeaders != "" && in.HIPHeaders != systemHeaders {
		cuda.PrivateIncludes = append(slices.Clone(t.PrivateIncludes), in.HIPHeaders)
	}
	return &cuda
}

// systemHeaders is the folder that every compiler searches.
const systemHeaders = "/usr/include"

// CheckHeaders reports missing headers of translated sources once, unless the manifest names
// folders that may have them. t is the target as written.
func (in *Installed) CheckHeaders(b *toolchain.Build, d *toolchain.Diagnostics, t *manifest.Target) {
	if in.HIPHeaders != "" || !t.HIPForNVIDIA() || len(t.Includes)+len(t.PrivateIncludes) > 0 || !b.Once(toolchain.NoCompiler) {
		return
	}
	d.Errorf(t.Sources[0].Pos, `Looked for hip/nvidia_detail in the include folders of ROCM_PATH, HIP_PATH, /opt/rocm and /usr. Install them (Debian and Ubuntu: apt install libamdhip64-dev; `+
		`ROCm: hip-runtime-nvidia-dev), or name their folder in includes.`, "%s has HIP sources and code for NVIDIA's GPUs, and HIP's headers for those were not found", t.Label())
}
