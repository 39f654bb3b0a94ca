package importer_test

import (
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// TestTraps builds a tree in which each source is a trap of its own: it compiles in one way only,
// or not at all.
func TestTraps(t *testing.T) {
	t.Parallel()
	p := e2e.Unpack(t, "traps")
	p.Use(tooltest.Toolkit{})
	p.Need("hipcc")
	p.Run("sh", "-c", "cd third_party && gcc -c vendor.c && ar qcsD libvendor.a vendor.o && rm vendor.o vendor.c")
	_, printed := p.Run("kbuild", "init")
	for _, want := range []string{"<no/such/window.h> was not found, for outside/window.cu", "src/forgotten.cu", "src/steps.cu"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not said: %s", want, printed)
		}
	}
	if c := p.Kbuild(); c.Failed != 0 {
		t.Errorf("%+v", c)
	}
	if out, _ := p.Run("build/bin/show"); out != "4.2 1 4\n" {
		t.Errorf("show says %q", out)
	}
	for _, name := range []string{"runtime", "speed", "linked"} {
		p.Run("build/bin/" + name)
	}
	if got := p.ELFs("build/bin/show"); got != "sm_80" {
		t.Errorf("machine code %q", got)
	}
	text := string(p.Read("kernels.hcl"))
	for _, want := range []string{
		"# Needs <no/such/window.h>, not found: outside/window.cu:1.\nexecutable \"window\"",
		"# Needs blob, which no source defines: outside/blob.cu.\nexecutable \"blob\"",
		"# nested/sort.cu:2 launches a kernel in device code.",
		"# Ray::at of src/ray.cu:2 is called in src/trace.cu.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q:\n%s", want, text)
		}
	}
	p.Run("kbuild", "fmt", "--check")
	if c := p.Kbuild(); c.Ran != 0 {
		t.Errorf("again: %+v", c)
	}
}
