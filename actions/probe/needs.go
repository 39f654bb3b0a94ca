package probe

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Needs adds what the targets of a project need: the compilers of its device code, the processor of
// this machine, and the files of prebuilt libraries.
func (r *Request) Needs(p *manifest.Project) {
	if tc, ok := p.Toolchains["hip"]; ok {
		r.HIP = find.Wanted{Compiler: tc.Compiler, Version: tc.Version}
		r.HIP.Accepts, _ = manifest.ParseConstraint(tc.Version) // nil if there is none
	}
	for _, t := range p.Targets {
		r.NativeCPU = r.NativeCPU || host.NativeCPU(t.Flags.Link)
		r.NeedHIPHeaders = r.NeedHIPHeaders || t.HIPForNVIDIA()
		for _, s := range t.Sources {
			r.NativeCPU = r.NativeCPU || host.NativeCPU(slices.Concat(s.Flags.Host, s.Flags.NVCC, s.Flags.Clang, s.Flags.HIP))
			r.NeedCUDA = r.NeedCUDA || s.Language == "cuda"
			r.NeedAMD = r.NeedAMD || s.Language == "hip" && !t.HIPForNVIDIA()
		}
		for _, code := range t.Gencode.Code {
			r.NeedAMD = r.NeedAMD || code.Kind == gencode.GFX
			// for the libraries that a program of host sources links
			r.NeedCUDA = r.NeedCUDA || code.Kind != gencode.GFX
			r.NeedNative = r.NeedNative || code.Kind == gencode.Set && code.Name == "native"
		}
		if f := t.Archive + t.SharedFile; t.Kind == manifest.Prebuilt && f != "" {
			r.Prebuilt = append(r.Prebuilt, f)
		}
	}
	r.NeedCUDA = r.NeedCUDA || len(r.Prebuilt) > 0 && !r.NeedAMD
}
