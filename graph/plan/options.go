package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// What compilers of host code, and of device code, are told alike.

// languageFlag is the language when the ending of the source does not say it. That of assembler is
// always named, for the reader of the command that looks for what the assembler includes.
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

// checkDepends refuses what makes a compiler leave headers out of its dependency file: of -MD and
// -MMD gcc takes -MMD, wherever they stand, and is silent about all headers of the system and of
// -isystem.
func (ds *diagnostics) checkDepends(t *target, flags ...[]string) {
	for _, f := range slices.Concat(flags...) {
		if strings.Contains(f, "-MMD") || strings.Contains(f, "-Wp,-M") || f == "-M" || f == "-MM" {
			ds.errorf(t.attr("flags"), "Remove it: kbuild asks for all dependencies itself.",
				"%s has the flag %s, with which a compiler does not list all files that it reads", t.label, f)
		}
	}
}

// hostOptions are what the host compiler of a CUDA source gets by the manifest and by the
// environment.
func (g *given) hostOptions(flags *manifest.Flags) []string {
	return slices.Concat(nvcc.HostOptions(g.facts.NVCCFlags), nvcc.HostOptions(flags.NVCC), flags.Host)
}

// commonOptions are the attributes of t, and of its source s, that all compilers of device code
// take.
func commonOptions(t *target, s manifest.Source, inc []string) compiler.Options {
	return compiler.Options{
		Std: s.Std, Opt: s.Opt, Includes: inc, Defines: defines(s.Defines), FastMath: t.FastMath, FTZ: t.FTZ, PrecDiv: t.PrecDiv, FMAD: t.FMAD,
		Debug: t.Debug, DeviceDebug: t.DeviceDebug, LineInfo: t.LineInfo, PIC: t.pic, Host: s.Flags.Host,
	}
}
