package hostcode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// A precompiled header in a folder of -I is in no dependency file, and neither is its header.
func TestPrecompiledSearched(t *testing.T) {
	t.Parallel()
	p := e2e.Bare(t)
	p.Write("kernels.hcl", "executable \"m\" {\n  sources = [\"m.cpp\"]\n  includes = [\"first\", \"inc\"]\n}\n")
	p.Write("m.cpp", "#include <h.h>\nint main() { return VALUE; }\n")
	source := "; printf '%s\nint main() { return VALUE; }\n' >m.cpp"

	precompile := func(dir string, value int) string {
		return fmt.Sprintf("echo '#define VALUE %d' >%s/h.h; g++ -O2 -x c++-header %[2]s/h.h -o %[2]s/h.h.gch", value, dir)
	}
	for _, step := range []struct {
		edit string
		want int
	}{
		{precompile("inc", 3), 3},
		{precompile("inc", 4), 4},
		{"rm inc/h.h.gch; echo '#define VALUE 5' >inc/h.h", 5},
		{"mkdir first/h.h.gch; echo '#define VALUE 20' >g.h; g++ -O2 -x c++-header g.h -o first/h.h.gch/x", 20},
		{"rm -r first/h.h.gch", 5},
		{precompile("inc", 6), 6},
		{"rm -r build", 6},
		{"echo '#define VALUE 7' >first/h.h", 7},
		{"rm first/h.h", 6},
		{precompile("first", 8) + "; rm first/h.h", 8},
		{precompile("inc/sub", 9) + fmt.Sprintf(source, `#define H <sub/h.h>\n#include H`), 9},
		{precompile("inc/sub", 10), 10},
		{precompile("first/sub", 11), 11},
		{precompile("first/sub", 12) + fmt.Sprintf(source, `#define H(x) <sub/x.h>\n#include H(h)`), 12},
		{precompile("first/sub", 13), 13},
	} {
		p.Run("sh", "-c", "mkdir -p inc/sub first/sub; "+step.edit)
		p.Run("kbuild")
		p.Run("sh", "-c", fmt.Sprintf("build/bin/m; [ $? = %d ]", step.want))
	}
}

// #pragma GCC dependency warns by the time of a file that no dependency file names.
func TestPragmaDependency(t *testing.T) {
	t.Parallel()
	p := e2e.Bare(t)
	p.Write("kernels.hcl", "library \"m\" {\n  sources = [\"m.cpp\"]\n}\n")
	p.Write("grammar.y", "")
	p.Write("m.cpp", "#pragma GCC dependency \"grammar.y\"\n")
	p.Run("kbuild")
	p.Run("touch", "-d", "+1 hour", "grammar.y")
	if _, out := p.Run("kbuild"); !strings.Contains(out, "current file is older than") {
		t.Errorf("the compiler did not run:\n%s", out)
	}
}
