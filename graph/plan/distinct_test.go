package plan

import (
	"testing"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A diagnostic is reported once, and only an error fails a plan.
func TestDiagnostics(t *testing.T) {
	var p toolchain.Diagnostics
	pos := manifest.Pos{File: "kernels.hcl", Line: 1}
	p.Warnf(pos, "", "%s is old", "sm_50")
	p.Warnf(pos, "", "%s is old", "sm_50")
	if list := distinct(p.List); len(list) != 1 || p.HasErrors() {
		t.Errorf("%+v", p)
	}
	p.Errorf(pos, "Drop it.", "%s is unknown", "sm_1")
	if list := distinct(p.List); len(list) != 2 || !p.HasErrors() || list[1].Summary != "sm_1 is unknown" || list[1].Detail != "Drop it." {
		t.Errorf("%+v", list)
	}
}
