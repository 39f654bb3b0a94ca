package engine

import (
	"slices"
	"testing"
)

// What a plan warns of is told by every build, also by one that makes none.
func TestWarningsAreTold(t *testing.T) {
	p := newProject(t, map[string]string{
		"kernels.hcl": `
variable "def" {
  type = string
}

executable "app" {
  sources = ["a.cu"]
  defines = { N = var.def }
  code    = ["sm_80", "compute_80"]
  mode    = "rdc"
}
`,
		"a.cu": "__global__ void k() {}\nint main() {}\n",
	})
	t.Setenv("KBUILD_VAR_unknown", "1") // of which the manifest warns, where the plan warns of the code
	first := p.build()
	if first.err != nil || first.sum.Failed > 0 || len(first.warned) != 2 {
		t.Fatalf("%s: %q", first, first.warned)
	}
	check := func(what, way string) {
		t.Helper()
		if f := p.build(); f.way != way || !slices.Equal(f.warned, first.warned) {
			t.Errorf("%s: %s: it says %q, want %q", what, f, f.warned, first.warned)
		}
	}
	check("again", "view")
	p.write("a.cu", "__global__ void edited() {}\nint main() {}\n")
	check("after an edit", "part")
	check("after a part", "view")
	p.replace("kernels.hcl", `, "compute_80"`, "")
	if f := p.build(); !slices.Equal(f.warned, first.warned[:1]) {
		t.Errorf("after the cause has gone: %s: %q", f, f.warned)
	}
	first.warned = first.warned[:1]
	check("in the end", "view")
}
