package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// HIP for NVIDIA's GPUs is CUDA: HIP's headers (hip/nvidia_detail) rename CUDA's functions, and
// hipcc with HIP_PLATFORM=nvidia runs nvcc. So kbuild compiles the HIP sources of a target with
// NVIDIA codes as CUDA, with those headers.

// asCUDA returns t with its HIP sources as CUDA sources if its codes are NVIDIA's; otherwise t
// itself.
func (f *Facts) asCUDA(t *manifest.Target) *manifest.Target {
	if !t.HIPForNVIDIA() {
		return t
	}
	cuda, one := *t, "1"
	platform := []manifest.Define{{Name: "__HIP_PLATFORM_NVIDIA__", Value: &one}}
	cuda.Sources = slices.Clone(t.Sources)
	for i := range cuda.Sources {
		s := &cuda.Sources[i]
		s.Defines = slices.Concat(platform, s.Defines)
		if s.Language == "hip" {
			s.Language = "cuda"
		}
	}
	if f.HIPHeaders != "" && f.HIPHeaders != systemHeaders {
		cuda.PrivateIncludes = append(slices.Clone(t.PrivateIncludes), f.HIPHeaders)
	}
	return &cuda
}

// systemHeaders is the folder that every compiler searches.
const systemHeaders = "/usr/include"

// checkHIPHeaders reports missing HIP headers for NVIDIA's GPUs, unless the manifest names folders
// that may have them.
func (b *builder) checkHIPHeaders(t *target) {
	if b.facts.HIPHeaders != "" || !t.isHIPForNVIDIA || len(t.Includes)+len(t.PrivateIncludes) > 0 || !b.build.Once(toolchain.NoHIP) {
		return
	}
	b.problems.Errorf(t.Sources[0].Pos, `Looked for hip/nvidia_detail in the include folders of ROCM_PATH, HIP_PATH, /opt/rocm and /usr. Install them (Debian and Ubuntu: apt install libamdhip64-dev; `+
		`ROCm: hip-runtime-nvidia-dev), or name their folder in includes.`, "%s has HIP sources and code for NVIDIA's GPUs, and HIP's headers for those were not found", t.Label)
}
