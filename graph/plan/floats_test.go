package plan

import (
	"testing"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// An option that the manifest does not say as the code was compiled comes of flags, where there are
// any.
func TestFloatPos(t *testing.T) {
	yes, no := true, false
	told := floatOptions{ftz: true, precDiv: true, precSqrt: true, fmad: false}
	at := &target{Target: &manifest.Target{FMAD: &no, FTZ: &no, PrecSqrt: &yes, Pos: manifest.Pos{Line: 1}, AttrPos: map[string]manifest.Pos{
		"fmad": {Line: 2}, "ftz": {Line: 3}, "prec_sqrt": {Line: 4}, "flags": {Line: 5}}}, toldCICC: &told}
	for _, c := range []struct {
		other floatOptions
		line  int
	}{
		{defaultFloats, 5},
		{floatOptions{ftz: true, precDiv: true, precSqrt: true, fmad: true}, 2},
		{floatOptions{ftz: true, precDiv: true}, 4},
		{floatOptions{ftz: true, precSqrt: true}, 1},
	} {
		if pos := floatPos(at, floats(at), c.other); pos.Line != c.line {
			t.Errorf("%s against %s: line %d, want %d", told, c.other, pos.Line, c.line)
		}
	}
}
