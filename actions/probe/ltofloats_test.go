package probe

import (
	"path/filepath"
	"testing"
)

// TestLTOFloats takes toolkits whose nvlink remembers the floating-point options of LTO-IR, is told
// them, or cannot be told.
func TestLTOFloats(t *testing.T) {
	const forgets = "fma.rn.f32 %f4, %f1, %f2, %f3;"
	const remembers = "mul.rn.ftz.f32 %f3, %f1, %f2;"
	for want, ptx := range map[string][2]string{
		"":     {remembers, remembers}, // 11.8, 12.4: knows no -Xnvvm
		"told": {forgets, remembers},   // 13.0 to 13.5
		"lost": {forgets, forgets},
	} {
		tk := toolkitDir(t, "13.5", "15")
		write(t, filepath.Join(tk, "bin/nvlink"), `#!/bin/sh
says='`+ptx[0]+`'
for a; do
	case $a in *.ptx) out=$a;; -Xnvvm=-ftz=1,-prec-div=1,-fma=0) says='`+ptx[1]+`';; esac
done
echo "$says" >"$out"
`, 0o755)
		if k, _ := factsOf(t, tk); string(k.LTOFloats) != want {
			t.Errorf("%q, want %q", k.LTOFloats, want)
		}
	}
	if k, _ := factsOf(t, toolkitDir(t, "13.5", "15")); k.LTOFloats != "untried" {
		t.Errorf("a toolkit that cannot be tried: %q", k.LTOFloats)
	}
}
