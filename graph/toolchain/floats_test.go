package toolchain

import (
	"testing"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// An option that the manifest does not say as the code was compiled comes of flags, where there are
// any.
func TestFloatPos(t *testing.T) {
	yes, no := true, false
	told := Floats{FTZ: true, PrecDiv: true, PrecSqrt: true, FMAD: false}
	at := &Target{Target: &manifest.Target{FMAD: &no, FTZ: &no, PrecSqrt: &yes, Pos: manifest.Pos{Line: 1}, AttrPos: map[string]manifest.Pos{
		"fmad": {Line: 2}, "ftz": {Line: 3}, "prec_sqrt": {Line: 4}, "flags": {Line: 5}}}, Floats: &told}
	for _, c := range []struct {
		other Floats
		line  int
	}{
		{DefaultFloats, 5},
		{Floats{FTZ: true, PrecDiv: true, PrecSqrt: true, FMAD: true}, 2},
		{Floats{FTZ: true, PrecDiv: true}, 4},
		{Floats{FTZ: true, PrecSqrt: true}, 1},
	} {
		if pos := at.FloatPos(at.FloatOptions(), c.other); pos.Line != c.line {
			t.Errorf("%s against %s: line %d, want %d", told, c.other, pos.Line, c.line)
		}
	}
}
