package nvcc

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Floating-point options, which LTO-IR records and nvlink compares.

// recordedFloats parses cicc options: "-ftz=0 -prec_div=1 -prec_sqrt=1 -fmad=1". ok is false if one
// is missing.
func recordedFloats(text string) (f toolchain.Floats, ok bool) {
	options := map[string]*bool{"-ftz": &f.FTZ, "-prec_div": &f.PrecDiv, "-prec_sqrt": &f.PrecSqrt, "-fmad": &f.FMAD}
	found := map[string]bool{}
	for _, arg := range strings.Fields(text) {
		name, value, _ := strings.Cut(arg, "=")
		if on := options[name]; on != nil {
			*on = value == "1"
			found[name] = *on || value == "0"
		}
	}
	return f, found["-ftz"] && found["-prec_div"] && found["-prec_sqrt"] && found["-fmad"]
}

// floatsInDryRun returns the floating-point options in the dry run of q, even if the dry run cannot
// be split; nil if it has none.
func floatsInDryRun(b *toolchain.Build, q toolchain.Question) *toolchain.Floats {
	toolchain.Learn(&b.Answers, q, LearnCompile) // records the query if needed
	for line := range strings.Lines(b.Answers.Runs[q.Key()].Text) {
		if f, ok := recordedFloats(line); ok {
			return &f
		}
	}
	return nil
}

// compiled is LTO-IR with its floating-point options.
type compiled struct {
	*toolchain.Target
	what   string
	floats toolchain.Floats
}

// linkedLTO returns the LTO-IR in a link, with its options from the manifest or as cicc recorded
// them in the file. It omits code without recorded options; nvlink checks that.
func linkedLTO(inputs []toolchain.LinkInput) (list []compiled) {
	for _, u := range inputs {
		if u.LTO && (u.Kind != manifest.Prebuilt || u.Library.Form == "LTO-IR") {
			list = append(list, compiled{u.Target, u.Label, u.FloatOptions()})
			continue
		}
		for _, m := range u.Library.Members {
			for _, text := range m.Options {
				if f, ok := recordedFloats(text); ok && u.LTO && m.NVLinkReads() {
					list = append(list, compiled{u.Target, u.MemberNames([]toolchain.Member{m}), f})
				}
			}
		}
	}
	return list
}

// forgets reports whether a prebuilt has LTO-IR that does not record its options; nvlink may refuse
// it.
func forgets(u *toolchain.Target) bool {
	return slices.ContainsFunc(linkedMembers(u), func(m toolchain.Member) bool {
		return slices.ContainsFunc(m.Options, func(text string) bool { _, ok := recordedFloats(text); return !ok })
	})
}

// arithmetic returns the nvlink options that make a link of t compute as its code was compiled.
func (k *Toolchain) arithmetic(b *toolchain.Build, p *toolchain.Plan, t *toolchain.Target, inputs []toolchain.LinkInput) []string {
	all, wanted := linkedLTO(inputs), t.LTOFloats == nil || *t.LTOFloats
	if k.LTOFloats == "" || !wanted || len(all) == 0 {
		return nil
	}
	f := all[0].floats
	forgotten := toolchain.DefaultFloats
	if forgotten.PrecSqrt = f.PrecSqrt; f == forgotten { // nvlink passes -prec-sqrt on
		return nil
	}
	const reported = "floats"
	pos, silent := all[0].FloatPos(f, forgotten), t.LTOFloats != nil || b.Reported[reported]
	switch {
	case k.LTOFloats == cuda.FloatsLost:
		p.Errorf(pos, `Use mode = "rdc", or lto_floats = false for arithmetic by nvlink's defaults.`,
			"nvlink of CUDA %s forgets how LTO code was compiled (%s), and cannot be told", k.Version, f)
	case silent:
	case k.LTOFloats == cuda.FloatsUntried:
		p.Warnf(pos, "That of CUDA 13 forgets it. Set lto_floats = true to have it told, or false to leave it to nvlink.",
			"kbuild could not try whether nvlink of CUDA %s remembers how LTO code was compiled (%s)", k.Version, f)
	default:
		p.Warnf(pos, "Plain nvcc -dlto computes otherwise than the manifest says. Set lto_floats = true to build without this word, or false for what plain nvcc makes.",
			"nvlink of CUDA %s forgets how LTO code was compiled (%s); kbuild tells it", k.Version, f)
	}
	if t.LTOFloats == nil && k.LTOFloats != cuda.FloatsLost {
		b.Once(reported)
	}
	if k.LTOFloats == cuda.FloatsUntried && t.LTOFloats == nil {
		return nil // nvlink up to 12.4 rejects the option
	}
	return []string{cuda.Arithmetic(f)}
}

// checkLTO rejects inputs whose floating-point options differ. nvlink would refuse them too, but
// minutes into the build and without naming a file. -G with -dlto is fatal.
func (k *Toolchain) checkLTO(p *toolchain.Plan, t *toolchain.Target, inputs []toolchain.LinkInput) {
	if k.LTOFault != "" && k.LibNVVM == "" {
		p.Errorf(t.Pos, k.LTOFault, "this CUDA toolkit cannot link with LTO")
	}
	for _, u := range inputs {
		if u.LTO && u.Kind != manifest.Prebuilt && u.DeviceDebug {
			p.Errorf(u.Attr("device_debug"), `Use mode = "rdc" while debugging device code.`, "%s has device_debug and LTO: nvlink refuses -G with -dlto", u.Label)
		}
	}
	all := linkedLTO(inputs)
	told := map[*toolchain.Target]bool{}
	for _, c := range all {
		if first := all[0]; c.floats != first.floats && c.Target != first.Target && !told[c.Target] {
			told[c.Target] = true
			fix := "set them in defaults, or build one of the two with mode = \"rdc\"."
			if c.Kind == manifest.Prebuilt || first.Kind == manifest.Prebuilt {
				fix = "compile what is built here as what is prebuilt, or with mode = \"rdc\", or ask the vendor for another build."
			}
			p.Bothf(c.FloatPos(c.floats, first.floats), first.FloatPos(first.floats, c.floats), first.what+" is compiled so",
				"Floating-point options must agree across one LTO link: "+fix,
				"cannot link %s (%s) with %s (%s) under LTO", c.what, c.floats, first.what, first.floats)
		}
	}
}
