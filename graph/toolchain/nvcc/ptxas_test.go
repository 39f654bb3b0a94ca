package nvcc

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/cache"
)

// What ptxas 12.4 said with -v, but for the warnings and the barriers.
const printedByPtxas = `ptxas info    : Overriding maximum register limit 256 for '_Z2k1Pfi' with  32 of maxrregcount option
ptxas info    : 40 bytes gmem, 16 bytes cmem[3]
ptxas info    : Function properties for _Z2f2v
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas warning : Stack size for entry function '_Z2k2ILi3EEvPf' cannot be statically determined
ptxas info    : Compiling entry function '_Z2k2ILi3EEvPf' for 'sm_80'
ptxas info    : Function properties for _Z2k2ILi3EEvPf
    400 bytes stack frame, 116 bytes spill stores, 140 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 128 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Function properties for _Z2f1fi
    264 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compile time = 1.234 ms
ptxas info    : Compiling entry function '_Z2k1Pfi' for 'sm_80'
ptxas info    : Function properties for _Z2k1Pfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, 364 bytes cmem[0]
`

func TestSplitResourceUsage(t *testing.T) {
	rest, functions := ReadPTXAS(printedByPtxas)
	const wantRest = `ptxas warning : Stack size for entry function '_Z2k2ILi3EEvPf' cannot be statically determined
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
`
	want := []cache.Function{
		{Name: "_Z2f2v", Arch: "sm_80", Stack: 8},
		{Name: "_Z2k2ILi3EEvPf", Arch: "sm_80", Entry: true, Registers: 32, Barriers: 1, Shared: 128, Constant: 368, Stack: 400, SpillStores: 116, SpillLoads: 140},
		{Name: "_Z2f1fi", Arch: "sm_80", Stack: 264},
		{Name: "_Z2k1Pfi", Arch: "sm_80", Entry: true, Registers: 24, Constant: 364},
	}
	if diff := cmp.Diff(want, functions); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantRest, rest); diff != "" {
		t.Error(diff)
	}
	if rest, functions := ReadPTXAS("warning: x\n    12 bytes of it\n"); rest != "warning: x\n    12 bytes of it\n" || functions != nil {
		t.Errorf("%q %v", rest, functions)
	}
}
