package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Options that host compilers and device compilers have in common.

// languageFlag returns the language to pass to the compiler, "" if the source's extension implies
// it. Assembler is always named: the scanner for included files recognises it in the command.
func languageFlag(s manifest.Source) string {
	switch {
	case s.Language == "asm" && path.Ext(s.Path) == ".s":
		return host.Assembler
	case s.Language == "asm":
		return host.AssemblerWithCPP
	case manifest.LanguageOf(s.Path) == s.Language:
		return ""
	}
	return s.Language
}

func defines(list []manifest.Define) []string {
	var out []string
	for _, d := range list {
		if d.Value == nil {
			out = append(out, d.Name)
		} else {
			out = append(out, d.Name+"="+*d.Value)
		}
	}
	return out
}

// checkDepends rejects flags that make a compiler omit headers from its dependency file. Given -MD
// and -MMD in any order, gcc obeys -MMD and omits all headers of the system and of -isystem.
func (ds *diagnostics) checkDepends(t *target, flags ...[]string) {
	for _, f := range slices.Concat(flags...) {
		if strings.Contains(f, "-MMD") || strings.Contains(f, "-Wp,-M") || f == "-M" || f == "-MM" {
			ds.errorf(t.attr("flags"), "Remove it: kbuild asks for all dependencies itself.",
				"%s has the flag %s, with which a compiler does not list all files that it reads", t.label, f)
		}
	}
}

// hostOptions returns the options of a CUDA source's host compiler, from the environment and the
// manifest.
func (g *given) hostOptions(flags *manifest.Flags) []string {
	return slices.Concat(nvcc.HostOptions(g.facts.NVCCFlags), nvcc.HostOptions(flags.NVCC), flags.Host)
}

// commonOptions returns the attributes of t and its source s that all device compilers accept.
func commonOptions(t *target, s manifest.Source, inc []string) toolchain.Options {
	return toolchain.Options{
		Std: s.Std, Opt: s.Opt, Includes: inc, Defines: defines(s.Defines), FastMath: t.FastMath, FTZ: t.FTZ, PrecDiv: t.PrecDiv, FMAD: t.FMAD,
		Debug: t.Debug, DeviceDebug: t.DeviceDebug, LineInfo: t.LineInfo, PIC: t.pic, Host: s.Flags.Host,
	}
}
