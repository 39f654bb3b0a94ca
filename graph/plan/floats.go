package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Floating-point options, which LTO-IR records and nvlink compares.

// floatOptions holds the options that cicc records in LTO-IR.
type floatOptions struct{ ftz, precDiv, precSqrt, fmad bool }

func (f floatOptions) String() string {
	return fmt.Sprintf("ftz=%t prec_div=%t prec_sqrt=%t fmad=%t", f.ftz, f.precDiv, f.precSqrt, f.fmad)
}

// defaultFloats holds nvcc's defaults.
var defaultFloats = floatOptions{precDiv: true, precSqrt: true, fmad: true}

// floats returns the options of t's attributes, or those of cicc's command if other settings
// override them (NVCC_APPEND_FLAGS, flags.cicc).
func floats(t *target) floatOptions {
	if t.toldCICC != nil {
		return *t.toldCICC
	}
	return writtenFloats(t)
}

// writtenFloats returns the attributes of t, with fast_math resolved.
func writtenFloats(t *target) floatOptions {
	val := func(p *bool, fast, def bool) bool {
		if p != nil {
			return *p
		}
		if t.FastMath {
			return fast
		}
		return def
	}
	d := defaultFloats
	return floatOptions{val(t.FTZ, true, d.ftz), val(t.PrecDiv, false, d.precDiv), val(t.PrecSqrt, false, d.precSqrt), val(t.FMAD, true, d.fmad)}
}

// floatAttributes lists the attributes that set one option, in the order of byName.
var floatAttributes = [...]string{"ftz", "prec_div", "prec_sqrt", "fmad"}

func (f floatOptions) byName() [len(floatAttributes)]bool {
	return [...]bool{f.ftz, f.precDiv, f.precSqrt, f.fmad}
}

// floatPos returns the position that makes t compile as f and not as other, for the first option
// that differs and has a known position. It is the option's attribute, fast_math, or the flags that
// override both.
func floatPos(t *target, f, other floatOptions) manifest.Pos {
	written := writtenFloats(t)
	for i, name := range floatAttributes {
		if f.byName()[i] == other.byName()[i] {
			continue
		}
		pos := t.anyAttr(name, "fast_math")
		if written.byName()[i] != f.byName()[i] {
			pos = t.attr("flags")
		}
		if pos != t.Pos {
			return pos
		}
	}
	return t.Pos
}

// recordedFloats parses cicc options: "-ftz=0 -prec_div=1 -prec_sqrt=1 -fmad=1". ok is false if one
// is missing.
func recordedFloats(text string) (f floatOptions, ok bool) {
	found := map[string]bool{}
	for _, arg := range strings.Fields(text) {
		name, value, _ := strings.Cut(arg, "=")
		on := value == "1"
		found[name] = on || value == "0"
		switch name {
		case "-ftz":
			f.ftz = on
		case "-prec_div":
			f.precDiv = on
		case "-prec_sqrt":
			f.precSqrt = on
		case "-fmad":
			f.fmad = on
		}
	}
	return f, found["-ftz"] && found["-prec_div"] && found["-prec_sqrt"] && found["-fmad"]
}

// tellsCICC returns the floating-point options in the dry run of q, even if the dry run cannot be
// split; nil if it has none.
func (b *builder) tellsCICC(q toolchain.Question) *floatOptions {
	learn(&b.answers, q, nvcc.LearnCompile) // records the query if needed
	for line := range strings.Lines(b.answers.runs[q.Key()].Text) {
		if f, ok := recordedFloats(line); ok {
			return &f
		}
	}
	return nil
}

// compiled is LTO-IR with its floating-point options.
type compiled struct {
	t      *target
	what   string
	floats floatOptions
}

// compiledWith returns the options of t's LTO-IR, from the manifest or as cicc recorded them in the
// file. It omits code without recorded options; nvlink checks that.
func (g *given) compiledWith(t *target) (list []compiled) {
	lib := g.facts.Prebuilt[t.file]
	if t.Kind != manifest.Prebuilt || lib.Form == "LTO-IR" {
		return []compiled{{t, t.label, floats(t)}}
	}
	for _, m := range lib.Members {
		for _, text := range m.Options {
			if f, ok := recordedFloats(text); ok && m.NVLinkReads() {
				list = append(list, compiled{t, memberNames(t, []Member{m}), f})
			}
		}
	}
	return list
}

// untold reports whether t has LTO-IR that does not record its options; nvlink may refuse it.
func (g *given) untold(t *target) bool {
	return slices.ContainsFunc(g.linkedMembers(t), func(m Member) bool {
		return slices.ContainsFunc(m.Options, func(text string) bool { _, ok := recordedFloats(text); return !ok })
	})
}

func howToAgree(a, c *target) string {
	if a.Kind == manifest.Prebuilt || c.Kind == manifest.Prebuilt {
		return "compile what is built here as what is prebuilt, or with mode = \"rdc\", or ask the vendor for another build."
	}
	return "set them in defaults, or build one of the two with mode = \"rdc\"."
}

// linkedLTO returns the LTO-IR in a link.
func (g *given) linkedLTO(linked []linkInput) (all []compiled) {
	for _, p := range linked {
		if p.lto {
			all = append(all, g.compiledWith(p.t)...)
		}
	}
	return all
}

// arithmetic returns the nvlink options that make a link of t compute as its code was compiled.
func (ck *checks) arithmetic(t *target, linked []linkInput) []string {
	k, all := ck.facts.CUDA, ck.linkedLTO(linked)
	wanted := t.LTOFloats == nil || *t.LTOFloats
	if k == nil || k.LTOFloats == "" || !wanted || len(all) == 0 {
		return nil
	}
	f := all[0].floats
	forgotten := defaultFloats
	if forgotten.precSqrt = f.precSqrt; f == forgotten { // nvlink passes -prec-sqrt on
		return nil
	}
	pos, silent := floatPos(all[0].t, f, forgotten), t.LTOFloats != nil || ck.floatsReported
	switch {
	case k.LTOFloats == FloatsLost:
		ck.errorf(pos, `Use mode = "rdc", or lto_floats = false for arithmetic by nvlink's defaults.`,
			"nvlink of CUDA %s forgets how LTO code was compiled (%s), and cannot be told", k.Version, f)
	case silent:
	case k.LTOFloats == FloatsUntried:
		ck.warnf(pos, "That of CUDA 13 forgets it. Set lto_floats = true to have it told, or false to leave it to nvlink.",
			"kbuild could not try whether nvlink of CUDA %s remembers how LTO code was compiled (%s)", k.Version, f)
	default:
		ck.warnf(pos, "Plain nvcc -dlto computes otherwise than the manifest says. Set lto_floats = true to build without this word, or false for what plain nvcc makes.",
			"nvlink of CUDA %s forgets how LTO code was compiled (%s); kbuild tells it", k.Version, f)
	}
	ck.floatsReported = ck.floatsReported || t.LTOFloats == nil && k.LTOFloats != FloatsLost
	if k.LTOFloats == FloatsUntried && t.LTOFloats == nil {
		return nil // nvlink up to 12.4 rejects the option
	}
	return []string{nvcc.Arithmetic(f.ftz, f.precDiv, f.fmad)}
}

// checkLTO rejects inputs whose floating-point options differ. nvlink would refuse them too, but
// minutes into the build and without naming a file. -G with -dlto is fatal.
func (ck *checks) checkLTO(t *target, linked []linkInput) {
	if ck.facts.CUDA.LTOFault != "" && ck.facts.CUDA.LibNVVM == "" {
		ck.errorf(t.Pos, ck.facts.CUDA.LTOFault, "this CUDA toolkit cannot link with LTO")
	}
	for _, p := range linked {
		if p.lto && p.t.Kind != manifest.Prebuilt && p.t.DeviceDebug {
			ck.errorf(p.t.attr("device_debug"), `Use mode = "rdc" while debugging device code.`, "%s has device_debug and LTO: nvlink refuses -G with -dlto", p.t.label)
		}
	}
	all := ck.linkedLTO(linked)
	told := map[*target]bool{}
	for _, c := range all {
		if first := all[0]; c.floats != first.floats && c.t != first.t && !told[c.t] {
			told[c.t] = true
			ck.bothf(floatPos(c.t, c.floats, first.floats), floatPos(first.t, first.floats, c.floats), first.what+" is compiled so",
				"Floating-point options must agree across one LTO link: "+howToAgree(c.t, first.t),
				"cannot link %s (%s) with %s (%s) under LTO", c.what, c.floats, first.what, first.floats)
		}
	}
}
