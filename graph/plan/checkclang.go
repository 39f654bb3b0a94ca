package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Limits of clang, reported before anything is compiled.

const useNVCC = `remove compiler = "clang..." from toolchain "cuda" to compile with nvcc`

// checkClang reports whether clang can compile a source of t with the manifest's settings.
func (ck *checks) checkClang(t *target, s manifest.Source) bool {
	had := len(ck.list)
	k, clang := ck.facts.CUDA, ck.clang()
	if relocatable(s) && !ck.clangLinks() {
		ck.errorf(t.modePos(s), fmt.Sprintf(`Set mode = "whole", or use clang %d or newer, or `, clangcuda.FirstMajor)+useNVCC+".",
			"%s: clang %s compiles CUDA in mode whole, not in mode %s", t.label, clang.Driver.Version, s.Mode)
	}
	ck.checkClangCodes(t, t.codesOf(s))
	ck.checkClangFloats(t)
	ck.checkClangFlags(t, s)
	ck.checkDepends(t, s.Flags.Clang, s.Flags.Host)
	ck.notBeside(t, s, slices.Concat(s.Flags.Clang, s.Flags.Host))
	for _, c := range t.codesOf(s).sass {
		if !slices.Contains(k.Archs, c) {
			return false // expand reported it
		}
	}
	return len(ck.list) == had
}

// checkClangCodes rejects codes that clang puts into no object.
func (ds *diagnostics) checkClangCodes(t *target, codes codes) {
	if len(codes.lto) > 0 {
		ds.errorf(t.attr("gencode"), "Drop it, or "+useNVCC+".", "%s ships %s: clang makes no LTO-IR", t.label, spell(codes.lto))
	}
	for _, c := range codes.ptx {
		sass := c.As(gencode.SASS)
		if !slices.Contains(codes.sass, sass) {
			ds.errorf(t.attr("gencode"), "Add "+sass.String()+".",
				"%s ships %s without %s: clang puts PTX into an object only beside machine code", t.label, c, sass)
		}
	}
	if len(codes.sass) == 0 && len(codes.ptx) == 0 && len(codes.lto) == 0 {
		ds.errorf(t.attr("gencode"), `Set code = ["sm_80"], say.`, "%s has CUDA sources and does not say for which GPUs", t.label)
	}
}

// checkClangFloats rejects attributes that clang has no option for.
func (ds *diagnostics) checkClangFloats(t *target) {
	for _, f := range []struct {
		on   *bool
		name string
	}{{t.PrecDiv, "prec_div"}, {t.PrecSqrt, "prec_sqrt"}} {
		if f.on != nil {
			ds.errorf(t.attr(f.name), "Remove it: fast_math chooses both for clang. Or "+useNVCC+".",
				"%s: clang has no option for %s", t.label, f.name)
		}
	}
}

// checkClangFlags rejects nvcc flags that would be dropped silently. A manifest for both compilers
// has flags for both.
func (ds *diagnostics) checkClangFlags(t *target, s manifest.Source) {
	for _, f := range []struct {
		tool  string
		flags []string
	}{{"nvcc", s.Flags.NVCC}, {"cicc", s.Flags.CICC}} {
		if len(f.flags) > 0 && len(s.Flags.Clang) == 0 {
			ds.errorf(t.attr("flags"), "Say in flags.clang what clang gets. With flags for both, each compiler gets its own.",
				"%s is compiled by clang, which does not get flags.%s (%s)", t.label, f.tool, strings.Join(f.flags, " "))
		}
	}
	for _, f := range s.Flags.Clang {
		if f == "--no-offload-new-driver" && relocatable(s) {
			ds.errorf(t.flag(s.Flags, f), `Remove it, or set mode = "whole".`, "%s: clang's link ignores relocatable code of the old offload driver (%s)", t.label, f)
		}
		if strings.HasPrefix(f, "--cuda-path") || strings.HasPrefix(f, "--ptxas-path") {
			ds.errorf(t.attr("flags"), "Remove it and set CUDA_HOME.",
				"%s: %s would compile with another toolkit than the one that was found", t.label, f)
		}
	}
}
