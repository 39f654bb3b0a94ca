package plan

import (
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// toolchains returns the toolchains for NVIDIA's and for AMD's GPUs. Nothing else in this package
// depends on which toolchains there are.
func (f *Facts) toolchains(p *manifest.Project) (nvidia, amd toolchain.Toolchain) {
	k := cuda.Host{Toolkit: f.CUDA, Missing: f.CUDAError, Misses: f.CUDAMisses, Flags: f.NVCCFlags, Project: p}
	nvidia, amd = &nvcc.Toolchain{Host: k}, &hip.Toolchain{Compiler: f.HIP, Missing: f.HIPError}
	if f.CUDA != nil && f.CUDA.Clang != nil {
		nvidia = &clangcuda.Toolchain{Host: k, NVCC: nvidia}
	}
	return nvidia, amd
}
