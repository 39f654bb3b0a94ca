package toolchain

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Floats holds the floating-point options that a compiler records in LTO-IR.
type Floats struct{ FTZ, PrecDiv, PrecSqrt, FMAD bool }

func (f Floats) String() string {
	return fmt.Sprintf("ftz=%t prec_div=%t prec_sqrt=%t fmad=%t", f.FTZ, f.PrecDiv, f.PrecSqrt, f.FMAD)
}

// DefaultFloats holds nvcc's defaults.
var DefaultFloats = Floats{PrecDiv: true, PrecSqrt: true, FMAD: true}

// FloatAttributes lists the attributes that set one option, in the order of ByName.
var FloatAttributes = [...]string{"ftz", "prec_div", "prec_sqrt", "fmad"}

// ByName returns the options in the order of FloatAttributes.
func (f Floats) ByName() [len(FloatAttributes)]bool {
	return [...]bool{f.FTZ, f.PrecDiv, f.PrecSqrt, f.FMAD}
}

// FloatOptions returns the options of t's attributes, or those of its compiler's dry run if other
// settings override them (NVCC_APPEND_FLAGS, flags.cicc).
func (t *Target) FloatOptions() Floats {
	if t.Floats != nil {
		return *t.Floats
	}
	return t.writtenFloats()
}

// writtenFloats returns the attributes of t, with fast_math resolved.
func (t *Target) writtenFloats() Floats {
	val := func(p *bool, fast, def bool) bool {
		if p != nil {
			return *p
		}
		if t.FastMath {
			return fast
		}
		return def
	}
	d := DefaultFloats
	return Floats{val(t.FTZ, true, d.FTZ), val(t.PrecDiv, false, d.PrecDiv), val(t.PrecSqrt, false, d.PrecSqrt), val(t.FMAD, true, d.FMAD)}
}

// FloatPos returns the position that makes t compile as f and not as other, for the first option
// that differs and has a known position. It is the option's attribute, fast_math, or the flags that
// override both.
func (t *Target) FloatPos(f, other Floats) manifest.Pos {
	written := t.writtenFloats()
	for i, name := range FloatAttributes {
		if f.ByName()[i] == other.ByName()[i] {
			continue
		}
		pos := t.AnyAttr(name, "fast_math")
		if written.ByName()[i] != f.ByName()[i] {
			pos = t.Attr("flags")
		}
		if pos != t.Pos {
			return pos
		}
	}
	return t.Pos
}
