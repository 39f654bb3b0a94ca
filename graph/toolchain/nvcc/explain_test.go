package nvcc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

func TestExplain(t *testing.T) {
	a := &graph.Action{Name: "a.cu", Target: "library.a", Pos: graph.Pos{File: "kernels.hcl", Line: 3}, Archs: []string{"sm_90"}}
	for output, want := range map[string][]toolchain.Fault{
		"a.cu(1): error: expected a ;": nil,
		"nvlink error   : Undefined reference to '_Z1fv' in 'a.o'": {
			{Kind: toolchain.Undefined, Names: []string{"_Z1fv"}, Files: []string{"a.o"}}},
		"ptxas fatal   : Unresolved extern function 'f'\nptxas fatal   : Unresolved extern function 'g'": {
			{Names: []string{"f", "g"}, Advice: `{names} {are} of another file, and mode = "whole" compiles each source by itself: set mode = "rdc" or "lto" on library.a (kernels.hcl:3)`}},
		"ptxas error   : Feature '.bf16' requires .target sm_80 or higher": {
			{Names: []string{".bf16"}, Advice: ".bf16 needs sm_80: drop older ones from the code of library.a, or put it under #if __CUDA_ARCH__ >= 800"}},
		"ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)": {
			{Names: []string{"k"}, Advice: "{names} has 65536 bytes of static shared memory; at most 49152 are possible. With extern __shared__ and cudaFuncSetAttribute(..., " +
				"cudaFuncAttributeMaxDynamicSharedMemorySize, ...) a block on sm_90 may have 227 KiB"}},
		`calling a constexpr __host__ function("operator()") from a __device__ function. --expt-relaxed-constexpr`: nil,
		"nvcc fatal   : Value 'c++20' is not defined for option 'std'": {
			{Names: []string{}, Advice: `this nvcc does not know std = "c++20"; CUDA 12.0 and newer do: set cuda_std = "c++17" on library.a (kernels.hcl:3) for its CUDA sources`}},
	} {
		got := Explain(a, output)
		for i := range got {
			if len(got[i].Names) == 0 {
				got[i].Names = []string{}
			}
			if len(got[i].Files) == 0 {
				got[i].Files = nil
			}
		}
		if len(got)+len(want) > 0 && !cmp.Equal(got, want) {
			t.Errorf("%s: %s", output, cmp.Diff(want, got))
		}
	}
}
